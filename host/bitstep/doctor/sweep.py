"""The fastest clock at which a board still computes right: its margin."""

import contextlib
from collections.abc import Iterator
from typing import Any

from bitstep.doctor.jobs import difference, expected_of, side_by_side_runs, training_jobs
from bitstep.doctor.registers import wrong_patterns
from bitstep.doctor.runs import measure_clock, start_long_run
from bitstep.doctor.session import STUCK_REMEDY, NotDone, Session
from bitstep.doctor.speed import long_rows
from bitstep.pipeline.results import DeviceError

STEP = 1.01                 # from one clock that is asked for to the next; dividers give fewer
MOST = 2.0                  # times the clock that the bitstream is made for


def clock_sweep(session: Session) -> None:
    """Raise the clock until something is wrong, and set it back.

    At each clock that the board's dividers give, up to twice the bitstream's own: patterns in all
    registers, every short training and the one of long rows against the golden model, and the
    clock by the cycles of a run. What is right holds for this chip at this temperature and supply.

    Raises
    ------
    NotDone
        If the device's clock cannot be set, or something is wrong at the bitstream's own.
    """
    device, report = session.device, session.report
    if not hasattr(device, "try_clock"):
        raise NotDone(f"the clock of device '{device.name}' cannot be set")
    if report.failed:
        raise NotDone("something is wrong at the bitstream's own clock")
    session.need_runs()
    trials, own = _trials(session), device.clock_hz
    right, ending = own, f"no more than {MOST:g} times that was tried"
    try:
        for hz in _clocks(device, own):
            wrong = _wrong(session, trials)
            if wrong:
                ending = f"wrong at {_mhz(hz)}"
                report.fact(_mhz(hz), f"wrong: {wrong}")
                break
            right = hz
            report.fact(_mhz(hz), f"right: {len(trials)} trainings, registers, the clock itself")
    finally:
        device.try_clock(own)
    report.ok("fastest clock", f"right up to {_mhz(right)}, {right / own - 1:.0%} above the "
              f"bitstream's {_mhz(own)}; {ending}. Of this chip, as warm as it is now")
    after = _wrong(session, trials)
    report.check("bitstream's own clock, after the sweep", not after, "right", wrong=after,
                 expected="what was right before", remedy=STUCK_REMEDY)


def _clocks(device: Any, own: float) -> Iterator[float]:
    """Set one clock after another, each faster than those before."""
    asked = fastest = own
    while (asked := asked * STEP) <= MOST * own:
        hz = device.try_clock(asked)
        # A divider gives the clock that is next, which may be the one before.
        if hz > fastest * 1.001:
            fastest = hz
            yield hz


def _trials(session):
    """Return the jobs of each run, and what the golden model makes of each."""
    config = session.config
    runs = [[job] for job in (*training_jobs(config).values(), long_rows(session))]
    runs += side_by_side_runs(config)
    return [[(job, expected_of(job)) for job in run] for run in runs]


def _wrong(session, trials) -> str:
    """Describe the first thing that is wrong at this clock; empty if nothing is."""
    try:
        if not session.stop():
            return "the pipeline does not stop"
        if faults := wrong_patterns(session):
            return faults[0]
        for trial in trials:
            results = session.device.train_models([job for job, _ in trial],
                                                  timeout_s=session.timeout_s)
            for (_, expected), result in zip(trial, results, strict=True):
                if found := difference(session.config, expected, result):
                    return found
        return _wrong_clock(session)
    except (DeviceError, ArithmeticError, RuntimeError, ValueError) as error:
        return str(error) or type(error).__name__


def _wrong_clock(session):
    """Compare the clock that pynq reads with the cycles of a run."""
    wanted = session.device.clock_hz
    with contextlib.ExitStack() as stack:
        found = measure_clock(session, start_long_run(session, stack))
        if not session.stop():
            session.held = stack.pop_all()
            return "a run does not stop"
    if found and not found.may_be(wanted):
        return f"the clock is {found.text}, not the {_mhz(wanted)} that are read back"
    return ""


def _mhz(hz):
    return f"{hz / 1e6:.4g} MHz"
