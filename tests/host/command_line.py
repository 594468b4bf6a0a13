"""The command line in this process."""

import re

from bitstep.cli import main


def train(*arguments):
    """Exit code of ``bitstep train`` on the golden model."""
    return main(["train", *map(str, arguments), "--device", "golden"])


def unquoted(message):
    """What argparse says, a wrong number without the quotes that some versions of Python add."""
    return re.sub(r"choice: '(\d+)'", r"choice: \1", message)
