"""Runs of the real top that end early, and the run after them."""

import dataclasses
import functools
from contextlib import contextmanager

import pytest
from drawn_jobs import FLOAT, LARGE, REFETCH
from simulated import TestedDevice, check_against_golden, compare, golden, open_board

from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.registers import OFFSETS, Control, Error, Loss, Status
from bitstep.pipeline.results import AbortedError, BadConfigurationError, BusError, RunError
from bitstep_sim.board.compiled import BASE
from bitstep_sim.board.device import POISON
from bitstep_sim.testing.random_jobs import random_job

CONFIG = PipelineConfig(bits=5, max_features=80, lookahead=8)
JOB = random_job(CONFIG, n_features=50, n_rows=100, epochs=4, batch=2, correction_period=10,
                 copies=2, warm=True)
MODEL_BYTES = 4 * CONFIG.rows.model_words(50)


def address(registers, name):
    """A 64-bit address that the driver wrote."""
    return registers[f"{name}_ADDRESS_LO"] | registers[f"{name}_ADDRESS_HI"] << 32


@contextmanager
def open_tested(config=CONFIG, **options):
    """A board between driver and test, with irregular memory."""
    with open_board(config, stall_probability=0.2, stall_seed=5) as board:
        yield TestedDevice(board, **options)


def fails(device, kind, job=JOB):
    """Run a job that must end with an error; finished epochs are golden's. Returns the error."""
    with pytest.raises(kind) as raised:
        device.train(job)
    result = raised.value.result
    compare(result, golden(job)[:result.epochs_done])
    assert device.get("STATUS") == Status.DONE | Status.FAILED
    return raised.value


LATER = [*(random_job(CONFIG, n_features=30, n_rows=20, seed=seed, correction_period=5)
           for seed in range(2)), JOB]


def runs_well_again(device):
    """The next runs are not touched by the one that failed."""
    device.on_start = device.during = None
    device.registers = {}
    device.board.set_broken([])
    for job in LATER:
        check_against_golden(device, job)


