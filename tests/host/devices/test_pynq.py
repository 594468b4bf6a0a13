"""The device of PYNQ boards against a stand-in for pynq; tests/pynq has the real one."""

import asyncio
import dataclasses
import gc
import json
import os
import re
import subprocess
import sys
import threading
import time
import types
from pathlib import Path

import numpy as np
import pytest
from fake_pynq import FakeClocks, FakePynq, write_bitstream
from fakes import make_job

from bitstep.cli import main
from bitstep.devices import available, device_class, open_device
from bitstep.devices.pynq import PynqDevice, find_bitstream, left, read_bitstream
from bitstep.devices.pynq import device as device_module
from bitstep.golden.sgd import train
from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.registers import Error, Status
from bitstep.pipeline.results import DeviceError
from bitstep.training.files.checkpoint import load_checkpoint

CONFIG = PipelineConfig(bits=3, max_features=64)


@pytest.fixture
def use(monkeypatch):
    """Makes a stand-in the installed pynq."""
    def install(*given, **options):
        fake = FakePynq(*given, **options)
        monkeypatch.setitem(sys.modules, "pynq", fake)
        return fake
    return install


def job(epochs=3):
    rng = np.random.default_rng(0)
    return make_job(rng.integers(-3, 4, (10, 25)), rng.integers(-100, 100, 10), config=CONFIG,
                    mantissa=3, epochs=epochs, label_shift=8)


def test_is_installed():
    assert "pynq" in available()
    assert device_class("pynq") is PynqDevice


def test_trains_as_golden(use, tmp_path):
    fake = use(CONFIG)
    path = write_bitstream(tmp_path, CONFIG)
    with open_device("pynq", CONFIG, bitfile=str(path)) as device:
        result = device.train(job())
        assert device.clock_hz == 100e6
        assert isinstance(device, PynqDevice)
        assert not device.uses_interrupt
    np.testing.assert_array_equal(result.models, [epoch.model for epoch in train(job())])
    assert fake.loaded == [str(path)]
    assert fake.pipeline.buffers == []


@pytest.mark.parametrize(("pll_mhz", "divider", "found_mhz", "mhz"), [
    (1000, 16, 62.5, 100), (1500, 8, 187.5, 100), (1000, 10, 100, 100),
    (1066, 10, 106.6, 1066 / 11), (1000.05, 5, 200.01, 100.005)])
def test_sets_the_clock(use, tmp_path, pll_mhz, divider, found_mhz, mhz):
    """Dividers of the .hwh are for another PLL than the board's."""
    use(CONFIG, clocks=FakeClocks(pll_mhz, divider))
    device = PynqDevice(CONFIG, bitfile=write_bitstream(tmp_path, CONFIG))
    assert device.clock_hz == device.clock.hz == pytest.approx(1e6 * mhz)
    assert device.clock.found_hz == pytest.approx(1e6 * found_mhz)
    assert device.clock.wanted_hz == 100e6
    device.close()


def test_tries_a_clock(use, tmp_path):
    """Faster than the bitstream's, too; who opens the board again has the bitstream's."""
    use(CONFIG, clocks=FakeClocks(1000, 16))
    path = write_bitstream(tmp_path, CONFIG)
    with open_device("pynq", CONFIG, bitfile=str(path)) as device:
        assert isinstance(device, PynqDevice)
        assert device.try_clock(140e6) == device.clock_hz == pytest.approx(1e9 / 7)
        assert device.clock.hz == 100e6
    device = PynqDevice(CONFIG, bitfile=path)
    assert device.clock_hz == 100e6
    device.close()
    with pytest.raises(DeviceError, match="is closed"):
        device.try_clock(100e6)


@pytest.mark.parametrize(("clocks", "message"), [
    (FakeClocks(1050), "must be 100 MHz, .* but pynq reads 105 MHz after setting it"),
    (FakeClocks(1500, 12, stuck=True), r"reads 125 MHz .*\(125 MHz before\)\. Models could be wro"),
    (FakeClocks(1000.3), r"reads 100\.03 MHz"),
    (FakeClocks(1000, 16, stuck=True), r"reads 62\.5 MHz .* within 6%, so it was not set"),
    (object(), "pynq 0.0 cannot set the clock of the FPGA to 100 MHz: AttributeError"),
    (FakeClocks(float("nan"), stuck=True), "reads nan MHz"),
])
def test_wrong_clock(use, tmp_path, clocks, message):
    use(CONFIG, clocks=clocks)
    with pytest.raises(DeviceError, match=message):
        PynqDevice(CONFIG, bitfile=write_bitstream(tmp_path, CONFIG))


