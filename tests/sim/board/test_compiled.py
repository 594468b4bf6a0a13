import time
import types

import numpy as np
import pytest

from bitstep.pipeline.registers import MAP_VERSION, OFFSETS, Error, Status
from bitstep.pipeline.results import DeviceError
from bitstep_sim.benches.fixture import (
    BOTH,
    IDENTITY,
    LABELS_ONLY,
    ROWS_ONLY,
    FixtureRun,
    fixture_device,
    fold,
)
from bitstep_sim.board import device as device_module
from bitstep_sim.board.compiled import DECERR, SLVERR
from bitstep_sim.board.device import POISON

MIB = 1 << 20


@pytest.fixture
def board(request):
    devices = []

    def make(bus_width=64, memory_bytes=64 * MIB, **options):
        devices.append(fixture_device(bus_width, memory_bytes=memory_bytes, **options))
        return devices[-1]

    yield make
    for device in devices:
        device.close()


def check(run):
    error, cycles = run.run()
    assert error == Error.NONE
    np.testing.assert_array_equal(run.written(), run.expected())
    assert run.device.board.stray_accesses == 0
    return cycles


@pytest.mark.by_day(8)
@pytest.mark.covering(2)
@pytest.mark.parametrize("bus_width", [64, 512])
@pytest.mark.parametrize("mode", [ROWS_ONLY, LABELS_ONLY, BOTH])
@pytest.mark.parametrize("options", [
    {}, {"memory_latency": 1}, {"memory_latency": 300},
    {"stall_probability": 0.5, "stall_seed": 1}, {"stall_probability": 0.9, "stall_seed": 2},
    {"memory_gbps": 0.3}, {"memory_gbps": 3.0, "stall_probability": 0.2},
], ids=str)
def test_computes_what_it_should(board, bus_width, mode, options):
    device = board(bus_width, **options)
    for beats in (1, 16, 17, 1000):
        check(FixtureRun(device, beats, mode=mode, seed=beats))


def test_expected_by_hand(board):
    run = FixtureRun(board(512), 1)
    run.rows.array[:] = np.frombuffer((5 | 1 << 127).to_bytes(64, "little"), np.uint8)
    run.labels.array[:] = np.frombuffer((2).to_bytes(8, "little"), np.uint8)
    assert run.expected().tolist() == [5 ^ 1 ^ 2]       # the upper word, rotated by 1
    assert fold([5, 1 << 63]) == 5 ^ 1


@pytest.mark.parametrize("bus_width", [64, 512])
def test_one_beat_per_cycle_on_both_ports(board, bus_width):
    beats = 20_000
    cycles = check(FixtureRun(board(bus_width), beats))
    assert cycles <= beats + 60                         # the latency, once


@pytest.mark.parametrize("gbps", [0.1, 0.77, 1.5, 2.3])
@pytest.mark.parametrize("bus_width", [64, 512])
def test_bandwidth_is_what_was_asked_for(board, bus_width, gbps):
    beats, n_bytes = int(20_000 * min(gbps, 1)), bus_width // 8 + 16
    cycles = check(FixtureRun(board(bus_width, memory_gbps=gbps, clock_hz=100e6), beats))
    assert cycles * 10e-9 * gbps * 1e9 == pytest.approx(beats * n_bytes, rel=0.02)


def test_stalls_are_as_probable_as_asked_for(board):
    cycles = check(FixtureRun(board(stall_probability=0.5), 20_000, mode=LABELS_ONLY))
    assert 1.9 < cycles / 20_000 < 2.6                  # one of two channels is the slower


def test_same_seed_same_cycles(board):
    cycles = [check(FixtureRun(board(stall_probability=0.3, stall_seed=seed), 500))
              for seed in (7, 7, 8)]
    assert cycles[0] == cycles[1] != cycles[2]


def test_registers(board):
    device = board()
    identity = [device.read(OFFSETS[f"IDENTITY_{i}"]) for i in range(4)]
    assert sum(word << 32 * i for i, word in enumerate(identity)) == IDENTITY
    assert device.read(OFFSETS["VERSION"]) == MAP_VERSION
    device.write(OFFSETS["BATCH"], 0xFFFFFFFF)
    assert device.read(OFFSETS["BATCH"]) == 0xFFFFFFFF
    assert device.read(0x3FC) == 0


@pytest.mark.parametrize(("name", "error"), [
    ("ROWS", Error.ROW_READ), ("LABELS", Error.AUX_READ), ("MODEL_OUT", Error.MODEL_WRITE)])
@pytest.mark.parametrize("address", [0, 0x1000_0000 + 63 * MIB, (1 << 64) - 4096])
def test_access_outside_of_buffers(board, name, error, address):
    run = FixtureRun(board(), 300)
    run.set_address(name, address)
    assert run.run()[0] == error
    assert run.get("STATUS") == Status.DONE | Status.FAILED
    port = "m_axi_rows" if name == "ROWS" else "m_axi_aux"
    assert run.device.board.first_stray == (port, address)


