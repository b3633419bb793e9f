"""The rehearsal's rule-based judge, as an OpenAI-compatible provider on the loopback.

It serves until standard input ends; PRECIS_TOKEN has the bearer token, without which none is
required.
"""

import os

from precis.environments.summaries.judge.endpoint import LEXICAL_MODEL
from precis.llm.server import completions_app
from precis.processes.child import TOKEN_VARIABLE, serve
from precis.rehearsal.judges.judge import lexical_judge

if __name__ == "__main__":
    key = os.environ.get(TOKEN_VARIABLE)
    serve(completions_app(lexical_judge, lambda: [LEXICAL_MODEL], key), with_parent=True)
