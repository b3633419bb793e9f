"""The `precis` command, which is a checkout's: flows, tasks and command are not in the wheel."""

import signal
import sys


def main() -> None:
    """Run the command of the checkout that Précis is installed from."""
    try:
        from cli.main import app
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)  # it had begun nothing yet: the imports take a second
    except ModuleNotFoundError as error:
        if error.name not in {"cli", "cli.main"}:
            raise
        sys.exit(
            "The precis command needs a checkout of Précis, and this is its library alone: clone "
            "the repository and run `make install` in it."
        )
    app()


if __name__ == "__main__":
    main()
