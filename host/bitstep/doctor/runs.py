"""Runs: interrupt, trainings against the golden model, counters, an abort and the run after it."""

import contextlib
import time
from dataclasses import dataclass

import numpy as np

from bitstep.cycles.shape import WORD_BYTES, Shape
from bitstep.devices.driver import RegisterRun
from bitstep.devices.joint_runs import table_of
from bitstep.devices.register_device import RegisterDevice
from bitstep.doctor.jobs import (
    difference,
    expected_of,
    side_by_side_runs,
    still_job,
    training_jobs,
)
from bitstep.doctor.session import STUCK_REMEDY, NotDone, Session
from bitstep.pipeline.job import TrainingJob
from bitstep.pipeline.registers import Control, Error, Status
from bitstep.pipeline.results import RunResult, beats_read
from bitstep.writing import duration

INTERRUPT_TIMEOUT_S = 2.0
LOOK_S = 0.3                # how long the clock is measured, in time of the host
ENOUGH_S = 1e-3             # time of the board whose cycles are enough for four digits
EPOCHS = 2048               # of the long run, at most
_MODELS = ("if the memory test passed, the pipeline computes wrongly: the clock may be too fast, "
           "or the bitstream is not of these sources; send this report")


def interrupt(session: Session) -> None:
    """Wait for the interrupt at the end of a short run."""
    report, device = session.report, session.device
    if not hasattr(device, "await_interrupt"):
        report.skip("interrupt", f"does not apply: device '{device.name}' has none, the driver "
                    "looks at registers")
        return
    session.need_runs()
    job = next(iter(training_jobs(session.config).values()))
    remedy = ("runs work without it, but waiting takes the processor and up to 0.1 s longer: "
              "reboot the board; use pynq's own SD image, whose Linux offers the interrupt (UIO), "
              "and a login shell of root")
    with contextlib.ExitStack() as stack:
        stack.enter_context(RegisterRun(device, [job]))
        session.write("CONTROL", Control.START)
        try:
            came, early = _await(session)
        except Exception as error:
            session.stop()
            report.fail("interrupt", expected="an interrupt at the end of a run",
                        found=f"it cannot be waited for: {error}", remedy=remedy)
            return
        if not came:
            session.wait_done(session.timeout_s)
        status = session.read("STATUS")
        session.stop()
    if came:
        report.ok("interrupt", "came at the end of a run"
                  + (f" ({early} came before)" if early else ""))
    elif status & Status.DONE:
        report.fail("interrupt", expected="an interrupt at the end of a run",
                    found=f"none within {INTERRUPT_TIMEOUT_S:g} s, and STATUS 0x{status:x} says "
                    "that the run is over", remedy=remedy)
    else:
        report.fail("a run that ends with an interrupt", expected=f"its end within "
                    f"{INTERRUPT_TIMEOUT_S + session.timeout_s:g} s",
                    found=f"STATUS 0x{status:x}: it goes on", remedy="see the findings below: runs "
                    "do not end at all, whatever the interrupt does")


def _await(session):
    """Wait for the interrupt; True if it came at the end of the run, and how many came before."""
    for early in range(5):
        if not session.device.await_interrupt(INTERRUPT_TIMEOUT_S):
            return False, early
        if session.read("STATUS") & Status.DONE:
            return True, early
    return False, early


def trainings(session: Session) -> None:
    """Train short jobs and compare every model with the golden model."""
    for number, (title, job) in enumerate(training_jobs(session.config).items()):
        session.guard(lambda session, job=job, title=title, first=number == 0:
                      _training(session, job, title, first), f"training ({title})")
    for jobs in side_by_side_runs(session.config):
        title = f"training ({len(jobs)} models side by side)"
        session.guard(lambda session, jobs=jobs, title=title:
                      _side_by_side(session, jobs, title), title)


def _side_by_side(session, jobs, title):
    """Train as many models as a pass has, and compare all."""
    session.need_runs()
    outcomes = session.device.train_models(jobs, timeout_s=session.timeout_s)
    wrong = [f"model {number}: {text}"
             for number, (job, result) in enumerate(zip(jobs, outcomes, strict=True))
             if (text := difference(session.config, expected_of(job), result))]
    session.report.check(
        title, not wrong, f"{len(jobs[0].epochs)} epochs of {jobs[0].n_rows} rows of "
        f"{jobs[0].n_features} features, all weights of all models are the golden model's",
        wrong="; ".join(wrong[:1]), expected="the golden model's models, bit for bit",
        remedy=_MODELS)


