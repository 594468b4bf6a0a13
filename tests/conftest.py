"""The seed of drawn tests: fresh in every run, printed, and given again to repeat a run. And no
line of progress, which a busy machine would show and an idle one would not.
"""

import math
import os
import secrets
from importlib.util import find_spec

import pytest

SEED = "BITSTEP_TEST_SEED"


def pytest_configure(config):
    """Draw a seed unless there is one; workers of pytest-xdist inherit it."""
    os.environ.setdefault(SEED, str(secrets.randbits(32)))
    try:
        int(os.environ[SEED])
    except ValueError:
        raise SystemExit(f"{SEED} must be an integer, not {os.environ[SEED]!r}") from None
    if find_spec("hypothesis"):         # the environment with torch goes without
        from hypothesis import settings
        # A busy machine is slow, which is no fault of what is tested.
        settings.register_profile("bitstep", deadline=None)
        settings.load_profile("bitstep")


def pytest_report_header(config):
    """A line at the start of a run."""
    return f"drawn tests: {SEED}={os.environ[SEED]} repeats them"


def pytest_terminal_summary(terminalreporter, exitstatus):
    """The same line at the end of a run that failed."""
    if exitstatus:
        terminalreporter.write_line(f"drawn tests: {SEED}={os.environ[SEED]} repeats them")


@pytest.fixture(autouse=True)
def _no_lines_of_progress(monkeypatch):
    """Work that takes long says nothing on standard error, which many tests compare."""
    if find_spec("bitstep"):
        monkeypatch.setattr("bitstep.progress.FIRST_S", math.inf)
