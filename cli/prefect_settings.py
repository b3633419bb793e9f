"""The user's configuration of Prefect: its server, its secrets and its database."""

import os
import tomllib
from pathlib import Path

from precis.environment import Variables
from precis.errors import ConfigError


def find_api_url() -> str | None:
    """Return the address of the server that is configured in the environment, `.env` or Prefect's
    active profile. Raises ConfigError if the profiles can't be read."""
    named = Variables().prefect_api_url or _profile().get("PREFECT_API_URL")
    return named.rstrip("/") if named else None


def secrets_for(api: str) -> dict[str, str]:
    """Return the password and the key to send to a server, by their variables; empty for none.

    A profile's are for the profile's server alone, and the password of the servers that we start
    is not for Prefect Cloud. Raises ConfigError if the profiles can't be read.
    """
    given = Variables().keys()
    profile = _profile()
    # Cloud has an address for each workspace.
    its_server, _, _ = profile.get("PREFECT_API_URL", api).partition("/accounts/")
    server, _, _ = api.partition("/accounts/")
    is_profiles = its_server.rstrip("/") == server.rstrip("/")
    secrets = {}
    for variable in ("PREFECT_API_AUTH_STRING", "PREFECT_API_KEY"):
        of_profile = profile.get(variable, "") if is_profiles else ""
        secrets[variable] = given.get(variable) or of_profile
    if not any(secrets.values()) and "/workspaces/" not in api:
        secrets["PREFECT_API_AUTH_STRING"] = server_password() or ""
    return secrets


def _profile() -> dict[str, str]:
    """Return the settings of Prefect's active profile."""
    home = Path(os.path.expanduser(os.environ.get("PREFECT_HOME", "~/.prefect")))
    file = home / "profiles.toml"
    try:
        profiles = tomllib.loads(file.read_text("utf-8"))
        active = os.environ.get("PREFECT_PROFILE", profiles.get("active", ""))
        settings = profiles.get("profiles", {}).get(active, {})
        return {name: str(value) for name, value in settings.items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, AttributeError, TypeError) as error:
        raise ConfigError(
            f"Prefect's profiles in {file} can't be read: {error}.",
            "Mend or delete the file, or set PREFECT_API_URL.",
        ) from error


def server_password() -> str | None:
    """Return the `user:password` for a server that we start."""
    given = Variables().prefect_server_api_auth_string
    return given.get_secret_value() if given else None


def on_postgres() -> bool:
    """Return whether a server that we start keeps its data in PostgreSQL."""
    address = Variables().prefect_server_database_connection_url
    return address is not None and address.get_secret_value().startswith("postgresql")
