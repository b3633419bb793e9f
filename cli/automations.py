"""Prefect automations, one a file, applied to a server."""

from pathlib import Path
from typing import Any

import yaml
from prefect import get_client
from prefect.blocks.notifications import SlackWebhook
from prefect.client.orchestration import PrefectClient
from prefect.events import AutomationCore
from prefect.exceptions import ObjectNotFound
from pydantic import SecretStr

from precis.environment import Variables
from precis.errors import ConfigError

FOLDER = Path(__file__).parents[1] / "deployments" / "automations"
BLOCK = "precis-notifications"
_PREFIX = "precis: "


async def active() -> list[str]:
    """Return the names of ours that are active on the server, whoever has applied them."""
    async with get_client() as client:
        found = await client.read_automations()
    names = [one.name for one in found if one.enabled and one.name.startswith(_PREFIX)]
    return sorted(name.removeprefix(_PREFIX) for name in names)


async def remove() -> None:
    """Delete ours from the server."""
    async with get_client() as client:
        for one in await client.read_automations():
            if one.name.startswith(_PREFIX):
                await client.delete_automation(one.id)


async def apply() -> None:
    """Create or update every automation on the server. Raises ConfigError if one names a deployment
    that the server does not have."""
    async with get_client() as client:
        address = Variables().notify_url
        channel = None
        if address is not None:
            # The block of Slack's webhooks takes any address that Apprise knows, mailtos:// too.
            block = SlackWebhook(url=SecretStr(address.get_secret_value()))
            channel = str(await block.save(BLOCK, overwrite=True))
        for path in sorted(FOLDER.glob("*.yaml")):
            raw = yaml.safe_load(path.read_text())
            raw["actions"] = [await _action(client, action, channel) for action in raw["actions"]]
            wanted = AutomationCore.model_validate(raw)
            older = await client.read_automations_by_name(wanted.name)
            for surplus in older[1:]:
                await client.delete_automation(surplus.id)
            if not older:
                await client.create_automation(wanted)
            elif _settings(older[0]) != _settings(wanted):
                # The client sends only fields that were set explicitly: this sets all of them.
                complete = AutomationCore.model_validate(_settings(wanted))
                await client.update_automation(older[0].id, complete)


def _settings(automation: AutomationCore) -> dict[str, Any]:
    """Return the settings of an automation, without the fields that the server adds.

    An unchanged automation must not be updated: an update drops the runs it is waiting for.
    """
    fields = set(AutomationCore.model_fields) - {"owner_resource"}
    return automation.model_dump(include=fields)


async def _action(
    client: PrefectClient, action: dict[str, Any], channel: str | None
) -> dict[str, Any]:
    """Return an action of a file as the server expects it, with ids for names."""
    if action["type"] == "send-notification":
        # The triggered automation is an event in Prefect's feed either way.
        return {**action, "block_document_id": channel} if channel else {"type": "do-nothing"}
    name = action.get("deployment")
    if name:
        try:
            deployment = await client.read_deployment_by_name(name)
        except ObjectNotFound as error:
            raise ConfigError(
                f"An automation starts {name}, which is not deployed: run `precis up`, or "
                "`prefect --no-prompt deploy --all`."
            ) from error
        wanted = {**action, "source": "selected", "deployment_id": str(deployment.id)}
        del wanted["deployment"]
        return wanted
    return action
