"""`precis secret`: a key for all who run flows on one Prefect server."""

from cli import prefect_server
from precis.environment import key_variables
from precis.errors import ConfigError


def keep(variable: str, value: str) -> str:
    """Put a key into its Secret block, over an older one; the block's name.

    Raises:
        ConfigError: no flow looks for such a variable, or there is no value.
        PrecisError: no Prefect server is up, or it refuses us.
    """
    if variable not in key_variables():
        raise ConfigError(f"No key is called {variable}; there are {', '.join(key_variables())}.")
    if not value:
        raise ConfigError(f"No value was given for {variable}.")
    prefect_server.attach()
    from prefect.blocks.system import Secret  # only now, so that it heeds the server's address

    from tasks.secrets import block_name

    name = block_name(variable)
    Secret(value=value).save(name, overwrite=True)
    return name