def test_path_is_made_absolute(use, tmp_path, monkeypatch):
    """pynq looks for a relative path among its own overlays."""
    fake = use(CONFIG)
    path = write_bitstream(tmp_path, CONFIG)
    monkeypatch.chdir(tmp_path)
    PynqDevice(CONFIG, bitfile=path.name).close()
    assert fake.loaded == [str(path)]


def test_writes_words(use, tmp_path):
    fake = use(CONFIG)
    device = PynqDevice(CONFIG, bitfile=write_bitstream(tmp_path, CONFIG))
    device.write(0x40, np.uint32(7))      # type: ignore[arg-type]
    assert fake.pipeline.get("ROWS") == 7
    device.close()


def test_reset_under_a_run_is_noticed_soon(use, tmp_path):
    """As when another program loads a bitstream: registers say nothing, and no interrupt comes."""
    fake = use(CONFIG, interrupt=FakeInterrupt(10))
    device = PynqDevice(CONFIG, bitfile=write_bitstream(tmp_path, CONFIG))

    def reset(done):
        fake.pipeline.run = None
        for name in ("STATUS", "EPOCHS_DONE", "BEATS_LO", "MODEL_OUT_ADDRESS_LO"):
            fake.pipeline.set(name, 0)

    started = time.monotonic()
    with pytest.raises(DeviceError, match=r"is gone .*the board was reset, or another program"):
        device.train(job(), on_epoch=reset)
    fake.pipeline.hang, started = 0, time.monotonic()
    with device.begin([job()]) as run:
        epochs = run.epochs()
        timer = threading.Timer(0.2, reset, [0])
        timer.start()
        with pytest.raises(DeviceError, match="STATUS 0x00000000 says neither busy nor done"):
            next(epochs)
    assert time.monotonic() - started < 10
    assert fake.pipeline.buffers == []
    fake.pipeline.hang = None
    np.testing.assert_array_equal(device.train(job()).models,
                                  [epoch.model for epoch in train(job())])
    device.close()


class FakeInterrupt:
    """Comes after some seconds, or fails."""

    def __init__(self, seconds=0.0, error=None):
        self.seconds, self.error, self.waits = seconds, error, 0

    async def wait(self):
        self.waits += 1
        if self.error:
            raise self.error
        await asyncio.sleep(self.seconds)


def test_waits_by_interrupt(use, tmp_path):
    interrupt = FakeInterrupt(0.01)
    use(CONFIG, interrupt=interrupt)
    device = PynqDevice(CONFIG, bitfile=write_bitstream(tmp_path, CONFIG))
    assert device.uses_interrupt
    looks = []
    assert device.wait(lambda: looks.append(1) or len(looks) > 3, 10) is True
    assert interrupt.waits == 3
    device.close()


def test_one_wait_for_an_interrupt_that_is_late(use, tmp_path, monkeypatch):
    interrupt = FakeInterrupt(60)
    monkeypatch.setattr(device_module, "LOOK_S", 0.01)
    use(CONFIG, interrupt=interrupt)
    device = PynqDevice(CONFIG, bitfile=write_bitstream(tmp_path, CONFIG))
    started = time.monotonic()
    assert device.wait(lambda: False, 0.1) is False
    assert 0.1 <= time.monotonic() - started < 60
    assert interrupt.waits == 1
    assert device.uses_interrupt
    late = time.monotonic() + 0.02
    assert device.wait(lambda: time.monotonic() > late, 60) is True
    assert not device.uses_interrupt            # it did not tell
    device.close()


class InterruptOnCall:
    """Comes when ``come`` is set; counts how often it did."""

    def __init__(self):
        self.come, self.came = threading.Event(), 0

    async def wait(self):
        while not self.come.is_set():
            await asyncio.sleep(0.001)
        self.came += 1


def test_interrupt_between_the_last_pause_and_the_look(use, tmp_path, monkeypatch):
    """It is not lost: it comes when the run was seen to be over already."""
    interrupt, looks = InterruptOnCall(), []
    monkeypatch.setattr(device_module, "LOOK_S", 0.01)
    use(CONFIG, interrupt=interrupt)
    device = PynqDevice(CONFIG, bitfile=write_bitstream(tmp_path, CONFIG))

    def done():
        looks.append(1)
        if len(looks) < 2:
            return False
        monkeypatch.setattr(device_module, "LOOK_S", 60)
        interrupt.come.set()
        return True

    assert device.wait(done, 60) is True
    assert interrupt.came == 1
    assert device.uses_interrupt
    device.close()


