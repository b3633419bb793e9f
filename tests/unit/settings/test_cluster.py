"""Which machines are rented for which training."""

from typing import Any

import pytest
from pydantic import ValidationError

from precis.config import TrainConfig

RENTED: dict[str, Any] = {
    "store": "s3://bucket/prefix",
    "trainer": {"kind": "art", "engine": {"gpus": 2}},
}


@pytest.mark.parametrize("gpu", ["H100", "H100:1"])
def test_a_machine_with_fewer_gpus_than_are_trained_on_is_not_rented(gpu: str) -> None:
    cluster = {"where": "sky", "gpu": gpu}
    with pytest.raises(ValidationError, match=r"set cluster\.gpu to H100:2"):
        TrainConfig.model_validate({**RENTED, "cluster": cluster})
    enough = {"where": "sky", "gpu": "H100:2"}
    assert TrainConfig.model_validate({**RENTED, "cluster": enough}).cluster.gpus == 2
