"""A run whose checkpoints and results are on S3, over HTTP, and which an observer hears of."""

import secrets
from collections import Counter
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from precis.llm.loop_server import LoopServer
from precis.run.checkpoints import committed_steps
from precis.store.s3 import S3Store
from tests.services.conftest import Precis
from tests.services.s3_server import s3_server, settings_for

SECRET = "a-secret-that-must-not-be-seen"
KEY = "opk-that-must-not-be-seen"
CONFIG: dict[str, Any] = {
    "model": "stored",
    "steps": 1,
    "documents": {"source": "bundled", "train_size": 40, "val_size": 4},
    "rollouts": {"groups_per_step": 2, "rollouts_per_group": 4},
}


def reach(s3: str) -> dict[str, str]:
    return {
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": s3,
    }


async def test_a_run_on_s3_is_benchmarked_there_and_each_of_its_completions_reported(
    precis: Precis,
) -> None:
    reported: list[dict[str, Any]] = []

    async def report(request: Request) -> JSONResponse:
        """OpenPipe's reporting endpoint."""
        assert request.headers["authorization"] == f"Bearer {KEY}"
        reported.append(await request.json())
        return JSONResponse({})

    bucket = f"precis-{secrets.token_hex(4)}"
    openpipe = LoopServer(Starlette(routes=[Route("/api/v1/report", report, methods=["POST"])]))
    await openpipe.start()
    with s3_server() as url:
        code, output = await precis.train(
            {**CONFIG, "store": f"s3://{bucket}/runs"},
            **reach(url),
            PRECIS_S3_CREATE_BUCKET="1",
            OPENPIPE_API_KEY=KEY,
            OPENPIPE_BASE_URL=f"http://127.0.0.1:{openpipe.port}/api/v1",
        )
        assert code == 0, output
        assert SECRET not in output and KEY not in output
        store = S3Store(bucket, "runs", settings_for(url))
        assert committed_steps(store, "stored") == [0, 1]
        benchmark = "stored/benchmarks/0001"
        assert {f"{benchmark}/report.html", f"{benchmark}/results.parquet"} <= set(
            store.keys("stored/")
        )
    await openpipe.stop()
    told = Counter(one["metadata"]["split"] for one in reported)
    # A step of 2 × 4, two validations of 4 documents, and two checkpoints and four baselines.
    assert told == {"train": 8, "validation": 2 * 4, "benchmark": 6 * 4}
    ids = [one["metadata"]["id"] for one in reported]
    assert len(set(ids)) == len(ids)
    trained = next(one for one in reported if one["metadata"]["split"] == "train")
    assert trained["reqPayload"]["model"] == "stored@0"
    assert 0 <= float(trained["metadata"]["score.reward"]) <= 1
