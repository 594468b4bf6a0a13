"""Rows over several ports on the simulated board: where each port reads, and what one that fails or
stalls does to the others. Models and counters of such pipelines are compared by the other tests,
which have them among theirs (``WIDE``).
"""

import numpy as np
import pytest
from drawn_jobs import WIDE
from simulated import TestedDevice, check_models, compare, open_board

from bitstep.cycles.run import count_epochs
from bitstep.cycles.streams.memory import Memory
from bitstep.golden.sgd import train
from bitstep.pipeline.memory import place_rows, port_stride
from bitstep.pipeline.registers import OFFSETS, Error
from bitstep.pipeline.results import BusError, DeviceError
from bitstep_sim.testing.random_jobs import random_job

CONFIG = WIDE[0]
PAGE = 4096
JOB = random_job(CONFIG, n_features=250, n_rows=200, batch=3, epochs=3, copies=2, seed=4,
                 correction_period=12)


@pytest.fixture(scope="module")
def board():
    with open_board(CONFIG) as device:
        yield device


def rows_buffer(device, job):
    """Address of the rows' buffer in the run of a job, and bytes of a slice."""
    recorder = TestedDevice(device)
    recorder.train(job)
    address = recorder.written["ROWS_ADDRESS_LO"] | recorder.written["ROWS_ADDRESS_HI"] << 32
    return address, PAGE * recorder.written["PORT_STRIDE"]


def test_slices():
    """By hand: two rows of two beats, and a copy of them; each beat has a part for either port."""
    first, second = np.arange(64, dtype=np.uint8), np.arange(64, 128, dtype=np.uint8)
    copies = [first.reshape(2, 32), second.reshape(2, 32)]
    assert port_stride(128, CONFIG) == PAGE
    memory = np.full(PAGE + 64, 255, np.uint8)
    place_rows(memory, copies, CONFIG)
    low = [*range(8), *range(16, 24), *range(32, 40), *range(48, 56)]
    assert memory[:32].tolist() == low
    assert memory[32:64].tolist() == [64 + place for place in low]
    assert memory[PAGE:PAGE + 32].tolist() == [8 + place for place in low]
    assert memory[PAGE + 32:].tolist() == [72 + place for place in low]
    assert set(memory[64:PAGE].tolist()) == {255}


def test_each_port_reads_its_slice(board):
    """A byte of a slice that gives an error is an error of that slice's rows."""
    address, stride = rows_buffer(board, JOB)
    assert stride == port_stride(sum(copy.nbytes for copy in JOB.rows), CONFIG) > PAGE
    size = sum(copy.nbytes for copy in JOB.rows) // 2
    for port in range(2):
        for place in (0, size // 2, size - 1):
            board.board.set_broken([(address + port * stride + place, 1)])
            with pytest.raises(BusError):
                board.train(JOB)
    # What lies between the slices is never read.
    board.board.set_broken([(address + size, stride - size)])
    check_models(board, [JOB])
    board.board.set_broken([])
    check_models(board, [JOB])


@pytest.mark.parametrize("port", ["rows", "rows1"])
@pytest.mark.parametrize("number", [1, 2, 17, 800])
def test_an_error_of_either_port(board, port, number):
    board.board.set_fault(port, number, 2)
    with pytest.raises(BusError):
        board.train(JOB)
    assert board.read(OFFSETS["ERROR"]) == Error.ROW_READ
    board.board.set_fault(port, 0, 2)
    check_models(board, [JOB])


def test_no_such_port(board):
    assert board.board.ports == ["rows", "aux_read", "aux_write", "rows1"]
    with pytest.raises(ValueError, match=r"port must be one of rows, aux_read, .*, not 'fine'"):
        board.board.set_fault("fine", 1, 2)


@pytest.mark.parametrize("probability, seed", [(0.1, 1), (0.5, 2), (0.9, 3)])
def test_stalls_of_each_port_by_itself(probability, seed):
    """No beat is made of parts of two."""
    with open_board(CONFIG, stall_probability=probability, stall_seed=seed) as device:
        for job in (JOB, random_job(CONFIG, n_features=16, n_rows=300, epochs=2, seed=seed)):
            result = device.train(job)
            for model, epoch in zip(result.models, train(job), strict=True):
                np.testing.assert_array_equal(model, epoch.model)


@pytest.mark.parametrize("memory", [
    {"memory_latency": 1}, {"memory_latency": 33}, {"memory_latency": 300},
    {"memory_gbps": 0.4}, {"memory_gbps": 1.7, "memory_latency": 60}], ids=str)
def test_cycles_are_those_of_one_port(memory):
    """Of a single port that is as wide: the cycle model knows no other."""
    with open_board(CONFIG, clock_hz=100e6, **memory) as device:
        gbps = memory.get("memory_gbps")
        model = Memory(memory.get("memory_latency", 20), gbps and gbps * 10)
        (result,) = check_models(device, [JOB], memory=model)
        assert result.counters == count_epochs(JOB, model, config=WIDE[0])[0]


def test_what_another_program_left(board):
    """The driver writes the distance of the slices, as all else."""
    for value in (0, 1, 0xFFFF_FFFF):
        board.write(OFFSETS["PORT_STRIDE"], value)
        check_models(board, [JOB])


def test_slices_at_the_same_place_are_other_rows(board):
    """The register counts: with 0, either port reads slice 0."""
    with pytest.raises((AssertionError, DeviceError)):
        compare(TestedDevice(board, registers={"PORT_STRIDE": 0}).train(JOB), list(train(JOB)))
