"""The user's configuration of Prefect: its server, its secrets and its database."""

import os
import tomllib
from pathlib import Path

from precis.environment import Variables
from precis.errors import ConfigError

_SECRETS = ("PREFECT_API_AUTH_STRING", "PREFECT_API_KEY")
"""The password of a server, and the key of Prefect Cloud."""


def find_api_url() -> str | None:
    """Return the address of the server that is configured in the environment, `.env` or Prefect's
    own files. Raises ConfigError if they can't be read."""
    named = Variables().prefect_api_url
    for settings in _files():
        named = named or settings.get("PREFECT_API_URL")
    return named.rstrip("/") if named else None


def secrets_for(api: str) -> dict[str, str]:
    """Return the password and the key to send to a server, by their variables; empty for none.

    A file's are for the file's server alone, and the password of the servers that we start is not
    for Prefect Cloud. Raises ConfigError if a file can't be read, or a secret is not in ASCII.
    """
    given = Variables().keys()
    secrets = {name: given.get(name, "") for name in _SECRETS}
    # Cloud has an address for each workspace.
    server, _, _ = api.partition("/accounts/")
    for settings in _files():
        its_server, _, _ = settings.get("PREFECT_API_URL", api).partition("/accounts/")
        if its_server.rstrip("/") == server.rstrip("/"):
            for name in _SECRETS:
                secrets[name] = secrets[name] or settings.get(name, "")
    if not any(secrets.values()) and "/workspaces/" not in api:
        secrets["PREFECT_API_AUTH_STRING"] = server_password() or ""
    for name, secret in secrets.items():
        _check_ascii(name, secret)
    return secrets


def _files() -> list[dict[str, str]]:
    """Return the settings of each of Prefect's files by their variables, the first that counts
    first."""
    home = Path(os.path.expanduser(os.environ.get("PREFECT_HOME", "~/.prefect")))
    files = [Path("prefect.toml"), Path("pyproject.toml"), home / "profiles.toml"]
    return [_settings_in(file) for file in files]


def _settings_in(file: Path) -> dict[str, str]:
    """Return the settings of the server in one of these files; of profiles the active one's."""
    try:
        written = tomllib.loads(file.read_text("utf-8"))
        if file.name == "profiles.toml":
            active = os.environ.get("PREFECT_PROFILE", written.get("active", ""))
            settings = written.get("profiles", {}).get(active, {})
        else:
            if file.name == "pyproject.toml":
                written = written.get("tool", {}).get("prefect", {})
            api = written.get("api", {})
            settings = {f"PREFECT_API_{name.upper()}": value for name, value in api.items()}
        return {name: str(value) for name, value in settings.items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, AttributeError, TypeError) as error:
        raise ConfigError(
            f"Prefect's settings in {file} can't be read: {error}.",
            "Mend the file, or let this user read it.",
        ) from error


def server_password() -> str | None:
    """Return the `user:password` for a server that we start. Raises ConfigError if it is not in
    ASCII."""
    given = Variables().prefect_server_api_auth_string
    if given is None:
        return None
    _check_ascii("PREFECT_SERVER_API_AUTH_STRING", given.get_secret_value())
    return given.get_secret_value()


def _check_ascii(variable: str, secret: str) -> None:
    if not secret.isascii():
        raise ConfigError(
            f"{variable} has a character that is not in ASCII, and Prefect fails on those.",
            "Choose a password without accents, and copy a key again.",
        )


def on_postgres() -> bool:
    """Return whether a server that we start keeps its data in PostgreSQL."""
    address = Variables().prefect_server_database_connection_url
    return address is not None and address.get_secret_value().startswith("postgresql")
