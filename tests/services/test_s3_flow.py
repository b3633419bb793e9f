"""The whole pipeline with its checkpoints on S3, over HTTP."""

import secrets
from pathlib import Path

from precis.records.ledger import load_ledger
from precis.run.checkpoints import committed_steps
from precis.store import open_store
from precis.store.s3 import S3Store
from tests.services.conftest import Precis
from tests.services.s3_server import s3_server, settings_for

SECRET = "a-secret-that-must-not-be-seen"


async def test_a_run_on_s3_ends_as_one_in_a_folder(precis: Precis, tmp_path: Path) -> None:
    bucket = f"precis-{secrets.token_hex(4)}"
    config = {
        "model": "stored",
        "steps": 2,
        "documents": {"source": "bundled", "train_size": 40, "val_size": 4},
        "rollouts": {"groups_per_step": 2, "rollouts_per_group": 4},
    }
    with s3_server() as url:
        environment = {
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": url,
            "PRECIS_S3_CREATE_BUCKET": "1",
        }
        on_s3 = {**config, "store": f"s3://{bucket}/runs"}
        code, output = await precis.train({**on_s3, "steps": 1, "benchmark": False}, **environment)
        assert code == 0, output
        code, output = await precis.train(on_s3, **environment)
        assert code == 0, output
        assert SECRET not in output
        store = S3Store(bucket, "runs", settings_for(url))
        assert committed_steps(store, "stored") == [0, 1, 2]
        assert {"stored/benchmarks/0002/report.html", "stored/benchmarks/0002/results.parquet"} <= (
            set(store.keys("stored/"))
        )
        there = load_ledger(store, "stored")
    in_folder = {**config, "store": str(tmp_path), "benchmark": False}
    code, output = await precis.train(in_folder)
    assert code == 0, output
    here = load_ledger(open_store(str(tmp_path)), "stored")
    assert [one.digest for one in there.steps] == [one.digest for one in here.steps]
    assert [one.score.value for one in there.validations if one.step in (0, 2)] == [
        one.score.value for one in here.validations
    ]


async def test_a_bucket_that_is_not_there_is_named(precis: Precis) -> None:
    with s3_server() as url:
        code, output = await precis.train(
            {"model": "stored", "store": "s3://no-such-bucket-here"}
            | {"documents": {"source": "bundled", "train_size": 40, "val_size": 8}},
            AWS_ACCESS_KEY_ID="test",
            AWS_SECRET_ACCESS_KEY=SECRET,
            AWS_ENDPOINT_URL=url,
        )
    assert code == 1
    assert "no-such-bucket-here" in output.splitlines()[-1]
    assert SECRET not in output
