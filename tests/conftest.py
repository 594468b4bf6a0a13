"""The seed of drawn tests: fresh in every run, printed, and given again to repeat a run. No line of
progress, which a busy machine would show and an idle one would not. And no `python` on PATH.
"""

import gc
import math
import os
import secrets
from collections import Counter, defaultdict
from importlib.util import find_spec
from itertools import combinations
from pathlib import Path

import pytest

SEED = "BITSTEP_TEST_SEED"
GOLDEN = (math.sqrt(5) - 1) / 2         # whose multiples lie far apart, without whole parts


def pytest_configure(config):
    """Draw a seed unless there is one; workers of pytest-xdist inherit it. Put a `python`
    that fails first on PATH: a fresh Debian has none.
    """
    os.environ["PATH"] = os.pathsep.join([str(Path(__file__).parent / "path"), os.environ["PATH"]])
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
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Failures(config))
    os.fsync = _at_once
    if config.option.markexpr == "not slow" and find_spec("bitstep_sim"):
        from bitstep_sim.board import units
        # By day a board runs a few seconds, for which `-O2` would compile half as long again.
        units.FAST = ("-O1", "-march=native")


def _at_once(file):
    """In place of `os.fsync`: what tests write may be lost with the machine, and is not waited for.
    A file that is not open is an error as before.
    """
    os.fstat(file)


class _Failures:
    """Names a failure when it happens: a run of hours may be stopped before its summary."""

    def __init__(self, config):
        self.config = config

    def pytest_runtest_logreport(self, report):
        reporter = self.config.pluginmanager.get_plugin("terminalreporter")
        if report.failed and reporter is not None:
            reporter.write_line(f"\nFAILED {report.nodeid}")


@pytest.hookimpl(hookwrapper=True)
def pytest_collection():
    """What is collected stays: to look through it meanwhile takes seconds."""
    gc.disable()
    yield
    gc.enable()


def pytest_collection_finish():
    """Leave what was collected to itself: to look through it for circles takes time, again and
    again while components are elaborated.
    """
    gc.freeze()
    gc.set_threshold(100_000, 20, 50)


def pytest_sessionfinish():
    """Look once for what is left in circles, not ten times through all netlists as pytest does."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Leave to ``-m slow`` what a test with the mark ``covering`` does not need.

    Of its combinations of arguments the test then runs as many as make every value
    (``covering(1)``) or every two values (``covering(2)``) meet. Of a test with the mark
    ``by_day(n)`` n cases run, with as many values as they can have.
    """
    for name, left in (("covering", _beyond), ("by_day", _unchosen)):
        tests = defaultdict(list)
        for item in items:
            mark = item.get_closest_marker(name)
            # What runs at night anyway covers nothing by day.
            if mark is not None and item.get_closest_marker("slow") is None:
                tests[item.nodeid.partition("[")[0], mark.args[0]].append(item)
        for (_, number), cases in tests.items():
            for item in left(cases, number):
                item.add_marker("slow")


def _values(case):
    """Values of a case: those of each ``parametrize`` together, and that of each fixture."""
    marks = [mark.args[0] for mark in case.iter_markers("parametrize")]
    groups = [tuple(map(str.strip, names.split(","))) if isinstance(names, str) else tuple(names)
              for names in marks]
    params = case.callspec.params
    groups += [(name,) for name in params if not any(name in names for names in groups)]
    return [tuple((name, repr(params[name])) for name in names) for names in groups]


def _beyond(cases, strength):
    """Cases without which all values still meet; values are about as frequent in the others."""
    values = {case: _values(case) for case in cases}
    lacking = {case: set(combinations(of_case, min(strength, len(of_case))))
               for case, of_case in values.items()}
    uses = Counter()
    while lacking:
        case = max(lacking, key=lambda case: (
            len(lacking[case]), -sum(uses[value] for value in values[case])))
        met = lacking.pop(case)
        if not met:
            return [case, *lacking]
        uses.update(values[case])
        for others in lacking.values():
            others -= met
    return []


def _unchosen(cases, count):
    """Cases but so many. Each of these has as many values as it can that those before have not,
    or have least; among equals they are spread over all.
    """
    left = sorted(cases, key=lambda case: cases.index(case) * GOLDEN % 1)
    values, uses = {case: _values(case) for case in cases}, Counter()
    for _ in range(min(count, len(cases))):
        chosen = min(left, key=lambda case: sum(uses[value] for value in values[case]))
        left.remove(chosen)
        uses.update(values[chosen])
    return left


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
