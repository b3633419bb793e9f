"""`precis`, run in this process."""

from typer.testing import CliRunner, Result

from precis.commands.main import app
from precis.store import Store


def run_precis(
    *arguments: object, store: Store, given: str = "", code: int | None = 0, **environment: str
) -> Result:
    """What a command that takes --store came to; it may fail, but with no traceback.

    PREFECT_API_URL is set, as `precis up` tells everybody to do. Nothing listens there, so that a
    command fails which asks the server and need not.

    Args:
        given: standard input.
        code: its exit status; None for any.
    """
    command = [*map(str, arguments), "--store", store.url]
    # Else a sentence is broken where a terminal would end.
    environment = {"COLUMNS": "200", "PREFECT_API_URL": "http://127.0.0.1:9/api", **environment}
    done = CliRunner().invoke(app, command, input=given, env=environment)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    assert code is None or done.exit_code == code, done.output
    return done
