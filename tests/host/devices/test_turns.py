"""One run at a time on a device behind registers: second runs, threads, runs that are left, and
those that a reset or another program ends.
"""

import dataclasses
import gc
import threading
import time
from typing import Any

import numpy as np
import pytest
from fakes import FakeDevice, make_job

from bitstep.devices.register_device import ForwardingDevice
from bitstep.golden.sgd import train
from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.registers import Error, Status
from bitstep.pipeline.results import DeviceError, RunTimeoutError, TrainingInterrupted

CONFIG = PipelineConfig(bits=3, max_features=64)
REFUSED = "one run at a time, and another one is open on it, begun in this thread: finish and close"
NO_LONGER = "no longer those of this run: it was closed, or another one was begun"
GONE = "is gone .*the board was reset, or another program uses it. See that this program alone"


def job_of(seed, epochs=3, n_features=25):
    rng = np.random.default_rng(seed)
    return make_job(rng.integers(-3, 4, (10, n_features)), rng.integers(-100, 100, 10),
                    config=CONFIG, mantissa=3, epochs=epochs, label_shift=8, intercept_level=3)


ONE, TWO = job_of(1), job_of(2, epochs=2, n_features=20)


def is_right(result, job):
    """Golden's models."""
    expected = list(train(job))
    np.testing.assert_array_equal(result.models, [epoch.model for epoch in expected])
    assert result.intercepts.tolist() == [epoch.intercept for epoch in expected]


def check(device, job=TWO):
    """The device trains as if nothing had been, and holds nothing afterwards."""
    is_right(device.train(job), job)
    assert not device.buffers


def test_second_run_is_refused_and_the_first_goes_on():
    device = FakeDevice(CONFIG)
    with device.begin([ONE]) as run:
        written = len(device.log)
        for device_or_wrapper in (device, ForwardingDevice(device)):
            with pytest.raises(DeviceError, match=REFUSED):
                device_or_wrapper.begin([TWO])
        assert len(device.log) == written
        (result,) = run.finish()
    is_right(result, ONE)
    assert device.log.count("CONTROL") == 1     # nothing is aborted that is over
    check(device)


@pytest.mark.parametrize("job", [TWO, job_of(3, epochs=5), ONE])
def test_callback_that_trains_on_the_same_device(job):
    device, seen = FakeDevice(CONFIG), []

    def nested(done):
        with pytest.raises(DeviceError, match=REFUSED):
            device.train(job)
        seen.append(done)

    def failing(done):
        device.train(job)

    is_right(device.train(ONE, on_epoch=nested), ONE)
    assert seen == [1, 2, 3]
    with pytest.raises(DeviceError, match=REFUSED):
        device.train(ONE, on_epoch=failing)
    assert not device.get("STATUS") & Status.BUSY
    check(device)


def test_run_that_is_over_gives_way_and_tells_no_more():
    """Also if nobody closes it, as long as there is one thread."""
    device = FakeDevice(CONFIG)
    first = device.begin([ONE])
    is_right(first.finish()[0], ONE)
    is_right(first.outcomes()[0], ONE)
    second = device.begin([TWO])
    for late in (first.outcomes, first.finish, first.abort, lambda: next(first.epochs()),
                 lambda: list(first.words())):
        with pytest.raises(DeviceError, match=NO_LONGER):
            late()
    first.close()
    is_right(second.finish()[0], TWO)
    second.close()
    with pytest.raises(DeviceError, match=NO_LONGER):
        second.outcomes()
    check(device)


@pytest.mark.parametrize("error", [KeyboardInterrupt, ZeroDivisionError])
def test_run_that_a_callback_ends_gives_way(error):
    device = FakeDevice(CONFIG)

    def fail(done):
        raise error

    run = device.begin([ONE])
    with pytest.raises((TrainingInterrupted, ZeroDivisionError)):
        run.finish(fail)
    is_right(device.train(TWO), TWO)
    run.close()
    check(device)


def test_run_that_is_left_early_is_stopped_before_its_memory_is_freed():
    device, busy = FakeDevice(CONFIG), []

    def look(done):
        busy.append(device.get("STATUS") & Status.BUSY)
        device.buffers.remove(done)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fakes.FakeBuffer.free", look)
        with device.begin([ONE]) as run:
            assert next(run.epochs()) == 1
            assert device.get("STATUS") & Status.BUSY
    assert busy
    assert not any(busy)
    check(device)


