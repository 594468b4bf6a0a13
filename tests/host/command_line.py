"""The command line in this process."""

from bitstep.cli import main


def train(*arguments):
    """Exit code of ``bitstep train`` on the golden model."""
    return main(["train", *map(str, arguments), "--device", "golden"])