@pytest.mark.parametrize(("name", "error"), [
    ("rows", Error.ROW_READ), ("labels", Error.AUX_READ), ("out", Error.MODEL_WRITE)])
def test_injected_error(board, name, error):
    run = FixtureRun(board(), 300)
    run.device.board.set_broken([(getattr(run, name).address + 200 * 8, 1)])
    assert run.run()[0] == error
    assert run.device.board.stray_accesses == 0
    written = run.written()                             # only to the error's burst and not after
    np.testing.assert_array_equal(written[:150], run.expected()[:150])
    run.device.board.set_broken([])
    check(run)


def test_abort_in_the_middle(board):
    run = FixtureRun(board(stall_probability=0.3), 5000)
    run.start()
    run.device.board.run(1000)
    run.set("CONTROL", 2)
    assert run.wait()
    assert run.get("ERROR") == Error.ABORTED
    assert (run.written()[-100:] == np.uint64(int.from_bytes([POISON] * 8, "little"))).all()
    check(run)


@pytest.mark.parametrize(("fault", "message"), [
    ("crosses", "crosses 4 KiB"), ("unaligned", "is not aligned to a beat"),
    ("long", "has more than 16 beats"), ("withdrawn", "was withdrawn or changed"),
    ("wlast", "has WLAST at the wrong beat"),
])
def test_violations(board, fault, message):
    run = FixtureRun(board(faulty=True, stall_probability=0.5), 1000, fault=fault)
    with pytest.raises(DeviceError, match=rf"violation of AXI: cycle \d+: m_axi_.*{message}"):
        run.run()
    with pytest.raises(DeviceError, match=message):     # it stays
        run.get("STATUS")


@pytest.mark.parametrize("latency", [1, 300])
def test_a_run_that_is_done_before_its_models_are_written(board, latency):
    """The board looks at the buses when the interrupt rises, and from then on."""
    run = FixtureRun(board(faulty=True, memory_latency=latency), 100, fault="early")
    with pytest.raises(DeviceError, match="m_axi_aux: is in use although the run is done"):
        run.run()


def test_answers_that_are_errors(board):
    """Each answer of each port, one after the other, until a run has no more of them."""
    run = FixtureRun(board(), 40)
    for port, response, error, count in (
            ("rows", SLVERR, Error.ROW_READ, 40), ("rows", DECERR, Error.ROW_READ, 40),
            ("aux_read", DECERR, Error.AUX_READ, 40), ("aux_write", DECERR, Error.MODEL_WRITE, 3)):
        for number in range(1, count + 1):
            run.device.board.set_fault(port, number, response)
            assert run.run()[0] == error
        run.device.board.set_fault(port, count + 1, response)
        check(run)
        run.device.board.set_fault(port, 0, response)
    assert run.device.board.stray_accesses == 0


def test_frozen_memory(board):
    run = FixtureRun(board(), 400)
    cycles = check(run)
    run.start()
    run.device.board.run(100)
    run.device.board.freeze(1000)
    assert run.device.board.run(950) == 950     # what has come may still be written, not more
    assert run.get("STATUS") == Status.BUSY
    assert run.wait()
    assert cycles + 900 < run.get("CYCLES_LO") < cycles + 1100


def test_cycles_of_a_run_do_not_depend_on_the_one_before(board):
    device = board(stall_probability=0.4, memory_gbps=0.7)
    cycles = [check(FixtureRun(device, beats)) for beats in (300, 77)]
    device.board.run(1234)
    assert [check(FixtureRun(device, beats)) for beats in (300, 77, 77)] == [*cycles, cycles[1]]


def test_many_registers_at_once(board):
    device = board().board
    device.write_all([(OFFSETS["BATCH"], 5), (OFFSETS["ROWS"], 0xFFFF_FFFF)])
    assert device.read_all([OFFSETS["ROWS"], OFFSETS["BATCH"]]) == [0xFFFF_FFFF, 5]


@pytest.fixture
def own_clock(monkeypatch):
    """The device's seconds are those that this process works, whatever else the machine does."""
    monkeypatch.setattr(device_module, "time", types.SimpleNamespace(monotonic=time.process_time))


@pytest.mark.usefixtures("own_clock")
def test_wait_gives_up(board):
    run = FixtureRun(board(faulty=True), 10, fault="hangs")
    run.start()
    start = time.process_time()
    assert not run.wait(timeout_s=0.3)
    assert 0.3 <= time.process_time() - start < 1.0
    assert run.get("STATUS") == Status.BUSY


