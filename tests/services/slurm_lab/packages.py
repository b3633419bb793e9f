"""The Debian packages of the lab, installed once a machine."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PACKAGES = ("slurm-wlm", "munge", "openssh-server", "openssh-client", "rsync", "iproute2")
_STARTS_SERVICES = Path("/usr/sbin/policy-rc.d")


class LabImpossible(Exception):
    """The lab can't be set up here; the message says what is needed."""


def ensure_packages() -> None:
    """Install what is missing.

    Raises:
        LabImpossible: the tests run without root's rights, or apt can't install a package.
    """
    if os.geteuid() != 0:
        raise LabImpossible(
            "The cluster tests start a private Slurm and an ssh server, which needs root: run "
            "them as root (a container will do), or set PRECIS_TEST_CLUSTER=0 to leave them out."
        )
    missing = [name for name in PACKAGES if not _is_installed(name)]
    if missing:
        with _services_held_back():
            _apt("update", "-qq")
            _apt("install", "-y", "-qq", "--no-install-recommends", *missing)


def _is_installed(name: str) -> bool:
    query = ["dpkg-query", "-W", "-f", "${Status}", name]
    answer = subprocess.run(query, capture_output=True, text=True)
    return answer.stdout == "install ok installed"


def _apt(*arguments: str) -> None:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    done = subprocess.run(
        ["apt-get", *arguments], env=environment, capture_output=True, text=True, timeout=600
    )
    if done.returncode != 0:
        raise LabImpossible(
            f"apt-get {arguments[0]} failed: {done.stderr.strip()[-500:]} The cluster tests need "
            f"the Debian packages {', '.join(PACKAGES)}."
        )


@contextmanager
def _services_held_back() -> Iterator[None]:
    """Keep the packages from starting daemons of their own: the lab runs private ones."""
    if _STARTS_SERVICES.exists():
        yield
        return
    _STARTS_SERVICES.write_text("#!/bin/sh\nexit 101\n")
    _STARTS_SERVICES.chmod(0o755)
    try:
        yield
    finally:
        _STARTS_SERVICES.unlink()
