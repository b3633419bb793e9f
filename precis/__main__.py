"""The entry point of the `precis` command."""

import locale
import os
import signal
import sys


def main() -> None:
    """Run the command; Ctrl-C during its imports, and a missing package, are no traceback."""
    if not sys.flags.utf8_mode and locale.getencoding().lower() != "utf-8":
        # LANG=en_US is Latin-1: our files, and what we print, have other characters.
        os.environ["PYTHONUTF8"] = "1"
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
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
