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
        # Python notes a KeyboardInterrupt that leaves exec() of a string, which some imports call.
        # `python -m` then ends by SIGINT instead of with this code, even if the exception is
        # caught. Another exec() clears the note.
        exec("")


if __name__ == "__main__":
    sys.exit(main())