def _training(session, job: TrainingJob, title, first):
    expected = expected_of(job)
    if isinstance(session.device, RegisterDevice):
        session.need_runs()
    started = session.seconds()
    result = session.device.train(job, timeout_s=session.timeout_s)
    elapsed = session.seconds() - started
    _compare(session, f"training ({title})", job, expected, result)
    if first:
        # What the run ended with, until the next one starts.
        ended = {name: session.read(name) for name in ("EPOCHS_DONE", "OVERFLOW")} \
            if isinstance(session.device, RegisterDevice) else {}
        session.results["plain"] = job, result, elapsed, ended


def _compare(session, title, job, expected, result: RunResult) -> bool:
    wrong = difference(session.config, expected, result)
    return session.report.check(
        title, not wrong, f"{len(job.epochs)} epochs of {job.n_rows} rows of {job.n_features} "
        "features, all weights are the golden model's", wrong=wrong,
        expected="the golden model's models, bit for bit", remedy=_MODELS)


def counters(session: Session) -> None:
    """Compare the counters of the plain training with those that its job must give.

    Raises
    ------
    NotDone
        If that training gave no result.
    """
    if "plain" not in session.results:
        raise NotDone("the plain training gave no result")
    job, result, elapsed, ended = session.results["plain"]
    epochs = len(job.epochs)
    found = {name: value for name, value in result.counters.items() if value is not None}
    shape = Shape.of(job, job.config, None)
    beats, slots = beats_read(job, epochs), epochs * shape.rows * shape.beats
    # Labels and codebooks as the pipeline reads them, which may be more than the job has.
    others = shape.codebook_words + epochs * (shape.label_words + 2)
    wanted = {"beats": beats, "overflows": 0, "refetched_rows": 0,
              "bytes_read": beats * job.config.rows.beat_bytes + others * WORD_BYTES}
    wrong = [f"{name} {found[name]:,} instead of {value:,}" for name, value in wanted.items()
             if name in found and found[name] != value]
    # A model is fetched when EPOCHS_DONE counts it, so one too many is one that is not written yet.
    wrong += [f"{name} {ended[name]} instead of {value}"
              for name, value in (("EPOCHS_DONE", epochs), ("OVERFLOW", 0))
              if name in ended and ended[name] != value]
    if "cycles" in found:
        named = slots + sum(value for name, value in found.items()
                            if name in ("flush", "model_io") or name.startswith("stall_"))
        if not max(beats, named) <= found["cycles"]:
            wrong.append(f"cycles {found['cycles']:,}, fewer than the {max(beats, named):,} that "
                         "beats and waits take")
        if found["cycles"] / session.device.clock_hz > 1.05 * elapsed + 1e-3:
            wrong.append(f"cycles {found['cycles']:,}, more than {elapsed:.3g} s of this clock")
    session.report.check(
        "counters", not wrong, ", ".join(f"{name} {value:,}" for name, value in found.items()
                                         if value or name in wanted),
        wrong="; ".join(wrong), expected="what the job gives", remedy="final models do not "
        "depend on counters, but reported times and checkpoints do: load the bitstream again; if "
        "it stays, send this report")


def abort(session: Session) -> None:
    """Look at a long run, abort it, and train again."""
    session.need_runs()
    report = session.report
    with contextlib.ExitStack() as stack:
        longest_s = start_long_run(session, stack)
        _measure(session, longest_s)
        _locked(session)
        over = session.read("STATUS") & Status.DONE
        started = session.seconds()
        stopped = session.stop()
        took = session.seconds() - started
        error = session.read("ERROR")
        if not stopped:                             # which is a finding already
            session.held = stack.pop_all()          # the pipeline still reads and writes there
            return
        if over:
            report.warn("abort", expected="a run to abort", found="it was over before",
                        remedy="nothing, but the abort is not tested")
        else:
            report.check("abort", error == Error.ABORTED,
                         f"the run stopped within {duration(took)}", wrong=f"ERROR {error}",
                         expected=f"ERROR {Error.ABORTED.value} (ABORTED)", remedy=STUCK_REMEDY)
    _again(session)


def _again(session):
    """Repeat the plain training after an abort: the same models and counters."""
    title, job = next(iter(training_jobs(session.config).items()))
    title = f"training ({title}) after an abort"
    result = session.device.train(job, timeout_s=session.timeout_s)
    if not _compare(session, title, job, expected_of(job), result) \
            or "plain" not in session.results:
        return
    before = session.results["plain"][1].counters
    # Times depend on the memory, also those of the waits.
    wrong = [f"{name} {result.counters[name]} instead of {before[name]}"
             for name in ("beats", "bytes_read", "overflows", "refetched_rows")
             if result.counters[name] != before[name]]
    said = "those of the same run before"
    session.report.check("counters after an abort", not wrong, said, wrong="; ".join(wrong),
                         expected=said, remedy=STUCK_REMEDY)