# Where the memory is broken: name of the buffer, byte in it, error, epochs finished before
BROKEN = [
    ("ROWS", 0, Error.ROW_READ, 0),
    ("ROWS", JOB.rows[0].nbytes // 2, Error.ROW_READ, 0),
    ("ROWS", JOB.rows[0].nbytes * 2 - 8, Error.ROW_READ, 1),
    ("LABELS", 0, Error.AUX_READ, 0),
    ("LABELS", JOB.labels.nbytes - 8, Error.AUX_READ, 0),
    ("EPOCH_TABLE", 0, Error.AUX_READ, 0),
    ("EPOCH_TABLE", 56, Error.AUX_READ, 3),
    ("MODEL_IN", 0, Error.AUX_READ, 0),
    ("COEFFICIENTS", MODEL_BYTES - 8, Error.AUX_READ, 0),
    ("MODEL_OUT", 0, Error.MODEL_WRITE, 0),
    ("MODEL_OUT", 2 * MODEL_BYTES + 40, Error.MODEL_WRITE, 2),
    ("MODEL_OUT", 4 * MODEL_BYTES - 8, Error.MODEL_WRITE, 3),
]


@pytest.mark.parametrize("name, offset, error, epochs", BROKEN)
def test_bus_errors(name, offset, error, epochs):
    with open_tested() as device:
        device.on_start = lambda registers: device.board.set_broken(
            [(address(registers, name) + offset, 1)])
        raised = fails(device, BusError)
        assert device.get("ERROR") == error
        # Readers fetch ahead, so an error may end the run before it is the turn of its data.
        assert raised.result.epochs_done <= epochs
        assert error != Error.MODEL_WRITE or raised.result.epochs_done == epochs
        runs_well_again(device)


@pytest.mark.parametrize("name", ["ROWS", "LABELS", "EPOCH_TABLE", "MODEL_IN", "MODEL_OUT"])
def test_addresses_outside_of_the_buffers(name):
    with open_tested(registers={f"{name}_ADDRESS_LO": 0, f"{name}_ADDRESS_HI": 0}) as device:
        fails(device, BusError)
        assert device.board.stray_accesses > 0
        runs_well_again(device)


BAD = {
    "ROWS": [0], "BEATS_PER_ROW": [0, 8, (1 << 20) - 1], "LAST_LANES": [0, 13], "EPOCHS": [0],
    "BATCH": [0, 3], "LABEL_FORMAT": [3], "LABEL_SHIFT": [41], "INTERCEPT_LEVEL": [16, 255],
    "LOOKAHEAD": [9, 63], "COPIES": [0], "ROWS_ADDRESS_LO": [4], "COPY_STRIDE_LO": [1],
    "LABELS_ADDRESS_LO": [2], "EPOCH_TABLE_ADDRESS_LO": [4], "MODEL_IN_ADDRESS_LO": [4],
    "COEFFICIENTS_ADDRESS_LO": [4], "MODEL_OUT_ADDRESS_LO": [7], "MODEL_OUT_STRIDE_LO": [4],
    "CORRECTION_PERIOD": [7],       # splits a batch
}


@pytest.mark.parametrize("name, value", [(name, value) for name, values in BAD.items()
                                         for value in values])
def test_bad_registers(name, value):
    with open_tested(registers={name: value}) as device:
        error = fails(device, BadConfigurationError)
        assert error.result.epochs_done == 0
        assert device.board.stray_accesses == 0
        runs_well_again(device)


@pytest.mark.parametrize("cycles", [1, 20, 60, 150, 400, 900, 1500, 2500])
def test_abort(cycles):
    with open_tested(cycles=cycles) as device:
        device.during = lambda: device.device.write(OFFSETS["CONTROL"], Control.ABORT)
        error = fails(device, AbortedError)
        assert device.get("ERROR") == Error.ABORTED
        assert error.result.epochs_done < len(JOB.epochs)
        runs_well_again(device)


def test_an_abort_between_runs_does_nothing():
    with open_tested() as device:
        device.write(OFFSETS["CONTROL"], Control.ABORT)
        runs_well_again(device)
        device.write(OFFSETS["CONTROL"], Control.ABORT)
        assert device.get("STATUS") == Status.DONE
        runs_well_again(device)


@pytest.mark.slow       # of a board that no other test by day has
def test_a_correction_after_one_that_was_cut_off():
    """The engine keeps nothing of a walk that an abort has ended in the middle."""
    cut_off = random_job(LARGE, n_features=33, n_rows=65, seed=4, epochs=3, correction_period=3)
    job = random_job(LARGE, n_features=30, n_rows=30, seed=9, epochs=1, warm=True,
                     correction_period=6)
    with open_board(LARGE, memory_latency=9) as board:
        for cycles in range(350, 362):      # a walk takes 5 cycles a beat
            device = TestedDevice(board, cycles=cycles)
            device.during = functools.partial(board.write, OFFSETS["CONTROL"], Control.ABORT)
            fails(device, AbortedError, cut_off)
            check_against_golden(board, job)


def test_interrupt_is_that_a_run_is_done():
    """It and what a run leaves stay, whatever is written, until the next start or a reset."""
    with open_tested() as device:
        def says(status, error, epochs):
            assert device.device.board.interrupt == bool(status & Status.DONE)
            assert [device.get(name) for name in ("STATUS", "ERROR", "EPOCHS_DONE")] == \
                [status, error, epochs]

        says(0, Error.NONE, 0)
        with device.begin([JOB]):
            for control, epochs in ((Control.START, 4), (Control.START | Control.ABORT, 4),
                                    (Control.ABORT, 4)):
                device.write(OFFSETS["CONTROL"], control)
                if control & Control.START:
                    says(Status.BUSY, Error.NONE, 0)
                device.device.board.run(20_000)     # of which a run takes a fifth
                says(Status.DONE, Error.NONE, epochs)
            device.write(OFFSETS["ROWS"], 0)
            says(Status.DONE, Error.NONE, 4)
            device.write(OFFSETS["CONTROL"], Control.START)
            device.device.board.run(20_000)
            says(Status.DONE | Status.FAILED, Error.BAD_CONFIGURATION, 0)
            device.device.board.reset(1)
            device.device.board.run(100)
            says(0, Error.NONE, 0)


def test_registers_are_locked_during_a_run():
    with open_tested(cycles=300) as device:
        device.during = lambda: [device.device.write(OFFSETS[name], 0)
                                 for name in ("ROWS", "EPOCHS", "LOOKAHEAD", "MODEL_OUT_STRIDE_LO")]
        check_against_golden(device, JOB)


def test_a_start_during_a_run_does_nothing():
    with open_tested(cycles=300) as device:
        device.during = lambda: device.device.write(OFFSETS["CONTROL"], Control.START)
        result = check_against_golden(device, JOB)
        assert result.counters["beats"] == 4 * JOB.n_rows * JOB.beats


def test_nothing_is_written_after_an_error():
    """The models of later epochs keep what was in memory."""
    with open_tested() as device:
        models = {}

        def on_start(registers):
            start = address(registers, "MODEL_OUT")
            device.board.set_broken([(start + MODEL_BYTES, 1)])
            models["bytes"] = device.board.memory[start - BASE:][:4 * MODEL_BYTES]

        device.on_start = on_start
        fails(device, BusError)
        assert device.get("EPOCHS_DONE") == 1
        assert (models["bytes"][2 * MODEL_BYTES:] == POISON).all()


def test_many_ends_in_a_row():
    """Errors of different kinds one after the other on one board, each followed by a good run."""
    with open_tested() as device:
        for round_ in range(3):
            for name, offset, error, _ in BROKEN[::3]:
                device.on_start = lambda registers, name=name, offset=offset: \
                    device.board.set_broken([(address(registers, name) + offset, 1)])
                fails(device, RunError)
                assert device.get("ERROR") == error
                device.board.set_broken([])
                device.on_start = None
                check_against_golden(device, dataclasses.replace(
                    JOB, epochs=JOB.epochs[:1 + round_]))


# Refetching and proximal steps

REFETCHED = dataclasses.replace(random_job(
    REFETCH, n_features=24, n_rows=100, epochs=3, seed=5, loss=Loss.HINGE, cell_half_levels=1,
    correction_period=10, proximal_period=20, warm=True), box_limit=1 << 24)


PLAIN = random_job(REFETCH, n_features=30, n_rows=20, batch=2, proximal_period=6)
REFETCHED_LATER = [random_job(
    REFETCH, n_features=20 + 30 * seed, n_rows=120, seed=seed, loss=Loss.HINGE, warm=True,
    cell_half_levels=2) for seed in range(2)]


def refetches_well_again(device):
    """The next runs fetch the right rows and decide them, though one was cut off."""
    device.on_start = device.during = None
    device.board.set_broken([])
    check_against_golden(device, PLAIN)
    for job in REFETCHED_LATER:
        assert check_against_golden(device, job).counters["refetched_rows"]
    check_against_golden(device, REFETCHED)


# From here to the end.
@pytest.mark.parametrize("offset", [0, REFETCHED.n_rows * REFETCH.rows.fine_words(24)])
def test_bus_errors_of_fine_rows(offset):
    n_bytes = REFETCHED.n_rows * 2 * REFETCH.rows.fine_words(24) - offset
    with open_tested(REFETCH) as device:
        def on_start(registers):
            device.board.set_broken([(address(registers, "FINE") + offset, n_bytes)])

        device.on_start = on_start
        raised = fails(device, BusError, REFETCHED)
        assert device.get("ERROR") == Error.ROW_READ
        assert device.board.stray_accesses == 0
        assert raised.result.epochs_done < 3
        refetches_well_again(device)


@pytest.mark.parametrize("step", [2, pytest.param(1, marks=pytest.mark.slow)])
def test_an_abort_at_any_time_of_a_refetching_run(step):
    """Among so many, some fall into a refetched row and some into a proximal step."""
    with open_tested(REFETCH) as device:
        short = dataclasses.replace(REFETCHED, epochs=REFETCHED.epochs[:1])
        for cycles in [*range(40, 400, 13), *range(400, 1200, 61), 3001][::step]:
            device.cycles = cycles
            device.during = lambda: device.device.write(OFFSETS["CONTROL"], Control.ABORT)
            fails(device, AbortedError, REFETCHED)
            device.during = None
            compare(device.train(short), golden(REFETCHED)[:1])
        refetches_well_again(device)


def test_an_abort_at_any_time_of_a_run_on_floating_point_rows():
    job = random_job(FLOAT, n_features=5, n_rows=60, epochs=3, proximal_period=5)
    with open_tested(FLOAT) as device:
        for cycles in range(40, 900, 47):
            device.cycles = cycles
            device.during = lambda: device.device.write(OFFSETS["CONTROL"], Control.ABORT)
            fails(device, AbortedError, job)
            device.during = None
            check_against_golden(device, random_job(FLOAT, n_features=4, n_rows=9, seed=cycles))


@pytest.mark.parametrize("registers", [
    {"CELL_HALF_LEVELS": 5}, {"BATCH": 2}, {"LOSS": Loss.SQUARED_HINGE}, {"LOSS": Loss.LOGISTIC},
    {"FINE_ADDRESS_LO": 4}, {"LABEL_FORMAT": 1}], ids=str)
def test_bad_registers_of_a_refetching_run(registers):
    with open_tested(REFETCH, registers=registers) as device:
        assert fails(device, BadConfigurationError, REFETCHED).result.epochs_done == 0
        device.registers = {}
        refetches_well_again(device)


def test_registers_that_a_pipeline_has_no_use_for():
    for name in ("PROXIMAL_PERIOD", "CELL_HALF_LEVELS"):
        with open_tested(registers={name: 2}) as device:
            fails(device, BadConfigurationError)
            runs_well_again(device)
