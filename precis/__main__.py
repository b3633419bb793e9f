"""The entry point of the `precis` command."""

import locale
import os
import signal
import sys


def main() -> None:
    """Run the command; Ctrl-C during its imports ends it without a traceback."""
    if not sys.flags.utf8_mode and locale.getencoding().lower() != "utf-8":
        # Files and the terminal's output have other letters than an old locale's.
        os.environ["PYTHONUTF8"] = "1"
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
    if sys.stdin is None:  # closed, as by `<&-`
        sys.stdin = open(os.devnull)  # noqa: SIM115
    try:
        from precis.commands.main import app
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
    app()


if __name__ == "__main__":
    main()
