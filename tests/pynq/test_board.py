"""The device `pynq` by the real pynq library, on boards whose FPGA is the Verilated top."""
# pyright: reportMissingImports=false, reportAttributeAccessIssue=false
# pyright: reportArgumentType=false, reportOptionalOperand=false

import asyncio
import json
import time
import warnings

import numpy as np
import pynq
import pytest
from pynq.ps import Clocks

from bitstep.cli import main
from bitstep.devices import driver as driver_module
from bitstep.devices.deploy import collect, deploy_local
from bitstep.devices.pynq import PynqBuffer, PynqDevice
from bitstep.devices.pynq import device as device_module
from bitstep.golden.sgd import train
from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.registers import MAP_VERSION, OFFSETS, REGISTERS, Loss, Status
from bitstep.pipeline.results import (
    BadConfigurationError,
    BusError,
    DeviceError,
    RangeOverflowError,
    RunError,
    RunTimeoutError,
)
from bitstep_hw.boards.vivado import IP_INSTANCE
from bitstep_hw.boards.zynq import BOARDS
from bitstep_sim.board import verilator
from bitstep_sim.board.verilog import generate
from bitstep_sim.pynq_board.device import BusFault, SimulatedBoard
from bitstep_sim.pynq_board.handoff import write_bitstream
from bitstep_sim.testing.bit_plane_jobs import random_bit_plane_job
from bitstep_sim.testing.random_jobs import random_job, random_jobs

VERSION = tuple(map(int, pynq.__version__.split(".")[:2]))
# pynq 4 no longer knows Zynq-7000.
NAMES = [name for name, board in BOARDS.items() if VERSION < (4, 0) or board.family.name != "zynq"]
CONFIGS = {
    "4 bits": PipelineConfig(bits=4, max_features=64, lookahead=2, update_interval=4),
    "two ports of rows": PipelineConfig(bits=8, bus_width=128, row_ports=2, max_features=64,
                                        lookahead=1),
    "four ports of rows": PipelineConfig(bits=8, bus_width=512, row_ports=4, max_features=128,
                                         lookahead=1),
    "three ports": PipelineConfig(bits=2, max_features=64, lookahead=0, refetch=True),
    "bit-plane rows": PipelineConfig(bits=16, row_format="bit_planes", max_features=64, lookahead=1,
                                 update_interval=4),
    "two models": PipelineConfig(bits=2, max_features=64, lookahead=1, update_interval=4,
                                 models=2),
}
CONFIG = CONFIGS["4 bits"]


@pytest.fixture(scope="module", params=NAMES)
def folder(request, tmp_path_factory):
    """A folder with the bitstreams of a board, and the board."""
    board = BOARDS[request.param]
    folder = tmp_path_factory.mktemp(board.name)
    for config in CONFIGS.values():
        if config.row_ports in board.family.row_ports:
            verilator.build(generate(config))       # so that loading is as fast as on a board
            write_bitstream(folder, board, config)
    return board, folder


def path_of(folder, config=CONFIG):
    board, path = folder
    return path / f"{board.name}-{config.name}.bit"


@pytest.fixture
def switched_on(folder):
    """Switches on boards of this kind, and off at the end."""
    boards = []

    def switch_on(**options):
        simulated = SimulatedBoard(folder[0], **options)
        pynq.Device.active_device = simulated
        boards.append(simulated)
        return simulated

    yield switch_on
    for simulated in boards:
        simulated.close()


@pytest.fixture
def device(folder, switched_on):
    """The device on a board with an interrupt."""
    switched_on()
    opened = PynqDevice(CONFIG, bitfile=path_of(folder))
    yield opened
    opened.close()


def small_job(**changes):
    return random_job(CONFIG, **{"n_features": 20, "n_rows": 200, "epochs": 3} | changes)


def is_golden(result, job):
    expected = list(train(job))
    assert not any(epoch.overflow for epoch in expected)
    return result.epochs_done == len(expected) and all(
        np.array_equal(model, epoch.model) and intercept == epoch.intercept
        for model, intercept, epoch in zip(result.models, result.intercepts, expected,
                                           strict=True))


