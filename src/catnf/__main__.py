"""`catnf` and `python -m catnf`: the command line."""

import sys


def main() -> None:
    """Entry point. Ctrl-C while modules are loaded, which takes a moment, ends it without a word."""
    try:
        from catnf.cli import main as run

        run()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
