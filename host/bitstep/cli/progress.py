"""Progress on standard error: a bar, or a line of status."""

import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from bitstep.cli.signals import stop_signals


class Bar:
    """A progress bar on a terminal's standard error if tqdm is installed; else nothing.

    Parameters
    ----------
    total : int or None
        All there is to do; None if nobody knows.
    label, unit : str
        Work, and what is counted.
    """

    def __init__(self, total: int | None, label: str, unit: str):
        self._bar = None
        if sys.stderr.isatty():
            try:
                from tqdm import tqdm
            except ImportError:
                return
            self._bar = tqdm(total=total, desc=label, unit=unit, leave=False, file=sys.stderr)

    def __enter__(self) -> "Bar":
        return self

    def __exit__(self, *_) -> None:
        if self._bar is not None:
            self._bar.close()

    def to(self, done: int) -> None:
        """Show that ``done`` of the total are done."""
        if self._bar is not None:
            self._bar.update(done - self._bar.n)


class StatusLine:
    """Lines of a device's progress on standard error.

    On a terminal each replaces the one before, and :meth:`clear` removes the last; elsewhere each
    stage (the text before a colon) is printed once, without its numbers.
    """

    def __init__(self, label: str):
        self._label, self._stage = label, ""

    def __call__(self, line: str) -> None:
        """Show a line."""
        stage = line.partition(":")[0]
        if sys.stderr.isatty():
            width = shutil.get_terminal_size().columns - 1      # a line that wraps stays
            print(f"\r\x1b[K{f'{self._label}: {line}'[:width]}", end="", file=sys.stderr,
                  flush=True)
        elif stage != self._stage:
            print(f"{self._label}: {stage} ...", file=sys.stderr, flush=True)
        self._stage = stage

    def clear(self) -> None:
        """Remove the line from a terminal."""
        if self._stage and sys.stderr.isatty():
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


@contextmanager
def epoch_bar(epochs: int) -> Iterator[Callable[[int], None]]:
    """A progress bar, and what moves it."""
    with Bar(epochs, "training", " epochs") as bar:
        def on_epoch(done):
            stop_signals.deferred = done == epochs      # the last one: nothing is to be stopped
            bar.to(done)
        yield on_epoch
