"""The entry point of the `precis` command."""

import signal
import sys


def main() -> None:
    """Run the command; Ctrl-C during its imports ends it without a traceback."""
    try:
        from precis.commands.main import app
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
    app()


if __name__ == "__main__":
    main()