def test_close_lets_an_interrupt_arrive(use, tmp_path, monkeypatch):
    """pynq would wait for it for ever, beside the next device."""
    interrupt = InterruptOnCall()
    monkeypatch.setattr(device_module, "LOOK_S", 0.01)
    use(CONFIG, interrupt=interrupt)
    device = PynqDevice(CONFIG, bitfile=write_bitstream(tmp_path, CONFIG))
    assert device.wait(lambda: False, 0.02) is False
    monkeypatch.setattr(device_module, "LOOK_S", 60)
    timer = threading.Timer(0.05, interrupt.come.set)
    timer.start()
    device.close()
    assert interrupt.came == 1


def test_interrupt_that_fails(use, tmp_path):
    interrupt = FakeInterrupt(error=RuntimeError("invalidated by Overlay change"))
    use(CONFIG, interrupt=interrupt)
    device = PynqDevice(CONFIG, bitfile=write_bitstream(tmp_path, CONFIG))
    with pytest.raises(DeviceError, match=r"invalidated by Overlay change; open .*interrupt=False"):
        device.wait(lambda: False, 1)
    interrupt.error = None          # the next one is asked for anew
    assert device.await_interrupt(10)
    assert interrupt.waits == 2
    device.close()


def test_closed_device_waits_no_longer(use, tmp_path, monkeypatch):
    """pynq would give a later interrupt to who nobody listens to."""
    ended = threading.Event()

    class Cancelled:
        async def wait(self):
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                ended.set()
                raise

    monkeypatch.setattr(device_module, "LOOK_S", 0.01)
    use(CONFIG, interrupt=Cancelled())
    with PynqDevice(CONFIG, bitfile=write_bitstream(tmp_path, CONFIG)) as device:
        assert not device.await_interrupt(0.02)
        assert not ended.is_set()
    assert ended.wait(10)


def test_without_pynq(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pynq", None)
    with pytest.raises(DeviceError, match=r"'pynq' needs pynq, .* run this on the board, in the "
                                          "Python that came with its SD image"):
        PynqDevice(CONFIG, bitfile=write_bitstream(tmp_path, CONFIG))


@pytest.mark.parametrize("suffix", [".bit", ".hwh", ".json"])
def test_missing_file(tmp_path, suffix):
    path = write_bitstream(tmp_path, CONFIG)
    path.with_suffix(suffix).unlink()
    with pytest.raises(DeviceError, match=rf"-test\{suffix} does not exist: .* side by side"):
        read_bitstream(path)


@pytest.mark.parametrize("suffix", [".bit", ".hwh"])
def test_file_of_another_build(tmp_path, suffix):
    path = write_bitstream(tmp_path, CONFIG)
    path.with_suffix(suffix).write_bytes(b"other")
    with pytest.raises(DeviceError, match=rf"\{suffix} is not the file that .*\.json describes"):
        read_bitstream(path)


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"board": 1, "config": {"bits": 99}}'])
def test_bad_manifest(tmp_path, content):
    path = write_bitstream(tmp_path, CONFIG)
    path.with_suffix(".json").write_text(content)
    with pytest.raises(DeviceError, match="is no manifest of a bitstream for PYNQ"):
        read_bitstream(path)


def test_another_bitstream(use, tmp_path):
    fake = use(CONFIG)
    with pytest.raises(DeviceError, match="another bitstream is loaded"):
        PynqDevice(CONFIG, bitfile=write_bitstream(tmp_path, CONFIG, identity=5))
    assert len(fake.loaded) == 1


def test_old_register_map(use, tmp_path):
    use(CONFIG, version=1)
    with pytest.raises(DeviceError, match="has version 1 of the register map"):
        PynqDevice(CONFIG, bitfile=write_bitstream(tmp_path, CONFIG))


@pytest.mark.parametrize("kinds", [(), ("acme:user:other:1.0",), (FakePynq().kinds * 2)])
def test_not_one_pipeline(use, tmp_path, kinds):
    use(CONFIG, kinds=kinds)
    n = sum(kind.startswith("bitstep") for kind in kinds)
    with pytest.raises(DeviceError, match=rf"describes {n} pipelines .*, not 1"):
        PynqDevice(CONFIG, bitfile=write_bitstream(tmp_path, CONFIG))