def test_run_that_nobody_refers_to_is_stopped_and_freed_by_the_next():
    device = FakeDevice(CONFIG)
    epochs = device.begin([ONE]).epochs()
    assert next(epochs) == 1
    with pytest.raises(DeviceError, match=REFUSED):
        device.begin([TWO])
    del epochs
    gc.collect()
    assert device.get("STATUS") & Status.BUSY
    check(device)


class Threaded:
    """A run that waits in another thread after its first epoch."""

    def __init__(self, device, job=ONE):
        self.device, self.job = device, job
        self.reached, self.go_on = threading.Event(), threading.Event()
        self.result: Any = None
        self.thread = threading.Thread(target=self.work, name="other")
        self.thread.start()
        assert self.reached.wait(10)

    def work(self):
        self.result = self.device.train(self.job, on_epoch=self.pause)

    def pause(self, done):
        self.reached.set()
        assert self.go_on.wait(10)

    def end(self):
        self.go_on.set()
        self.thread.join(10)
        is_right(self.result, self.job)


def test_threads_are_refused_while_a_run_is_open():
    device = FakeDevice(CONFIG)
    other = Threaded(device)
    with pytest.raises(DeviceError, match="begun in other: finish and close that one first"):
        device.train(TWO)
    other.end()
    check(device)


def test_run_of_another_thread_must_be_closed():
    """Until then it may read registers and free memory at any time."""
    device, runs = FakeDevice(CONFIG), []

    def work():
        runs.append(device.begin([ONE]))
        runs[0].finish()

    thread = threading.Thread(target=work, name="other")
    thread.start()
    thread.join()
    with pytest.raises(DeviceError, match="begun in other: finish and close"):
        device.begin([TWO])
    is_right(runs[0].outcomes()[0], ONE)
    runs[0].close()
    check(device)


def test_kept_rows_stay_while_a_run_of_another_thread_reads_them():
    device = FakeDevice(CONFIG)
    with device.keep_rows():
        other = Threaded(device, job_of(4, epochs=1))
        held = len(device.buffers)
    assert len(device.buffers) == held
    other.end()
    assert not device.buffers
    check(device)


def test_kept_rows_are_given_back_beside_a_run_that_is_over():
    """Nothing reads them any more, though nobody has closed it."""
    device = FakeDevice(CONFIG)
    with device.keep_rows():
        run = device.begin([ONE])
        run.finish()
        held = len(device.buffers)
    assert len(device.buffers) == held - 1
    is_right(run.outcomes()[0], ONE)
    run.close()
    check(device)


def test_kept_rows_stay_while_a_run_that_does_not_stop_may_use_them(monkeypatch):
    monkeypatch.setattr("bitstep.devices.driver.ABORT_TIMEOUT_S", 0.05)
    device = FakeDevice(CONFIG, hang=0, deaf=True)
    with device.keep_rows():
        with pytest.raises(RunTimeoutError):
            device.train(ONE, timeout_s=0.05)
        held = len(device.buffers)
    assert len(device.buffers) == held
    with pytest.raises(DeviceError, match="busy with another run"):
        device.train(TWO)
    assert len(device.buffers) == held
    device.deaf, device.hang = False, None
    with device.begin([TWO]):           # which needs the memory
        assert len(device.buffers) == 4
    check(device)


def test_many_threads_lose_no_device():
    device, found, refused = FakeDevice(CONFIG), [], []

    def work(job):
        for _ in range(20):
            try:
                found.append((device.train(job), job))
            except DeviceError as error:
                refused.append(str(error))

    threads = [threading.Thread(target=work, args=[job]) for job in (ONE, TWO, ONE)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) + len(refused) == 60
    assert found
    assert all("one run at a time" in text for text in refused)
    for result, job in found:
        is_right(result, job)
    check(device)


