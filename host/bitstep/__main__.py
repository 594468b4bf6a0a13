"""``python -m bitstep``: the command line."""

import sys

from bitstep.cli import main

if __name__ == "__main__":
    sys.exit(main())
