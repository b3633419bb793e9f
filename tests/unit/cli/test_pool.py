"""Which schedules are switched on where prefect.yaml is deployed, and what is in the pool."""

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
from prefect.client.schemas.filters import WorkPoolFilter
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
async def test_a_schedule_is_on_where_what_it_needs_is_installed_and_nobody_switched_it_off(
    needs: str,
    known: tuple[str, bool] | None,
    active: bool,
    slug: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def read_deployment(name: str) -> Any:
        if known is None:
            raise ObjectNotFound(Exception(name))
        return SimpleNamespace(schedules=[SimpleNamespace(slug=known[0], active=known[1])])

    client = SimpleNamespace(read_deployment_by_name=read_deployment)
    monkeypatch.setattr(pool, "get_client", lambda: nullcontext(client))
    assert await pool.schedule_of("cluster-sweep/sweep", needs) == {"active": active, "slug": slug}


async def test_the_pools_deployments_are_listed_on_a_server_with_many_flows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Client:
        """Of a server whose first page of flows has none of the pool's."""

        async def read_flows(self, work_pool_filter: WorkPoolFilter | None = None) -> list[Any]:
            if work_pool_filter is None:
                return [SimpleNamespace(id=number, name="other") for number in range(200)]
            return [SimpleNamespace(id=200, name="train")]

        async def read_deployments(self, work_pool_filter: WorkPoolFilter) -> list[Any]:
            return [SimpleNamespace(flow_id=200, name="rehearsal")]

    monkeypatch.setattr(pool, "get_client", lambda: nullcontext(Client()))
    assert await pool.deployments() == ["train/rehearsal"]
