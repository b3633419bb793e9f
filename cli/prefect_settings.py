"""The user's configuration of Prefect: its server, its secrets and its database."""

from precis.environment import Variables
from precis.errors import ConfigError

_SECRETS = ("PREFECT_API_AUTH_STRING", "PREFECT_API_KEY")
"""The password of a server, and the key of Prefect Cloud."""


def find_api_url() -> str | None:
    """Return the address of the server that the environment or `.env` names."""
    named = Variables().prefect_api_url
    return named.rstrip("/") if named else None


def secrets_for(api: str) -> dict[str, str]:
    """Return the password and the key to send to a server, by their variables; empty for none.

    The password of the servers that we start is not for Prefect Cloud. Raises ConfigError if a
    secret is not in ASCII.
    """
    given = Variables().keys()
    secrets = {name: given.get(name, "") for name in _SECRETS}
    if not any(secrets.values()) and "/workspaces/" not in api:
        secrets["PREFECT_API_AUTH_STRING"] = server_password() or ""
    for name, secret in secrets.items():
        _check_ascii(name, secret)
    return secrets


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
