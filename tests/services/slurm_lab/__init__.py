"""A one-machine Slurm for SkyPilot to rent from: real clusters, a made-up H100, no account.

The lab stands in for a cloud. SkyPilot's own API server and SDK provision "machines" on it
(Slurm jobs), reach them through ssh, run our task on them, and take them down again; only the
GPU is not there.
"""

from tests.services.slurm_lab.lab import SlurmLab, slurm_lab

__all__ = ["SlurmLab", "slurm_lab"]