@pytest.mark.usefixtures("own_clock")
def test_wait_calls_often(board):
    run = FixtureRun(board(faulty=True), 10, fault="hangs")
    run.start()
    times = []
    run.device.wait(lambda: times.append(time.process_time()), timeout_s=2.0)
    assert np.diff(times).max() < 0.2
    assert len(times) > 5


def test_short_runs_do_not_make_the_next_wait_long(board, monkeypatch):
    """A run that its interrupt ends says nothing about how many cycles fit into a chunk."""
    device = board()
    run = FixtureRun(device, 1500)
    monkeypatch.setattr(device_module, "time", types.SimpleNamespace(
        monotonic=lambda: device.board.cycles * 1e-6))      # a host on which a run takes 2 ms
    for _ in range(25):
        cycles = check(run)
        assert cycles > 1000
    assert device._cycles_per_second <= 1e6


def test_interrupt_that_is_up_is_not_waited_for(board):
    """A run may end at any of the registers that are read between two waits."""
    device = board()
    device._cycles_per_second = 1e8
    run = FixtureRun(device, 20)
    check(run)
    run.start()
    cycles = device.board.run(10_000)
    for early in range(12):
        run.start()
        device.board.run(cycles - early)
        answers = iter([False, False])

        def done(answers=answers):      # as a driver looks: STATUS, and then at other registers
            if next(answers, True):
                return True
            device.board.read_all([OFFSETS["STATUS"], OFFSETS["EPOCHS_DONE"]])
            return False

        before = device.board.cycles
        assert device.wait(done, timeout_s=10.0)
        assert device.board.cycles - before < 100


def test_missing_copies_show(board):
    device = board()
    buffer = device.allocate(100)
    assert (buffer.array == POISON).all()
    buffer.array[:] = 1
    buffer.from_device()
    assert (buffer.array == POISON).all()
    buffer.array[:] = 2
    buffer.to_device()
    buffer.array[:] = 3
    buffer.from_device()
    assert (buffer.array == 2).all()


def test_allocation(board):
    device = board()
    buffers = [device.allocate(n) for n in (1, 4096, 10_000)]
    assert all(buffer.address % 4096 == 0 for buffer in buffers)
    assert [buffer.array.size for buffer in buffers] == [1, 4096, 10_000]
    middle = buffers[1].address
    buffers[1].free()
    buffers[1].free()
    with pytest.raises(DeviceError, match="freed"):
        buffers[1].to_device()
    assert device.allocate(4000).address == middle
    with pytest.raises(MemoryError, match=r"70,000,000 bytes were asked for.* has [\d,]+ \(of 67,"):
        device.allocate(70_000_000)
    with pytest.raises(ValueError, match="at least 1 byte, not 0"):
        device.allocate(0)


def test_close(board):
    device = board()
    buffer = device.allocate(10)
    device.close()
    device.close()
    with pytest.raises(DeviceError, match="closed"):
        device.read(0)
    with pytest.raises(DeviceError, match="closed"):
        buffer.to_device()
    buffer.free()


@pytest.mark.parametrize(("options", "message"), [
    ({"memory_latency": 0}, "memory_latency must be an integer from 1 to 100000, not 0"),
    ({"memory_latency": 1.5}, "memory_latency must be an integer from 1 to 100000, not 1.5"),
    ({"memory_latency": 10 ** 9}, "memory_latency must be an integer from 1 to 100000"),
    ({"memory_gbps": -1}, "memory_gbps must be None or a number between 0.01 and .*, not -1$"),
    ({"memory_gbps": float("inf")}, "memory_gbps must be None or a number between .*, not inf"),
    ({"stall_probability": 1}, "stall_probability must be a number of at least 0 and below 1"),
    ({"stall_probability": "x"}, "stall_probability must be a number .*, not 'x'"),
    ({"stall_seed": 1 << 64}, "stall_seed must be an integer from 0 to 18446744073709551615"),
    ({"memory_bytes": 0}, "memory_bytes must be an integer of at least 1, not 0"),
    ({"memory_bytes": 1.5e6}, "memory_bytes must be an integer of at least 1, not 1500000.0"),
    ({"clock_hz": 0}, "clock_hz must be a number between 0 and 1e.12, not 0"),
    ({"clock_hz": float("inf")}, "clock_hz must be a number between 0 and 1e.12, not inf"),
])
def test_bad_options(board, options, message):
    with pytest.raises(ValueError, match=message):
        board(**options)


@pytest.mark.slow
def test_wave(board, tmp_path):
    device = board(wave=tmp_path / "run.fst")
    check(FixtureRun(device, 20))
    device.close()
    content = (tmp_path / "run.fst").read_bytes()
    assert content[:9] == bytes([0, 0, 0, 0, 0, 0, 0, 1, 73])       # header block, its length
    assert b"m_axi_rows_araddr" in content