@pytest.mark.parametrize("suffix", [".hwh", ".json"])
def test_another_of_the_three_files_is_named(use, tmp_path, suffix):
    """pynq would load what it is given, whatever that is."""
    fake = use(CONFIG)
    path = write_bitstream(tmp_path, CONFIG)
    PynqDevice(CONFIG, bitfile=path.with_suffix(suffix)).close()
    assert fake.loaded == [str(path)]


@pytest.mark.parametrize("error", [RuntimeError("No Devices Found"), OSError("Root permissions"),
                                   TypeError("unsupported operand")])
def test_pynq_fails(use, tmp_path, error):
    use(CONFIG, broken=error)
    with pytest.raises(DeviceError, match=rf"cannot load .*{error}\. Run it on the board, as root"):
        PynqDevice(CONFIG, bitfile=write_bitstream(tmp_path, CONFIG))


@pytest.fixture
def killed(use, tmp_path):
    """A stand-in on which a program was killed in the middle of a run, and the path of the
    bitstream; loading another now would cut off its reads.
    """
    fake = use(CONFIG)
    path = write_bitstream(tmp_path, CONFIG)
    device = PynqDevice(CONFIG, bitfile=path)
    fake.pipeline.set("STATUS", Status.BUSY)
    device_module._OPEN.discard(device)
    device._confirmed = False               # its process is gone
    load = fake.Overlay

    def overlay(path):
        assert not fake.pipeline.get("STATUS") & Status.BUSY
        return load(path)

    fake.Overlay = overlay
    return fake, path


def test_left_run_is_ended(killed):
    fake, path = killed
    PynqDevice(CONFIG, bitfile=path).close()
    assert len(fake.loaded) == 2
    assert fake.pipeline.log[-1] == "CONTROL"
    assert not left.MARK.exists()


def test_left_run_is_ended_before_new_files(killed):
    """They may be of another pipeline, at whose registers nobody must look by the old mark."""
    fake, _ = killed
    left.prepare_for_new_files()
    assert not fake.pipeline.get("STATUS") & Status.BUSY
    assert fake.pipeline.get("ERROR") == Error.ABORTED
    assert not left.MARK.exists()
    fake.looked = False
    left.prepare_for_new_files()
    assert not fake.looked


def test_left_run_that_does_not_end(killed, monkeypatch):
    fake, path = killed
    fake.pipeline.deaf = True
    monkeypatch.setattr(left, "ABORT_TIMEOUT_S", 0.05)
    with pytest.raises(DeviceError, match=r"does not end within 0\.05 s of its abort.*off and on"):
        PynqDevice(CONFIG, bitfile=path)
    assert len(fake.loaded) == 1


def test_left_run_of_root(killed):
    fake, path = killed

    def refuse(address, length):
        raise OSError("Root permissions required.")

    fake.MMIO = refuse
    with pytest.raises(DeviceError, match=r"cannot be read: OSError: Root .*as root, in a login"):
        PynqDevice(CONFIG, bitfile=path)
    assert len(fake.loaded) == 1


@pytest.mark.parametrize("change", ["no mark", "damaged mark", "another bitstream"])
def test_nothing_is_read_without_need(use, tmp_path, change):
    """Where nothing answers, a read can hang the processor."""
    fake = use(CONFIG)
    path = write_bitstream(tmp_path, CONFIG)
    killed = PynqDevice(CONFIG, bitfile=path)
    if change == "no mark":
        left.MARK.unlink()
    elif change == "damaged mark":
        left.MARK.write_text("{")
    else:
        fake.PL.bitfile_name = str(tmp_path / "base.bit")
    PynqDevice(CONFIG, bitfile=path).close()
    assert not fake.looked
    del killed


def test_pipeline_of_another_identity_is_left_alone(killed):
    fake, path = killed
    mark = json.loads(left.MARK.read_text())
    left.MARK.write_text(json.dumps({**mark, "identity": "0" * 32}))
    with pytest.raises(AssertionError):     # of the fixture: the run goes on
        PynqDevice(CONFIG, bitfile=path)
    assert "CONTROL" not in fake.pipeline.log


def test_close_ends_a_run(use, tmp_path):
    fake = use(CONFIG)
    device = PynqDevice(CONFIG, bitfile=write_bitstream(tmp_path, CONFIG))
    fake.pipeline.set("STATUS", Status.BUSY)
    assert left.MARK.exists()
    device.close()
    assert not fake.pipeline.get("STATUS") & Status.BUSY
    assert not left.MARK.exists()