@pytest.mark.parametrize("name", CONFIGS)
def test_job_is_golden(folder, switched_on, name):
    config = CONFIGS[name]
    if config.row_ports not in folder[0].family.row_ports:
        pytest.skip("the board has too few memory ports")
    simulated = switched_on()
    changes = {"loss": Loss.HINGE, "cell_half_levels": 2} if config.refetch else \
        {"correction_period": 20, "warm": True, "copies": 2}
    if config.row_format == "bit_planes":
        job = random_bit_plane_job(config, n_features=43, n_rows=101, planes=(4, 16, 1),
                               correction_period=20)
    else:
        job = random_job(config, n_features=43, n_rows=101, epochs=3, **changes)
    device = PynqDevice(config, bitfile=path_of(folder, config))
    seen = []
    result = device.train(job, on_epoch=seen.append)
    assert is_golden(result, job)
    assert seen[-1] == 3
    assert result.counters["cycles"] > 0
    assert simulated.blocks.blocks == []
    assert simulated.pipeline.stray_accesses == 0
    device.close()


def test_two_models_are_golden(folder, switched_on):
    """A pass of two, and one of a single model."""
    switched_on()
    config = CONFIGS["two models"]
    jobs = random_jobs(config, 3, n_features=43, n_rows=101, batch=4, correction_period=8)
    with PynqDevice(config, bitfile=path_of(folder, config)) as device:
        for job, result in zip(jobs, device.train_models(jobs), strict=True):
            assert is_golden(result, job)


def test_several_runs_by_interrupt(folder, switched_on, monkeypatch):
    """On two boards after each other: pynq keeps the interrupt's file open as long as it runs."""
    monkeypatch.setattr(device_module, "LOOK_S", 10.0)      # nothing but the interrupt ends a wait
    for _ in range(2):
        file = switched_on().interrupt_file
        device = PynqDevice(CONFIG, bitfile=path_of(folder))
        assert device.uses_interrupt
        for seed in range(3):
            job, arrived = small_job(seed=seed, n_rows=3000), file.arrived
            assert is_golden(device.train(job), job)
            assert file.arrived > arrived
        device.close()


def test_interrupt_that_is_lost(device):
    file = pynq.Device.active_device.interrupt_file
    file.lost = True
    job = small_job(n_rows=3000, epochs=9)
    assert is_golden(device.train(job), job)
    assert not device.uses_interrupt            # from now on it looks
    assert is_golden(device.train(job), job)
    file.lost = False                           # it comes late, for nobody
    deadline = time.monotonic() + 10
    while file.arrived < file.enabled and time.monotonic() < deadline:
        time.sleep(0.001)
    assert file.arrived == file.enabled
    assert is_golden(device.train(job), job)


def test_interrupts_after_a_run_that_was_broken_off(folder, switched_on):
    """pynq must not go on to wait for the interrupt of that run: it would take those of others."""
    file = switched_on().interrupt_file

    def stop(epochs_done):
        raise KeyboardInterrupt

    for seed in range(2):
        with PynqDevice(CONFIG, bitfile=path_of(folder)) as device:
            with pytest.raises(KeyboardInterrupt):
                device.train(small_job(n_rows=3000, epochs=9), on_epoch=stop)
            job = small_job(seed=seed, n_rows=3000)
            assert is_golden(device.train(job), job)
            assert device.uses_interrupt
        assert file.enabled == file.arrived


def test_two_devices_take_turns(folder, device):
    """pynq waits for interrupts of the bitstream that was loaded last, and of no other."""
    with PynqDevice(CONFIG, bitfile=path_of(folder)) as second:
        for seed, one in enumerate((device, second, device)):
            job = small_job(seed=seed, n_rows=3000)
            assert is_golden(one.train(job), job)
    assert is_golden(device.train(job), job)


@pytest.mark.parametrize("offered", [True, False])
def test_without_interrupt(folder, switched_on, offered):
    switched_on(with_interrupt=offered)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        device = PynqDevice(CONFIG, bitfile=path_of(folder), interrupt=not offered)
    assert offered or any("Could not find UIO device" in str(entry.message) for entry in said)
    assert not device.uses_interrupt
    job = small_job()
    assert is_golden(device.train(job), job)
    device.close()


def test_inside_an_event_loop(device):
    """As in a notebook, whose loop runs the cell that trains."""
    job = small_job()

    async def cell():
        return device.train(job)

    assert is_golden(asyncio.run(cell()), job)


def test_stalling_memory(folder, switched_on):
    switched_on(stall_probability=0.3, stall_seed=1)
    device = PynqDevice(CONFIG, bitfile=path_of(folder))
    job = small_job()
    assert is_golden(device.train(job), job)
    device.close()


def test_bounded_wait(folder, switched_on):
    switched_on(bytes_per_cycle=1e-6)           # so no row ever comes
    device = PynqDevice(CONFIG, bitfile=path_of(folder))
    with pytest.raises(RunTimeoutError, match=r"Device 'pynq' made no progress for \d\.\d s"):
        device.train(small_job(), timeout_s=0.3)
    device.close()


