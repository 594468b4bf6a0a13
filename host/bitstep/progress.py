"""Progress on standard error: a bar on a terminal and in a notebook, lines elsewhere."""

import shutil
import sys
import time
import warnings
from typing import Any

FIRST_S = 1.5       # of silence, where there are lines
EVERY_S = 2.0       # between lines, at least
GROWTH = 0.1        # of the time so far, between lines: a day has about a hundred


def in_notebook() -> bool:
    """True in a kernel of Jupyter, whose standard error is no terminal but shows widgets."""
    shell: Any = sys.modules.get("IPython")
    found = None if shell is None else shell.get_ipython()
    return found is not None and hasattr(found, "kernel")


def _bar_class() -> Any:
    """tqdm's bar for where standard error goes; None if there is none."""
    notebook = in_notebook()
    if not (notebook or sys.stderr.isatty()):
        return None
    try:
        if not notebook:
            from tqdm import tqdm
            return tqdm
        with warnings.catch_warnings():     # without ipywidgets it is a bar of characters
            warnings.simplefilter("ignore")
            from tqdm.auto import tqdm
        return tqdm
    except ImportError:
        return None


def _said(text: str) -> bool:
    """Write to standard error; False if nobody reads it any more, which must end no work."""
    try:
        print(text, end="", file=sys.stderr, flush=True)
    except (OSError, ValueError):
        return False
    return True


class Progress:
    """Progress of some work.

    With tqdm a bar on a terminal and in a notebook. Else, and where standard error is a file or a
    pipe, lines of their own, each written at once: the first after 1.5 seconds, then one in 2
    seconds or more.

    Parameters
    ----------
    total : int or None
        All there is to do; None if nobody knows.
    label, unit : str
        Work, and what is counted.
    quiet : bool
        True to show nothing.
    keep : bool
        True to leave the last state on the screen.
    """

    def __init__(self, total: int | None, label: str, unit: str, *, quiet: bool = False,
                 keep: bool = False):
        self._total, self._label, self._unit = total, label, unit
        self._quiet, self._keep = quiet, keep
        self._started = time.monotonic()
        self._due, self._done, self._note = FIRST_S, 0, ""
        self._lines, self._lined = 0, -1       # lines printed, and what the last one had done
        self._shown: Any = None
        self._bar: Any = None
        made = None if quiet else _bar_class()
        if made is not None:
            self._bar = made(total=total, desc=label, unit=unit, unit_scale=True, leave=keep,
                             file=sys.stderr)

    @property
    def shows_rate(self) -> bool:
        """True if there is a bar, which shows units a second itself."""
        return self._bar is not None

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def to(self, done: int, note: str = "") -> None:
        """Show that ``done`` of the total are done, and a note beside it."""
        changed = (done, note) != (self._done, self._note)
        self._done, self._note = done, note
        if self._bar is not None:
            if note:
                self._bar.set_postfix_str(note, refresh=False)
            self._bar.update(done - self._bar.n)
            if note and changed:
                self._bar.refresh()
        elif not self._quiet and time.monotonic() - self._started >= self._due:
            self._line()
            elapsed = time.monotonic() - self._started
            still, self._lined = done == self._lined, done      # then half as often every time
            self._due = elapsed + max(EVERY_S, (1.0 if still else GROWTH) * elapsed)

    def say(self, text: str) -> None:
        """Print a line that stays, above the bar if there is one."""
        if self._bar is not None:
            self._bar.write(f"{self._label}: {text}", file=sys.stderr)
        elif not self._quiet:
            self._print(f"{self._label}: {text}")

    def close(self) -> None:
        """Show the last state: on a bar, and on a line if ``keep`` or there was one before."""
        if self._bar is not None:
            self._bar.close()
        elif not self._quiet and (self._lines or self._keep) and (self._done or self._note) \
                and (self._done, self._note) != self._shown:
            self._line()
        self._quiet = True

    def _line(self) -> None:
        text = self._note
        if not text:
            of = "" if self._total is None else f" of {self._total:,}"
            text = f"{self._done:,}{of} {self._unit.strip()}"
        seconds = time.monotonic() - self._started
        self._print(f"{self._label}: {text}, {seconds:.1f} s")
        self._lines += 1
        self._shown = self._done, self._note

    def _print(self, line: str) -> None:
        self._quiet |= not _said(f"{line}\n")


class StatusLine:
    """Lines of a device's progress on standard error.

    On a terminal each replaces the one before, and :meth:`clear` removes the last; elsewhere each
    stage (the text before a colon) is printed once, without its numbers.

    Parameters
    ----------
    label : str
        Name of the device.
    quiet : bool
        True to show nothing.
    """

    def __init__(self, label: str, *, quiet: bool = False):
        self._label, self._stage, self._quiet = label, "", quiet

    def __call__(self, line: str) -> None:
        """Show a line."""
        stage = line.partition(":")[0]
        if self._quiet:
            return
        if sys.stderr.isatty():
            width = shutil.get_terminal_size().columns - 1      # a line that wraps stays
            self._quiet |= not _said(f"\r\x1b[K{f'{self._label}: {line}'[:width]}")
        elif stage != self._stage:
            self._quiet |= not _said(f"{self._label}: {stage} ...\n")
        self._stage = stage

    def clear(self) -> None:
        """Remove the line from a terminal."""
        if self._stage and not self._quiet and sys.stderr.isatty():
            self._quiet |= not _said("\r\x1b[K")
