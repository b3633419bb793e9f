"""The entry point of the `precis` command."""

import signal
import sys


def main() -> None:
    """Run the command; Ctrl-C during its imports, and a missing package, are no traceback."""
    try:
        from precis.commands.main import app
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
    try:
        app()
    except ModuleNotFoundError as error:
        if error.name in ("cli", "cli.commands", "cli.runs"):
            sys.exit(
                "This command needs a checkout of Précis, and this is its library alone: clone the "
                "repository and run `make install` in it."
            )
        sys.exit(
            f"The package {error.name} is not installed: run `make install` in a checkout of "
            "Précis, or install it with its extra `pipeline`."
        )


if __name__ == "__main__":
    main()
