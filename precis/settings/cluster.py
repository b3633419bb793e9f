"""The settings of the machine that the trainer runs on."""

from typing import Annotated, Literal

from pydantic import Field

from precis.environment import StoreUrl
from precis.record import BoundedFloat, BoundedInt, Matching, Record

Infra = Annotated[
    str,
    Matching(
        r"^[a-z][a-zA-Z0-9-]*(/[^/\s]+)*$",
        "is a cloud in small letters, and its region or cluster after a slash: runpod, "
        "aws/us-east-1 or slurm/lab",
    ),
]
Gpu = Annotated[
    str,
    Matching(
        r"^[A-Za-z0-9.-]+(:[0-9]+)?$",
        "is a GPU as `sky show-gpus` names it, and how many after a colon: H100 or A100-80GB:2",
    ),
]


class ClusterConfig(Record):
    """The trainer's machine, its limits, and its end."""

    where: Literal["local", "sky"] = "local"
    """`local` runs the trainer beside the flow; `sky` on a machine that SkyPilot rents."""
    infra: tuple[Infra, ...] = Field(("runpod",), min_length=1)
    """The places to rent at, in order of preference, as SkyPilot names them: a cloud (`runpod`), a
    region (`aws/us-east-1`), a cluster (`slurm/lab`, `kubernetes`)."""
    gpu: Gpu = "H100:1"
    """The GPU as `sky show-gpus` names it, and how many: `H100:1`."""
    spot: Literal["never", "first", "only"] = "never"
    """The use of spot machines, which the cloud may reclaim: `first` tries every place for one, and
    then all of them on demand."""
    disk_gb: BoundedInt = Field(200, ge=50)
    """Disk of the machine, in GB."""
    autostop_minutes: BoundedInt = Field(10, ge=1)
    """Minutes without a running trainer after which the machine is taken down."""
    client_lost_s: BoundedFloat = Field(600, gt=0)
    """Seconds without a request from the flow after which the trainer exits, and autostop
    begins."""
    hours_max: BoundedFloat = Field(24, gt=0)
    """Hours after which the run stops at its next commit; half an hour later the trainer exits in
    any case."""
    provision_timeout_s: BoundedFloat = Field(2700, gt=0)
    """Deadline for renting a machine, in seconds; RunPod can take half an hour."""
    answer_timeout_s: BoundedFloat = Field(2700, gt=0)
    """Deadline from then until the installed trainer answers, in seconds."""
    destroy_after_run: bool = True
    """Take the machine down after a run that succeeded."""
    keep_on_failure: bool = False
    """Keep the machine after a failed or cancelled run, for a look; autostop still applies."""

    @property
    def gpu_name(self) -> str:
        return self.gpu.partition(":")[0]

    @property
    def gpus(self) -> int:
        return int(self.gpu.partition(":")[2] or 1)


class DownConfig(Record):
    """Taking down the machine of a model."""

    model: str
    """The model whose machine is taken down."""
    store: StoreUrl = Field("", validate_default=True)
    """The store of the run; empty takes the variable PRECIS_STORE, or else .precis/store."""
    force: bool = False
    """Take it down even if a live run uses it."""


class ClusterSweepConfig(Record):
    """Taking down all our machines that no live run uses."""

    spare_hours: BoundedFloat = Field(0, ge=0)
    """Hours after its launch during which a machine is kept, for a look."""
