"""Keys from Prefect's Secret blocks, unless the environment or `.env` sets them.

`OPENROUTER_API_KEY` is the block `precis-openrouter-api-key`, and so on. A block's value goes into
this process's environment, where all code looks for keys, and nowhere else: not into parameters,
artifacts or logs.
"""

import os
from typing import cast

from prefect import get_client
from prefect.blocks.system import Secret

from precis.environment import block_name, key_variables


async def adopt_secrets() -> list[str]:
    """Put the keys that only Secret blocks have into the environment; return their variables."""
    async with get_client() as client:
        # All blocks, since the server does not page here; only their names, without values.
        found = await client.read_block_documents_by_type("secret", include_secrets=False)
    names = {document.name for document in found if document.name}
    adopted = []
    for variable, value in key_variables().items():
        if value is None and block_name(variable) in names:
            block = cast(Secret[str], await Secret.aload(block_name(variable)))
            # Not by `get`, which turns a key of digits into a number.
            os.environ[variable] = str(block.value.get_secret_value())
            adopted.append(variable)
    return adopted
