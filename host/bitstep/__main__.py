"""``python -m bitstep`` and ``bitstep``: the command line."""

import sys


def main() -> int:
    """Run the command line; Ctrl-C ends it with one line, while it is being imported too."""
    try:
        from bitstep.cli import main as run
        return run()
    except KeyboardInterrupt:
        if sys.stderr is not None:
            print("bitstep: interrupted", file=sys.stderr)
        return 130
    finally:
        # A KeyboardInterrupt that leaves code in a string, as modules run some while they are
        # imported, makes `python -m` end by SIGINT in place of this code, even where it is caught.
        # Running another string makes Python forget it.
        exec("")


if __name__ == "__main__":
    sys.exit(main())
