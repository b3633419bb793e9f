"""Keys from Prefect's Secret blocks, for those that neither the environment nor `.env` sets.

`OPENROUTER_API_KEY` is the block `precis-openrouter-api-key`, and so on. What a block holds goes
into this process's environment, where everything that needs a key looks for it, and nowhere else:
not into parameters, artifacts or logs.
"""

import os
from typing import cast

from prefect import get_client
from prefect.blocks.system import Secret

from precis.environment import key_variables


def block_name(variable: str) -> str:
    """Return the name of a variable's Secret block."""
    return f"precis-{variable.lower().replace('_', '-')}"


async def adopt_secrets() -> list[str]:
    """Take over the keys that are only in Secret blocks, and name them."""
    async with get_client() as client:
        # All blocks, since the server has no pages here; their names alone, without a value.
        found = await client.read_block_documents_by_type("secret", include_secrets=False)
    names = {document.name for document in found if document.name}
    adopted = []
    for variable, value in key_variables().items():
        if value is None and block_name(variable) in names:
            block = cast(Secret[str], await Secret.aload(block_name(variable)))
            # Not by `get`, which takes a key of digits for a number.
            os.environ[variable] = str(block.value.get_secret_value())
            adopted.append(variable)
    return adopted
