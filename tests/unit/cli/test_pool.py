"""Which schedules are switched on where prefect.yaml is deployed."""

from types import SimpleNamespace
from typing import Any

import pytest
from prefect.exceptions import ObjectNotFound

from cli import pool


@pytest.mark.parametrize(
    ("needs", "known", "active", "slug"),
    [
        ("", None, True, "regular"),
        ("json", None, True, "regular"),
        ("no_such_package", None, False, "without-no_such_package"),
        # It was deployed before the package was installed.
        ("json", ("without-json", False), True, "regular"),
        # Somebody has switched it off.
        ("json", ("regular", False), False, "regular"),
    ],
)
def test_a_schedule_is_on_where_what_it_needs_is_installed_and_nobody_switched_it_off(
    needs: str,
    known: tuple[str, bool] | None,
    active: bool,
    slug: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Client:
        async def __aenter__(self) -> "Client":
            return self

        async def __aexit__(self, *_: object) -> None:
            """Nothing to close."""

        async def read_deployment_by_name(self, name: str) -> Any:
            if known is None:
                raise ObjectNotFound(Exception(name))
            return SimpleNamespace(schedules=[SimpleNamespace(slug=known[0], active=known[1])])

    monkeypatch.setattr(pool, "get_client", Client)
    assert pool.schedule_of("cluster-sweep/sweep", needs) == {"active": active, "slug": slug}