@pytest.mark.filterwarnings("ignore:Interrupt interrupt not created")
def test_hardware_as_pynq_sees_it(folder, switched_on):
    switched_on(with_interrupt=False)
    board = folder[0]
    overlay = pynq.Overlay(str(path_of(folder)))
    entry = overlay.ip_dict[IP_INSTANCE]
    assert entry["phys_addr"] == board.family.registers_address
    assert {name: (found["address_offset"], found["size"])
            for name, found in entry["registers"].items()} == \
        {register.name: (register.offset, 32) for register in REGISTERS}
    assert overlay.interrupt_pins[f"{IP_INSTANCE}/interrupt"]["controller"] == "axi_intc_0"
    assert overlay.interrupt_controllers["axi_intc_0"]["raw_irq"] == board.family.first_interrupt
    pipeline = getattr(overlay, IP_INSTANCE)
    assert int(pipeline.register_map.VERSION) == MAP_VERSION
    pipeline.register_map.ROWS = 77
    assert pipeline.read(OFFSETS["ROWS"]) == 77
    assert Clocks.fclk0_mhz == pytest.approx(board.clock_mhz, rel=1e-3)


# Dividers of a Vivado whose PLL is another: 4 x 4 of a Zynq-7000 without a preset, 12 of RPLL.
FOREIGN = {"zynq": (4, 4), "zynquplus": (12, 1)}


def report_of(device_options, tmp_path):
    """The report of a short training by the command line."""
    rows = np.random.default_rng(1).normal(size=(120, 12))
    data, report = tmp_path / "data.csv", tmp_path / "report.json"
    np.savetxt(data, np.column_stack([rows @ np.arange(12), rows]), delimiter=",")
    assert main(["train", str(data), "--bits", "4", "--epochs", "5", "--train-rows", "100",
                 *device_options, "--report", str(report)]) == 0
    return json.loads(report.read_text())


def test_dividers_of_another_pll(folder, switched_on, tmp_path):
    board = folder[0]
    simulated = switched_on()
    path = write_bitstream(tmp_path, board, CONFIG, dividers=FOREIGN[board.family.name])
    device = PynqDevice(CONFIG, bitfile=path)
    assert simulated.clocks.fpga_mhz == pytest.approx(board.clock_mhz)
    assert device.clock_hz == device.clock.hz == pytest.approx(1e6 * board.clock_mhz, rel=2e-5)
    first, second = FOREIGN[board.family.name]
    # pynq 4 sets a frequency, and not these dividers.
    found_mhz = board.clock_mhz if VERSION >= (4, 0) else board.pll_mhz / (first * second)
    assert device.clock.found_hz == pytest.approx(1e6 * found_mhz, rel=2e-5)
    assert device.clock.wanted_hz == 1e6 * board.clock_mhz
    job = small_job()
    assert is_golden(device.train(job), job)
    device.close()


def test_seconds_are_those_of_the_true_clock(folder, switched_on, tmp_path):
    """A PLL that cannot be divided to the wanted clock."""
    board = folder[0]
    pll_mhz, divider = {"kv260": (3200 / 3, 9), "ultra96": (1600, 11)}.get(board.name, (1050, 10))
    simulated = switched_on(pll_mhz=pll_mhz)
    path = write_bitstream(tmp_path, board, CONFIG)
    if board.family.name == "zynq":             # 1,050 MHz: 105 is nearer than 95.5
        with pytest.raises(DeviceError, match=r"must be 100 MHz, .* pynq reads 105 MHz after"):
            PynqDevice(CONFIG, bitfile=path)
        return
    report = report_of(["--device", "pynq", "--bitfile", str(path)], tmp_path)
    assert simulated.clocks.fpga_mhz == pytest.approx(pll_mhz / divider)
    assert report["clock_hz"] == pytest.approx(1e6 * pll_mhz / divider, rel=2e-5)
    assert report["device_seconds"] == report["counters"]["cycles"] / report["clock_hz"]


def test_clock_that_stays(folder, switched_on, tmp_path, monkeypatch):
    """A register that cannot be written: the clock is that of the boot loader."""
    simulated = switched_on()
    monkeypatch.setattr(simulated.clocks, "write", lambda address, value: None)
    assert simulated.clocks.fpga_mhz < 30
    with pytest.raises(DeviceError, match=r"pynq reads [12]\d.* MHz after .* so it was not set"):
        PynqDevice(CONFIG, bitfile=path_of(folder))


