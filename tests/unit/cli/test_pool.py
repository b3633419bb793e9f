"""Which schedules are switched on where prefect.yaml is deployed."""

from types import SimpleNamespace
from typing import Any

import pytest
from prefect.exceptions import ObjectNotFound

from cli import pool

Schedules = list[tuple[str, bool]]


@pytest.fixture
def on_server(monkeypatch: pytest.MonkeyPatch) -> Schedules:
    """The deployment's schedules on the server, by slug; none where it is not deployed."""
    known: Schedules = []

    class Client:
        async def __aenter__(self) -> "Client":
            return self

        async def __aexit__(self, *_: object) -> None:
            """Nothing to close."""

        async def read_deployment_by_name(self, name: str) -> Any:
            if not known:
                raise ObjectNotFound(Exception(name))
            found = [SimpleNamespace(slug=slug, active=active) for slug, active in known]
            return SimpleNamespace(schedules=found)

    monkeypatch.setattr(pool, "get_client", Client)
    return known


def schedule(needs: str) -> dict[str, bool | str]:
    return pool.schedule_of("cluster-sweep/sweep", needs)


ON = {"active": True, "slug": "regular"}


@pytest.mark.parametrize("needs", ["", "json"])
def test_a_new_schedule_is_on_where_what_it_needs_is_installed(
    on_server: Schedules, needs: str
) -> None:
    assert schedule(needs) == ON


def test_a_schedule_is_off_where_what_it_needs_is_not_there(on_server: Schedules) -> None:
    assert schedule("no_such_package") == {"active": False, "slug": "without-no_such_package"}


def test_it_is_switched_on_once_that_is_installed(on_server: Schedules) -> None:
    on_server.append(("without-json", False))
    assert schedule("json") == ON


def test_what_somebody_has_switched_off_stays_off(on_server: Schedules) -> None:
    on_server.append(("regular", False))
    assert schedule("json") == {"active": False, "slug": "regular"}