def test_close_ends_a_run_whose_mark_could_not_be_left(use, tmp_path, monkeypatch):
    """A part of one, as a full disk leaves it, is nobody's."""
    def fail(path, *_, **__):
        path.write_bytes(b"{")
        raise OSError("No space left on device")

    fake = use(CONFIG)
    bitfile = write_bitstream(tmp_path, CONFIG)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_text", fail)
        device = PynqDevice(CONFIG, bitfile=bitfile)
    fake.pipeline.set("STATUS", Status.BUSY)
    device.close()
    assert not fake.pipeline.get("STATUS") & Status.BUSY


def test_opening_that_ctrl_c_ends_leaves_nothing_open(use, tmp_path, monkeypatch):
    fake = use(CONFIG)

    def leave(*arguments):
        left.leave_mark(*arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(device_module, "leave_mark", leave)
    with pytest.raises(KeyboardInterrupt) as caught:
        PynqDevice(CONFIG, bitfile=write_bitstream(tmp_path, CONFIG))
    assert not list(device_module._OPEN)
    assert not left.MARK.exists()
    assert len(fake.loaded) == 1
    del caught


def test_close_of_a_run_that_does_not_end(use, tmp_path, monkeypatch):
    """The memory stays for as long as this program."""
    fake = use(CONFIG)
    device = PynqDevice(CONFIG, bitfile=write_bitstream(tmp_path, CONFIG))
    buffer = device.allocate(64)
    fake.pipeline.set("STATUS", Status.BUSY)
    fake.pipeline.deaf = True
    monkeypatch.setattr(left, "ABORT_TIMEOUT_S", 0.05)
    device.close()
    assert buffer.array.size
    assert device_module._WRITTEN[-1] is buffer
    assert left.MARK.exists()
    device_module._WRITTEN.clear()


def test_close_again_after_it_was_interrupted(use, tmp_path, monkeypatch):
    """The memory must not be given back while a run writes to it."""
    fake = use(CONFIG)
    device = PynqDevice(CONFIG, bitfile=write_bitstream(tmp_path, CONFIG))
    buffer = device.allocate(64)
    fake.pipeline.set("STATUS", Status.BUSY)

    def stop(device):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(device_module, "ended", stop)
        with pytest.raises(KeyboardInterrupt):
            device.close()
    assert buffer.array.size
    device.close()
    assert not fake.pipeline.get("STATUS") & Status.BUSY
    assert not buffer.array.size
    assert not left.MARK.exists()


@pytest.mark.parametrize("by", ["this program", "another one"])
def test_close_leaves_the_run_of_another_alone(use, tmp_path, by):
    """Who loads a bitstream after this one has the board."""
    fake = use(CONFIG)
    path = write_bitstream(tmp_path, CONFIG)
    first = PynqDevice(CONFIG, bitfile=path)
    second = PynqDevice(CONFIG, bitfile=path)
    if by == "another one":
        device_module._OPEN.discard(second)
    fake.pipeline.set("STATUS", Status.BUSY)
    first.close()
    assert fake.pipeline.get("STATUS") & Status.BUSY
    assert left.MARK.exists()
    second.close()
    assert not fake.pipeline.get("STATUS") & Status.BUSY
    assert not left.MARK.exists()


def test_run_after_another_device_was_closed(use, tmp_path):
    """It leaves a mark again: the other one's is gone."""
    use(CONFIG)
    path = write_bitstream(tmp_path, CONFIG)
    with PynqDevice(CONFIG, bitfile=path) as first:
        PynqDevice(CONFIG, bitfile=path).close()
        assert not left.MARK.exists()
        marked = []
        first.train(job(), on_epoch=lambda done: marked.append(left.MARK.exists()))
        assert marked == [True] * 3
    assert not left.MARK.exists()


def test_second_one_while_a_run_is_open(use, tmp_path):
    """Loading the bitstream would end that run."""
    fake = use(CONFIG)
    path = write_bitstream(tmp_path, CONFIG)
    refused = []

    def again(done):
        with pytest.raises(DeviceError, match="has one run at a time, and another one is open"):
            PynqDevice(CONFIG, bitfile=path)
        refused.append(done)

    with PynqDevice(CONFIG, bitfile=path) as device:
        assert device.train(job(), on_epoch=again).epochs_done == 3
    assert refused
    assert len(fake.loaded) == 1
    PynqDevice(CONFIG, bitfile=path).close()


def test_two_take_turns(use, tmp_path):
    """pynq gives up the interrupt of a bitstream when another is loaded, be it the same one."""
    use(CONFIG, interrupt=FakeInterrupt(0.01))
    path = write_bitstream(tmp_path, CONFIG)
    with PynqDevice(CONFIG, bitfile=path) as first, PynqDevice(CONFIG, bitfile=path) as second:
        assert (first.uses_interrupt, second.uses_interrupt) == (False, True)
        for device in (first, second, first):
            assert device.train(job()).epochs_done == 3


def test_second_one_that_cannot_be_opened(use, tmp_path):
    """What it loaded may have ended the first one's interrupt, so that one looks from now on."""
    fake = use(CONFIG, interrupt=FakeInterrupt(0.01))
    path = write_bitstream(tmp_path, CONFIG)
    with PynqDevice(CONFIG, bitfile=path) as first:
        fake.broken = RuntimeError("out of order")
        with pytest.raises(DeviceError, match="out of order"):
            PynqDevice(CONFIG, bitfile=path)
        assert not first.uses_interrupt
        assert first.train(job()).epochs_done == 3


def test_one_that_nobody_has_any_more(use, tmp_path):
    """It is closed, and so is its run, whose memory is given back."""
    fake = use(CONFIG)
    device = PynqDevice(CONFIG, bitfile=write_bitstream(tmp_path, CONFIG))
    run = device.begin([job()])
    next(run.epochs())
    assert fake.pipeline.get("STATUS") & Status.BUSY
    del device, run
    gc.collect()
    assert not fake.pipeline.get("STATUS") & Status.BUSY
    assert fake.pipeline.buffers == []
    assert not left.MARK.exists()


def script_of(tmp_path, ending):
    """What a script on a stand-in ends with, and what it prints: it opens a device that it does not
    close, and starts a run.
    """
    path = write_bitstream(tmp_path, CONFIG)
    script = f"""
import os, pathlib, sys
sys.path.insert(0, {str(Path(__file__).parents[1])!r})
import fake_pynq
from bitstep.pipeline.config import PipelineConfig
from bitstep.devices.pynq import left
from bitstep.devices.pynq import PynqDevice
left.MARK = pathlib.Path({str(tmp_path / "mark.json")!r})
config = PipelineConfig(bits=3, max_features=64)
fake = sys.modules["pynq"] = fake_pynq.FakePynq(config)
device = PynqDevice(config, bitfile={str(path)!r})
fake.pipeline.set("STATUS", 1)
fake.pipeline.end = lambda error: (print("aborted", int(error), flush=True),
                                   fake.pipeline.set("STATUS", 2))
{ending}
"""
    run = subprocess.run([sys.executable, "-W", "ignore", "-c", script], capture_output=True,
                         text=True, timeout=60)
    return run.returncode, run.stdout, run.stderr


def test_end_of_the_program_ends_a_run(tmp_path):
    """A script that nobody stops, and that closes nothing."""
    assert script_of(tmp_path, "") == (0, "aborted 6\n", "")
    assert not (tmp_path / "mark.json").exists()


def test_end_of_the_program_ends_the_run_of_a_thread(tmp_path):
    """Python ends such a thread where it is, and what it holds is never given up."""
    assert script_of(tmp_path, """
import threading, time
threading.Thread(target=lambda held: time.sleep(600), args=[device], daemon=True).start()
del device
""") == (0, "aborted 6\n", "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="a system without fork")
def test_end_of_a_child_ends_no_run_of_its_parent(tmp_path):
    assert script_of(tmp_path, """
if os.fork() == 0:
    sys.exit()
os.wait()
print("child is over", fake.pipeline.get("STATUS"), left.MARK.exists(), flush=True)
""") == (0, "child is over 1 True\naborted 6\n", "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="a system without fork")
def test_child_opens_one_for_itself(tmp_path):
    """It has no thread of its parent, on which interrupts are waited for."""
    assert script_of(tmp_path, f"""
device.close()
if os.fork() == 0:
    with PynqDevice(config, bitfile={str(tmp_path / "pynq-z2-test.bit")!r}):
        print("opened", flush=True)
    sys.exit()
os.wait()
""") == (0, "aborted 6\nopened\n", "")


class Notes:
    """Stand-in for pynq's module of what it loaded last."""

    def __init__(self, monkeypatch):
        self.cleared = 0
        monkeypatch.setitem(sys.modules, "pynq.pl_server", types.SimpleNamespace(global_state=self))

    def clear_global_state(self):
        self.cleared += 1


def test_notes_of_a_file_that_is_gone(use, tmp_path, monkeypatch):
    """pynq takes the checksum of the last .bit before it loads another."""
    class Lost:
        @property
        def bitfile_name(self):
            if not notes.cleared:
                raise FileNotFoundError("old.bit")

        @bitfile_name.setter
        def bitfile_name(self, path):
            pass

    fake, notes = use(CONFIG), Notes(monkeypatch)
    fake.PL = Lost()
    PynqDevice(CONFIG, bitfile=write_bitstream(tmp_path, CONFIG)).close()
    assert notes.cleared == 1


def test_loading_that_hangs(use, tmp_path, monkeypatch):
    fake = use(CONFIG)
    monkeypatch.setattr(device_module, "OPEN_TIMEOUT_S", 0.05)
    released = threading.Event()
    fake.Overlay = lambda path: released.wait()
    with pytest.raises(DeviceError, match=r"did not load the bitstream within 0\.05 s: reboot"):
        PynqDevice(CONFIG, bitfile=write_bitstream(tmp_path, CONFIG))
    released.set()


def test_too_little_memory(use, tmp_path):
    fake = use(CONFIG, limit=1000)
    device = PynqDevice(CONFIG, bitfile=write_bitstream(tmp_path, CONFIG))
    with pytest.raises(MemoryError, match=r"no 1,001 contiguous bytes \(BO allocation failed: -12\)"
                                          r"\. .*fewer rows, .*cma="):
        device.allocate(1001)
    with pytest.raises(ValueError, match="at least 1 byte, not 0"):
        device.allocate(0)
    held = device.allocate(1000)
    assert held.array.shape == (1000,)
    device.close()
    device.close()
    assert fake.pipeline.buffers == []
    with pytest.raises(DeviceError, match="is closed"):
        device.read(0)
    with pytest.raises(DeviceError, match="was freed"):
        held.to_device()


def test_finds_its_bitstream(tmp_path, monkeypatch):
    folder = tmp_path / "bitstreams"
    folder.mkdir()
    built = {"short": dataclasses.replace(CONFIG, lookahead=0, max_features=32),
             "long": dataclasses.replace(CONFIG, update_interval=4, max_features=128),
             "wide": dataclasses.replace(CONFIG, bus_width=128),
             "logistic": dataclasses.replace(CONFIG, loss_family="logistic", update_interval=6),
             "proximal": dataclasses.replace(CONFIG, bits=2, proximal=True)}
    for name, config in built.items():
        write_bitstream(folder, config, name=name)
    (folder / "ecp5.json").write_text("{}")             # of a board without .bit files
    monkeypatch.setenv("BITSTEP_BITSTREAMS", str(folder))
    for wanted, name in ((CONFIG, "long"), (built["wide"], "wide"),
                         (built["logistic"], "logistic"), (built["proximal"], "proximal"),
                         (dataclasses.replace(CONFIG, bits=2), "proximal")):
        assert find_bitstream(wanted) == folder / f"{name}.bit"
    exact = PipelineConfig(bits=32, row_format="float32", lookahead=2, max_features=64)
    write_bitstream(folder, dataclasses.replace(exact, lookahead=1), name="nearer")
    with pytest.raises(DeviceError, match="for 32 bits"):
        find_bitstream(exact)
    write_bitstream(folder, dataclasses.replace(exact, lookahead=5), name="further")
    assert find_bitstream(exact) == folder / "further.bit"
    with pytest.raises(DeviceError,
                       match=r"for 3 bits, a 64-bit bus, row format 'one_level' and loss family "
                                          r"'linear', refetch; there are: w64-b3.*bus_width"):
        find_bitstream(dataclasses.replace(CONFIG, refetch=True, lookahead=0))
    # What is missing is said, whatever it is: the names of those that there are may look the same.
    for asked, said in (({"codebooks": True}, "codebooks"), ({"row_weights": True}, "row_weights"),
                        ({"model_bits": 8, "rounded_updates": True},
                         "model_bits=8, rounded_updates"),
                        ({"packed": True, "lookahead": 0, "max_features": 8}, "packed")):
        with pytest.raises(DeviceError, match=f"loss family 'linear', {said}; there are: "):
            find_bitstream(dataclasses.replace(CONFIG, **asked))
    with pytest.raises(DeviceError, match="loss family 'linear', lookahead=9; there are: "):
        find_bitstream(dataclasses.replace(exact, lookahead=9))
    with pytest.raises(DeviceError, match="there are: none"):
        find_bitstream(CONFIG, tmp_path)


def test_folder_of_bitstreams(use, tmp_path, monkeypatch):
    use(CONFIG)
    write_bitstream(tmp_path, CONFIG)
    monkeypatch.setenv("BITSTEP_BITSTREAMS", str(tmp_path))
    device = PynqDevice(CONFIG)
    assert device.bitstream.manifest.board == "pynq-z2"
    device.close()


def test_command_line(tmp_path):
    """In a process of its own: the device, its options and its help, as a user has them."""
    env = {**os.environ, "BITSTEP_BITSTREAMS": str(tmp_path)}
    data = tmp_path / "data.csv"
    np.savetxt(data, np.random.default_rng(0).normal(size=(30, 4)), delimiter=",")
    run = subprocess.run([sys.executable, "-m", "bitstep", "train", str(data), "--device", "pynq",
                          "--bits", "3"], env=env, capture_output=True, text=True)
    assert run.returncode == 1
    assert "Device 'pynq' needs pynq" in run.stderr
    run = subprocess.run([sys.executable, "-m", "bitstep", "devices"], capture_output=True,
                         text=True)
    line = next(line for line in run.stdout.splitlines() if line.startswith("pynq"))
    assert "no" in line.split()[1]


@pytest.mark.parametrize("epoch", [0, 1, 4])
def test_resumed_run_is_that_of_one_piece(use, tmp_path, epoch):
    """Ctrl-C in an epoch on the board; the same command goes on from the checkpoint."""
    data, path = tmp_path / "data.csv", write_bitstream(tmp_path, CONFIG)
    np.savetxt(data, np.random.default_rng(0).normal(size=(30, 4)), delimiter=",")
    kept, whole, parts = (tmp_path / name for name in ("run.ckpt", "whole.npz", "parts.npz"))

    def train_on_board(*options, interrupted=None):
        use(CONFIG).pipeline.interrupt = interrupted
        return main(["train", str(data), "--device", "pynq", "--bitfile", str(path), "--bits", "3",
                     "--epochs", "5", *map(str, options)])

    assert train_on_board("--out", whole) == 0
    assert train_on_board("--out", parts, "--checkpoint", kept, interrupted=epoch) == 130
    assert load_checkpoint(kept).epochs_done == epoch
    assert train_on_board("--out", parts, "--resume", kept) == 0
    assert parts.read_bytes() == whole.read_bytes()


def test_manifest_of_the_flow_is_readable(tmp_path):
    """The manifest that the hardware's side writes is the one that this side reads."""
    flow = pytest.importorskip("bitstep_hw.boards.vivado.flow")
    from bitstep_hw.boards.zynq import BOARDS
    config = PipelineConfig(bits=8, max_features=8, lookahead=0, minibatch=False, corrections=False)
    path = tmp_path / "x.bit"
    path.write_bytes(b"bits")
    path.with_suffix(".hwh").write_text("<x/>")
    made = flow.manifest(BOARDS["kv260"], config, path, path.with_suffix(".hwh"),
                         tools={"vivado": "2022.1"}, slack_ns={"setup": 0.5})
    made.write(path.with_suffix(".json"))
    found = read_bitstream(path)
    assert found.manifest == made
    assert (made.board, made.config, made.clock_hz) == ("kv260", config, 125e6)
    assert made.clock_mhz == {"constraint": 125, "achieved": pytest.approx(133.33)}


def test_sizes_of_the_documentation():
    """Bytes of rows beside the contiguous memory of PYNQ's image."""
    text = (Path(__file__).parents[3] / "docs" / "boards-pynq.md").read_text("utf-8")
    rows = re.findall(r"^\| \S+ \| ([\d,]+) x (\d+) \|(.* MB.*) \|$", text, re.MULTILINE)
    assert len(rows) == 4
    for n_rows, n_features, cells in rows:
        for bits, cell in zip((32, 8, 4, 2, 1), cells.split("|"), strict=True):
            config = PipelineConfig(bits=bits, row_format="float32" if bits == 32 else "one_level")
            size = (int(n_rows.replace(",", "")) * config.rows.beats(int(n_features))
                    * config.rows.beat_bytes)
            assert cell.strip(" *") == f"{size / 1e6:.1f} MB"
            assert ("**" in cell) == (size > 128 << 20)