def test_description_without_registers(folder, switched_on, tmp_path):
    switched_on()
    device = PynqDevice(CONFIG, bitfile=write_bitstream(tmp_path, folder[0], CONFIG,
                                                        with_registers=False))
    job = small_job()
    assert is_golden(device.train(job), job)
    device.close()


def test_run_of_a_killed_program(folder, switched_on, monkeypatch):
    """The next program ends it before it loads a bitstream under its reads."""
    board = switched_on()
    device = PynqDevice(CONFIG, bitfile=path_of(folder))

    def kill(done):
        raise SystemExit

    with monkeypatch.context() as patch:
        patch.setattr(driver_module.RegisterRun, "abort", lambda run: True)
        patch.setattr(PynqBuffer, "free", lambda buffer: None)
        with pytest.raises(SystemExit):
            device.train(small_job(n_rows=5000, epochs=200), on_epoch=kill)
    assert device.read(OFFSETS["STATUS"]) & Status.BUSY
    device_module._OPEN.discard(device)
    device._confirmed = False
    following = PynqDevice(CONFIG, bitfile=path_of(folder))
    assert board.cut_short == 0
    job = small_job()
    assert is_golden(following.train(job), job)
    following.close()
    device.close()


@pytest.fixture
def notes():
    """pynq's notes of the bitstream that it loaded last."""
    from pynq.pl_server import global_state
    yield global_state
    global_state.clear_global_state()


def note(notes, path):
    path.write_bytes(b"bits")
    notes.save_global_state(notes.GlobalState(bitfile_name=str(path), active_name="x",
                                              timestamp="now"))


def test_notes_of_a_bitstream_that_is_gone(folder, switched_on, notes, tmp_path):
    """pynq 3.0 itself cannot load any other then."""
    switched_on()
    note(notes, tmp_path / "old.bit")
    (tmp_path / "old.bit").unlink()
    if VERSION < (3, 1):
        with pytest.raises(FileNotFoundError):
            print(pynq.PL.bitfile_name)
    PynqDevice(CONFIG, bitfile=path_of(folder)).close()
    assert notes.global_state_file_exists() == (VERSION >= (3, 1))


def test_deploy_makes_pynq_forget(folder, switched_on, notes, tmp_path):
    """pynq 3.0 believes that a file which is written over is the one that it loaded."""
    switched_on()
    note(notes, tmp_path / "old.bit")
    (tmp_path / "old.bit").write_bytes(b"others")
    if VERSION < (3, 1):
        assert notes.load_global_state().bitfile_hash == \
            notes.bitstream_hash(tmp_path / "old.bit")
    payload = collect(folder[0].name, [path_of(folder)])
    deploy_local(payload, tmp_path / "there", check=False, tell=lambda line: None)
    assert not notes.global_state_file_exists()


def test_nothing_answers(switched_on):
    switched_on()
    with pytest.raises(BusFault, match="at address 0x50000000"):
        pynq.MMIO(0x5000_0000, 4).read(0)


def test_wrong_bitstream(folder, switched_on, tmp_path):
    switched_on()
    path = write_bitstream(tmp_path, folder[0], CONFIG)
    manifest = json.loads(path.with_suffix(".json").read_text())
    manifest["identity"] = "0" * 32
    path.with_suffix(".json").write_text(json.dumps(manifest))
    with pytest.raises(DeviceError, match=r"identifies itself as \w{32}, not 0{32}: another"):
        PynqDevice(CONFIG, bitfile=path)


def test_description_of_something_else(folder, switched_on, tmp_path):
    switched_on()
    path = write_bitstream(tmp_path, folder[0], CONFIG)
    handoff = path.with_suffix(".hwh")
    handoff.write_text(handoff.read_text().replace("bitstep:user:", "acme:user:"))
    _correct_sums(path)
    with pytest.raises(DeviceError, match="describes 0 pipelines"):
        PynqDevice(CONFIG, bitfile=path)


def test_description_that_pynq_cannot_read(folder, switched_on, tmp_path):
    switched_on()
    path = write_bitstream(tmp_path, folder[0], CONFIG)
    handoff = path.with_suffix(".hwh")
    handoff.write_text(handoff.read_text().replace("<EXTERNALPORTS />", ""))
    _correct_sums(path)
    with pytest.raises(DeviceError, match=r"pynq \S+ cannot load .*as root"):
        PynqDevice(CONFIG, bitfile=path)


def _correct_sums(path):
    import hashlib
    manifest = json.loads(path.with_suffix(".json").read_text())
    manifest["handoff"]["sha256"] = \
        hashlib.sha256(path.with_suffix(".hwh").read_bytes()).hexdigest()
    path.with_suffix(".json").write_text(json.dumps(manifest))


