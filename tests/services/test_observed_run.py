"""Training and benchmark with an observer's key: every completion is reported."""

from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from precis.llm.loop_server import LoopServer
from tests.services.conftest import Precis

KEY = "opk-that-must-not-be-seen"


class Reports:
    """OpenPipe's reporting endpoint."""

    def __init__(self) -> None:
        self.got: list[dict[str, Any]] = []

    async def __call__(self, request: Request) -> Response:
        assert request.headers["authorization"] == f"Bearer {KEY}"
        self.got.append(await request.json())
        return JSONResponse({})


@pytest.fixture
def reports() -> Reports:
    return Reports()


@pytest.fixture
async def openpipe(reports: Reports) -> AsyncIterator[dict[str, str]]:
    async def report(request: Request) -> Response:
        return await reports(request)

    server = LoopServer(Starlette(routes=[Route("/api/v1/report", report, methods=["POST"])]))
    await server.start()
    base = f"http://127.0.0.1:{server.port}/api/v1"
    yield {"OPENPIPE_API_KEY": KEY, "OPENPIPE_BASE_URL": base}
    await server.stop()


def config(store: Path) -> dict[str, Any]:
    return {
        "model": "observed",
        "steps": 1,
        "store": str(store),
        "documents": {"source": "bundled", "train_size": 40, "val_size": 4},
        "rollouts": {"groups_per_step": 2, "rollouts_per_group": 4},
    }


async def test_every_completion_of_training_and_benchmark_is_reported(
    precis: Precis, reports: Reports, openpipe: dict[str, str], tmp_path: Path
) -> None:
    code, output = await precis.train(config(tmp_path), **openpipe)
    assert code == 0, output
    assert KEY not in output
    told = Counter(report["metadata"]["split"] for report in reports.got)
    # A step of 2 × 4, two validations of 4 documents, and two checkpoints and four baselines.
    assert told == {"train": 8, "validation": 2 * 4, "benchmark": 6 * 4}
    ids = [report["metadata"]["id"] for report in reports.got]
    assert len(set(ids)) == len(ids)
    trained = next(one for one in reports.got if one["metadata"]["split"] == "train")
    assert trained["reqPayload"]["model"] == "observed@0"
    assert 0 <= float(trained["metadata"]["score.reward"]) <= 1
