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
    """The machine that the trainer runs on, for how long, and what becomes of it."""

    where: Literal["local", "sky"] = "local"
    """`local` runs the trainer beside the flow; `sky` on a machine that SkyPilot rents."""
    infra: tuple[Infra, ...] = Field(("runpod",), min_length=1)
    """The places to rent at, in order of preference, as SkyPilot names them: a cloud (`runpod`), a
    region (`aws/us-east-1`), a cluster (`slurm/lab`, `kubernetes`)."""
    gpu: Gpu = "H100:1"
    """The GPU as `sky show-gpus` names it, and how many: `H100:1`."""
    spot: Literal["never", "first", "only"] = "never"
    """The use of machines that the cloud may take back: `first` tries each place for one, then all
    of them on demand."""
    disk_gb: BoundedInt = Field(200, ge=50)
    """Disk of the machine, in GB."""
    autostop_minutes: BoundedInt = Field(10, ge=1)
    """Minutes without a running trainer after which the machine takes itself down."""
    client_lost_s: BoundedFloat = Field(600, gt=0)
    """Seconds without a word from the flow after which the trainer ends, and autostop begins."""
    hours_max: BoundedFloat = Field(24, gt=0)
    """Hours after which the run stops, once it has committed; a while later the trainer ends by
    itself, whatever the flow is doing."""
    provision_timeout_s: BoundedFloat = Field(2700, gt=0)
    """Deadline for having a machine, in seconds; RunPod can take half an hour."""
    answer_timeout_s: BoundedFloat = Field(2700, gt=0)
    """Deadline from then until the trainer answers, its installation included, in seconds."""
    destroy_after_run: bool = True
    """Take the machine down after a run that succeeded."""
    keep_on_failure: bool = False
    """Keep the machine after a run that failed or was cancelled, for a look; autostop still
    holds."""

    @property
    def gpu_name(self) -> str:
        """The GPU, as SkyPilot names it."""
        return self.gpu.partition(":")[0]

    @property
    def gpus(self) -> int:
        """The number of GPUs."""
        return int(self.gpu.partition(":")[2] or 1)


class DownConfig(Record):
    """Taking down the machine of a model."""

    model: str
    """The model whose machine it is."""
    store: StoreUrl = Field("", validate_default=True)
    """The store of the run; empty takes the variable PRECIS_STORE, or else .precis/store."""
    force: bool = False
    """Take it down although a live run works on it."""


class ClusterSweepConfig(Record):
    """Taking down all machines of ours that no live run holds."""

    spare_hours: BoundedFloat = Field(0, ge=0)
    """Spare a machine for so many hours after it was launched, for a look at what was kept."""