def test_too_little_memory(folder, switched_on):
    board = switched_on(memory_bytes=1 << 16)
    device = PynqDevice(CONFIG, bitfile=path_of(folder))
    with pytest.raises(MemoryError, match=r"no [\d,]+ contiguous bytes \(Failed to allocate"):
        device.train(small_job(n_rows=5000))
    assert board.blocks.blocks == []
    job = small_job()
    assert is_golden(device.train(job), job)
    device.close()


def test_close_frees(device):
    board = pynq.Device.active_device
    buffer = device.allocate(100)
    assert len(board.blocks.blocks) == 1
    assert buffer.array.shape == (100,)
    assert buffer.address % 4096 == 0
    device.close()
    device.close()
    assert board.blocks.blocks == []
    for action in (buffer.to_device, buffer.from_device):
        with pytest.raises(DeviceError, match="freed"):
            action()
    buffer.free()
    with pytest.raises(DeviceError, match="is closed"):
        device.read(0)


# The driver's classic faults, each of which silently gives wrong models on a real board.

def no_flush(monkeypatch):
    monkeypatch.setattr(PynqBuffer, "to_device", lambda self: None)


def no_invalidate(monkeypatch):
    monkeypatch.setattr(PynqBuffer, "from_device", lambda self: None)


def cut_address(monkeypatch):
    original = PynqDevice.write
    high = [offset for name, offset in OFFSETS.items() if name.endswith("ADDRESS_HI")]
    monkeypatch.setattr(PynqDevice, "write", lambda self, offset, value: original(
        self, offset, 0 if offset in high else value))


def changed(name, change):
    def mutate(monkeypatch):
        original = PynqDevice.write
        monkeypatch.setattr(PynqDevice, "write", lambda self, offset, value: original(
            self, offset, change(value) if offset == OFFSETS[name] else value))
    return mutate


def short_buffer(monkeypatch):
    original = PynqDevice.allocate
    monkeypatch.setattr(PynqDevice, "allocate", lambda self, n_bytes: original(self, n_bytes - 1))


OTHER = "other models"
FAULTS = {                          # what it may end with
    "no flush": (no_flush, {OTHER, RunError, RangeOverflowError, BadConfigurationError}),
    "no invalidate": (no_invalidate, {OTHER}),
    "address of 32 bits": (cut_address, {BusError}),
    "a row less": (changed("ROWS", lambda rows: rows - 1), {OTHER}),
    "a row more": (changed("ROWS", lambda rows: rows + 1), {BusError}),
    "a beat less": (changed("BEATS_PER_ROW", lambda beats: beats - 1), {OTHER, RangeOverflowError}),
    "an epoch more": (changed("EPOCHS", lambda epochs: epochs + 1), {BusError}),
    "models too close": (changed("MODEL_OUT_STRIDE_LO", lambda stride: stride - 8), {OTHER}),
    "short buffer": (short_buffer, {DeviceError}),
}


def outcome(device, job):
    """"golden", "other models" or the class of an error."""
    try:
        result = device.train(job)
    except DeviceError as error:
        return type(error)
    return "golden" if is_golden(result, job) else OTHER


@pytest.mark.parametrize("fault", FAULTS)
def test_fault_is_noticed(device, monkeypatch, fault):
    if fault == "address of 32 bits" and pynq.Device.active_device.memory_base < 1 << 32:
        pytest.skip("this board's addresses have 32 bits")
    job = small_job(n_rows=512)                 # 8 KiB of rows: nothing lies behind their end
    assert outcome(device, job) == "golden"
    mutate, expected = FAULTS[fault]
    mutate(monkeypatch)
    assert outcome(device, job) in expected
    assert (pynq.Device.active_device.pipeline.stray_accesses > 0) == (BusError in expected)


def test_command_line(folder, switched_on, tmp_path, capsys):
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(120, 12))
    labels = rows @ rng.normal(size=12) + 3
    data = tmp_path / "data.csv"
    np.savetxt(data, np.column_stack([labels, rows]), delimiter=",")
    switched_on()
    common = ["train", str(data), "--bits", "4", "--epochs", "5", "--train-rows", "100"]
    reports = {}
    for name, options in {"pynq": ["--bitfile", str(path_of(folder))], "golden": []}.items():
        report = tmp_path / f"{name}.json"
        assert main([*common, "--device", name, *options, "--report", str(report)]) == 0
        reports[name] = json.loads(report.read_text())
    assert reports["pynq"]["history"] == reports["golden"]["history"]
    assert main(["devices"]) == 0
    assert "pynq    yes" in capsys.readouterr().out
