"""Progress of commands; ``--quiet`` turns it off."""

from typing import Any

from bitstep import progress
from bitstep.cli.signals import stop_signals
from bitstep.training.scores.watch import TrainingWatch


class _Shown:
    """The choice of ``--quiet``; there is one command in a process."""

    quiet = False


shown = _Shown()


def add_quiet_option(group: Any) -> None:
    """Declare ``--quiet``."""
    group.add_argument("--quiet", action="store_true", help="no progress on standard error")


class Bar(progress.Progress):
    """:class:`bitstep.progress.Progress` of a command."""

    def __init__(self, total: int | None, label: str, unit: str):
        super().__init__(total, label, unit, quiet=shown.quiet)


class StatusLine(progress.StatusLine):
    """:class:`bitstep.progress.StatusLine` of a command."""

    def __init__(self, label: str):
        super().__init__(label, quiet=shown.quiet)


class CommandWatch(TrainingWatch):
    """The watch of a command's training."""

    def __call__(self, done: int) -> None:
        """Take in the number of finished epochs."""
        stop_signals.deferred = done == self.total      # the last one: nothing is to be stopped
        super().__call__(done)
