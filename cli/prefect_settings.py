"""The user's configuration of Prefect: its server, password and database."""

import os
import tomllib
from pathlib import Path

from pydantic import SecretStr

from precis.environment import Variables
from precis.errors import ConfigError


def find_api_url() -> str | None:
    """Return the address of the server that is configured. Raises ConfigError as `find_setting`
    does."""
    named = find_setting("PREFECT_API_URL")
    return named.rstrip("/") if named else None


def find_setting(variable: str) -> str | None:
    """Return a setting of Prefect's client from the environment, `.env` or Prefect's active
    profile, as Prefect itself finds it. Raises ConfigError if the profiles can't be read."""
    given = getattr(Variables(), variable.lower())
    if given:
        return given.get_secret_value() if isinstance(given, SecretStr) else str(given)
    home = Path(os.path.expanduser(os.environ.get("PREFECT_HOME", "~/.prefect")))
    file = home / "profiles.toml"
    try:
        profiles = tomllib.loads(file.read_text("utf-8"))
        active = os.environ.get("PREFECT_PROFILE", profiles.get("active", ""))
        named = profiles.get("profiles", {}).get(active, {}).get(variable)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, AttributeError, TypeError) as error:
        raise ConfigError(
            f"Prefect's profiles in {file} can't be read: {error}.",
            "Mend or delete the file, or set PREFECT_API_URL.",
        ) from error
    return str(named) if named else None


def server_password() -> str | None:
    """Return the `user:password` for a server that we start."""
    given = Variables().prefect_server_api_auth_string
    return given.get_secret_value() if given else None


def on_postgres() -> bool:
    """Return whether a server that we start keeps its data in PostgreSQL."""
    address = Variables().prefect_server_database_connection_url
    return address is not None and address.get_secret_value().startswith("postgresql")
