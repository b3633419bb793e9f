"""The place where an agent's rollouts are played: the processes of a Ray cluster."""

from ipaddress import IPv4Address

from pydantic import Field, field_validator

from precis.record import Record
from precis.settings.identity import MayChange


class WorkersSettings(Record):
    """Processes of a Ray cluster that play rollouts, in place of the flow's own."""

    count: MayChange[int] = Field(2, ge=1, le=10_000)
    """The number of workers, spread over the nodes of the cluster."""
    rollouts_each: MayChange[int] = Field(8, ge=1, le=1000)
    """The rollouts that each plays at once."""
    cpus_each: MayChange[float] = Field(1.0, gt=0, le=10_000)
    """The CPUs that Ray sets aside for each."""
    address: MayChange[str] = ""
    """The cluster: `auto` on one of its nodes, `host:6379`, or `ray://host:10001`. Empty starts one
    on this machine, which ends with the run."""
    recorder_host: MayChange[str] = Field("127.0.0.1", min_length=1)
    """The IPv4 address of this machine at which workers reach the recorder, which listens there: of
    a private network, since prompts and answers pass in plain HTTP."""
    folder: MayChange[str] = ""
    """A folder, with the environment's file or program in it, that is sent to the workers whole and
    is their current one. Empty sends the file and the modules that it imports from its folder, or
    the files that the command names by a relative path."""

    @field_validator("recorder_host")
    @classmethod
    def _check_host(cls, host: str) -> str:
        try:
            address = IPv4Address(host)
        except ValueError:
            raise ValueError(
                f"{host!r} is no IPv4 address: give this machine's, such as 10.0.0.5."
            ) from None
        if address.is_unspecified:
            raise ValueError(
                f"{host} is every address of this machine, and workers need one: give the one of "
                "the network that they share with it."
            )
        return host