def start_long_run(session: Session, stack: contextlib.ExitStack) -> float:
    """Start a run of many epochs without any look-ahead; return how long it takes at most, in
    seconds. Its buffers are those of ``stack``.
    """
    config = session.config
    room = session.largest(4 << 20)
    n_rows = max(1, room // 4 // config.rows.beat_bytes)
    n_epochs = min(EPOCHS, max(1, room // 4 // 16))
    # Models are written over each other, so that memory for one is enough.
    run = stack.enter_context(RegisterRun(session.device, [still_job(
        config, n_features=config.rows.lanes, n_rows=n_rows,
        model=np.ones(config.rows.lanes, np.int32))]))
    epoch_table = session.device.allocate(16 * n_epochs)
    stack.callback(epoch_table.free)
    entry = table_of(run.jobs, config)[:2].view(np.uint8)
    epoch_table.array[:16 * n_epochs] = np.tile(entry, n_epochs)
    epoch_table.to_device()
    run.write("LOOKAHEAD", 0)
    run.write("EPOCHS", n_epochs)
    run.write_pair("EPOCH_TABLE_ADDRESS", epoch_table.address)
    run.write_pair("MODEL_OUT_STRIDE", 0)
    session.write("CONTROL", Control.START)
    return n_epochs * n_rows * config.latency / session.device.clock_hz


def _measure(session, longest_s):
    """Measure the clock, and compare it with the one that was set."""
    wanted = session.device.clock_hz
    found = measure_clock(session, longest_s)
    title, expected = "clock, measured by a run", f"{wanted / 1e6:.4g} MHz"
    if found is None:
        session.report.warn(title, expected=expected, found="the run was over too soon",
                            remedy="nothing, but the clock is not measured")
    else:
        session.report.check(
            title, found.may_be(wanted), found.text, expected=expected,
            remedy="times that bitstep reports are wrong by this ratio, and models may be wrong if "
            "it is faster than the bitstream is made for: load the bitstream by bitstep alone, "
            "boot from the SD card's own boot files, and send this report")


@dataclass(frozen=True)
class MeasuredClock:
    """A clock in Hz, by the cycles of a run that is under way: between ``least`` and ``most``."""

    least: float
    most: float
    text: str

    def may_be(self, hz: float) -> bool:
        """True if it is ``hz``, to 2 % beyond what the measurement leaves open."""
        return self.least <= 1.02 * hz and self.most >= 0.98 * hz


def measure_clock(session: Session, longest_s: float) -> MeasuredClock | None:
    """Measure the clock by the cycles of the run under way and the time on the board.

    It takes :data:`LOOK_S`, or longer where reading a register does. Time on a simulated board goes
    more slowly than here: it may take 20 times as long, until the board's has gone on by
    :data:`ENOUGH_S`.

    Parameters
    ----------
    session : Session
    longest_s : float
        Time that the run takes at most.

    Returns
    -------
    MeasuredClock or None
        None if the run was over before.
    """
    before, first, after = _cycles(session)
    # Reading may take long on a serial line, and then so must the measurement.
    span = min(max(LOOK_S, 40 * (after - before)), longest_s / 2)
    started = time.monotonic()
    while (passed := session.seconds() - before) < span:
        waited = (time.monotonic() - started) / span
        if (waited >= 1 and passed >= ENOUGH_S) or waited >= 20 or session.wait_done(span / 20):
            break
    begun, last, ended = _cycles(session)
    if session.read("STATUS") & Status.DONE:
        return None
    cycles = (last - first) % (1 << 32)
    return MeasuredClock(
        cycles / max(ended - before, 1e-9), cycles / max(begun - after, 1e-9),
        f"{cycles / ((begun + ended - before - after) / 2) / 1e6:.4g} MHz "
        f"({cycles:,} cycles in {duration(begun - after)})")


def _cycles(session):
    """Return the time before, the cycles' low half, the time after."""
    before = session.seconds()
    return before, session.read("CYCLES_LO"), session.seconds()


def _locked(session):
    """Write a register while a run is under way, which must have no effect."""
    before = session.read("EPOCHS")
    session.write("EPOCHS", before ^ 1)
    found, status = session.read("EPOCHS"), session.read("STATUS")
    title = "registers are locked during a run"
    if found != before:
        session.report.fail(title, expected=f"EPOCHS stays {before}", found=f"it became {found}",
                            remedy=STUCK_REMEDY)
    elif status & Status.BUSY:
        session.report.ok(title, f"EPOCHS stayed {before}")
    else:
        session.report.skip(title, "not done: the run was over too soon")