class Reset(FakeDevice):
    """A board that is reset at an epoch, and ``after()`` happens to it then."""

    def __init__(self, *, at=1, after=lambda device: None, **options):
        super().__init__(CONFIG, **options)
        self.at, self.after = at, after

    def step(self):
        if self.run is not None and self.get("EPOCHS_DONE") == self.at:
            self.at = None
            self.reset()
            self.log.clear()
            self.after(self)
        super().step()

    def reset(self):
        self.run = None
        for register in self.access.values():
            if not register.name.startswith(("IDENTITY", "VERSION")):
                self.registers[register.offset] = 0


@pytest.mark.parametrize("at", [0, 1])
def test_reset_under_a_run_is_noticed_soon(at):
    texts = "STATUS 0x00000000 says neither busy nor done", "EPOCHS_DONE says 0 after it said 1"
    device, started = Reset(at=at), time.monotonic()
    with pytest.raises(DeviceError, match=GONE) as caught:
        device.train(ONE, timeout_s=60)
    assert texts[at] in str(caught.value)
    assert time.monotonic() - started < 10
    assert device.log == []         # nothing is aborted
    check(device)


def of_another_program(epochs, *, address=0x8_0000, done=False, error=Error.NONE):
    """Registers of a run that another program has begun after the reset."""
    def begin(device):
        device.set("STATUS", (Status.DONE if done else Status.BUSY)
                   | (Status.FAILED if error else 0))
        device.set("ERROR", error)
        device.set("MODEL_OUT_ADDRESS_LO", address)
        device.set("EPOCHS_DONE", epochs)
    return begin


@pytest.mark.parametrize(("after", "text"), [
    (of_another_program(0), "EPOCHS_DONE says 0 after it said 1"),
    (of_another_program(3, done=True), "the registers are not those that it was started with"),
    (of_another_program(3, done=True, error=Error.ROW_READ),
     "the registers are not those that it was started with"),
    (of_another_program(0, done=True), "EPOCHS_DONE says 0 after it said 1"),
])
def test_run_of_another_program_gives_no_models(after, text):
    device = Reset(after=after)
    with pytest.raises(DeviceError, match=GONE) as caught:
        device.train(ONE)
    assert text in str(caught.value)
    assert device.log == []
    device.set("STATUS", 0)
    check(device)


def test_run_of_another_program_is_not_aborted_after_a_timeout():
    device = Reset(after=of_another_program(1))
    with pytest.raises(DeviceError, match=GONE):
        device.train(ONE, timeout_s=0.1)
    assert device.log == []


@pytest.mark.parametrize("epochs", [2, 9])
def test_models_of_another_program_go_into_no_checkpoint(epochs):
    """Nor does a run of more epochs than this one has end in another error."""
    device, kept = Reset(after=of_another_program(epochs)), []

    def keep(done):
        if done == epochs:
            kept.append(run.outcomes())

    with device.begin([ONE], timeout_s=0.1) as run, pytest.raises(DeviceError, match=GONE):
        run.finish(keep)
    assert kept == []


class Slow(FakeDevice):
    """A board whose STATUS says nothing at the first looks after a start."""

    def __init__(self, looks, seconds=0.0):
        super().__init__(CONFIG)
        self.looks, self.seconds, self.left = looks, seconds, 0

    def write(self, offset, value):
        super().write(offset, value)
        if self.access[offset].name == "CONTROL":
            self.left = self.looks

    def read(self, offset):
        if self.access[offset].name == "STATUS" and self.left:
            self.left -= 1
            time.sleep(self.seconds)
            return 0
        return super().read(offset)

    def step(self):
        if not self.left:
            super().step()


@pytest.mark.parametrize(("looks", "seconds"), [(2, 0.6), (100, 0.002)])
def test_slow_start_is_no_reset(looks, seconds):
    """Neither a line that takes long for few looks, nor many looks within a moment."""
    is_right(Slow(looks, seconds).train(ONE), ONE)


def test_no_run_at_all_is_noticed_before_a_timeout_that_is_long(monkeypatch):
    device = Slow(10 ** 9)
    with pytest.raises(RunTimeoutError, match="STATUS 0x00000000"):
        device.train(ONE, timeout_s=0.1)
    monkeypatch.setattr("bitstep.devices.progress.LOST_S", 0.05)
    device = Slow(10 ** 9)
    with pytest.raises(DeviceError, match=GONE):
        device.train(dataclasses.replace(ONE))
