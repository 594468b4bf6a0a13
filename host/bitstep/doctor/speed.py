"""The stream of rows: its speed, and that of the port."""

from bitstep.cycles.shape import Shape
from bitstep.devices.driver import RegisterRun
from bitstep.doctor.jobs import difference, expected_of, make_job
from bitstep.doctor.session import Session
from bitstep.pipeline.job import TrainingJob
from bitstep.pipeline.results import stall_cycles, waits_text

SHARE = 0.85                # of a port that a healthy memory fills
BYTES = 1 << 20             # of the rows, at most
# At most, for the golden model takes time and memory on a board.
FEATURES, ROWS, VALUES = 1024, 4096, 1 << 20


def stream(session: Session) -> None:
    """Stream long rows, compare the model, and note the speed of the memory."""
    session.need_runs()
    config, device, report = session.config, session.device, session.report
    job = long_rows(session)
    n_rows, n_features = job.n_rows, job.n_features
    result = device.train(job, timeout_s=session.timeout_s)
    wrong = difference(config, expected_of(job), result)
    report.check("training (long rows)", not wrong, f"{n_rows:,} rows of {n_features:,} features, "
                 f"{job.rows[0].nbytes:,} bytes; all weights are the golden model's",
                 wrong=wrong, expected="the golden model's model, bit for bit",
                 remedy="see the findings on memory; send this report")
    found = {name: int(value or 0) for name, value in result.counters.items()}
    if not found["cycles"] or not found["beats"]:
        report.fail("speed", expected="cycles and beats of a run", found=f"cycles "
                    f"{found['cycles']}, beats {found['beats']}", remedy="see the counters")
        return
    # Bit-plane rows take fewer cycles than they have beats, and then wait for the others.
    shape = Shape.of(job, config, None)
    found["stall_rows"] = max(0, found["stall_rows"] + shape.rows * shape.beats - found["beats"])
    _judge(report, config, device.clock_hz, found)


def long_rows(session: Session) -> TrainingJob:
    """Make a job of long rows, as many as there is memory for."""
    config = session.config
    n_features = min(config.rows.capacity, FEATURES)
    row_bytes = config.rows.beats(n_features) * config.rows.beat_bytes
    room = min(BYTES, session.memory_bytes) // row_bytes
    n_rows = _fitting(session, n_features, min(max(1, room), ROWS, VALUES // n_features))
    return make_job(config, n_features=n_features, n_rows=n_rows, epochs=1)


def _judge(report, config, clock_hz, found):
    cycles, beats, stalled = found["cycles"], found["beats"], found["stall_rows"]
    port = config.rows.beat_bytes * clock_hz / 1e9
    rows, memory = port * beats / cycles, port * beats / (beats + stalled)
    bits = f"{config.bus_width} bits" + f" of {config.row_ports} ports" * (config.row_ports > 1)
    said = (f"rows came with {rows:.3g} GB/s, of {port:.3g} GB/s that the bus carries "
            f"({bits} at {clock_hz / 1e6:.4g} MHz); by its own waits the memory "
            f"gives {memory:.3g} GB/s; {cycles:,} cycles for {beats:,} beats, waits: "
            f"{waits_text(stall_cycles(found), cycles)}")
    if memory >= SHARE * port:
        report.ok("speed of the row stream", said)
    else:
        report.warn("speed of the row stream: the memory is slow",
                    expected=f"at least {SHARE:.0%} of the bus's {port:.3g} GB/s", found=said,
                    remedy="models are right, but runs take longer: stop other programs that use "
                    "the memory; if it stays, send this report")


def _fitting(session, n_features, n_rows):
    """Return the rows for which there is memory, at most ``n_rows``."""
    while True:
        job = make_job(session.config, n_features=n_features, n_rows=n_rows, epochs=1)
        try:
            RegisterRun(session.device, [job]).close()
            return n_rows
        except MemoryError:
            if n_rows < 2:
                raise
            n_rows //= 2
