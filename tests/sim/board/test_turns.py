"""One run at a time on the simulated board, and a reset under a run."""

import threading
import time

import numpy as np
import pytest
from bit_plane_runs import FAST
from centred_runs import gradient_job
from drawn_jobs import CONFIGS
from simulated import check_models, open_board

from bitstep.devices.register_device import ForwardingDevice
from bitstep.golden.sgd import train
from bitstep.pipeline.results import DeviceError
from bitstep_sim.testing.random_jobs import random_job

CONFIG = CONFIGS[5]
REFUSED = "one run at a time, and another one is open on it"


def job_of(seed, **options):
    return random_job(CONFIG, **{"n_features": 20, "n_rows": 60, "epochs": 3} | options,
                      seed=seed)


LONG, SHORT = job_of(1, n_rows=3000), job_of(2)
FEW_ROWS, GRADIENT = job_of(2, n_rows=9), gradient_job(FAST, n_features=5, n_rows=9)


@pytest.fixture(scope="module")
def board():
    with open_board(CONFIG) as device:
        yield device


def is_right(result, job):
    np.testing.assert_array_equal(result.models, [epoch.model for epoch in train(job)])


def test_callback_that_trains_on_the_same_device(board):
    def nested(done):
        with pytest.raises(DeviceError, match=REFUSED):
            board.train(SHORT)

    is_right(board.train(LONG, on_epoch=nested), LONG)
    check_models(board, [SHORT])


def test_two_runs(board):
    with board.begin([LONG]) as run:
        with pytest.raises(DeviceError, match=REFUSED):
            board.begin([SHORT])
        is_right(run.finish()[0], LONG)
    check_models(board, [SHORT])


def test_threads(board):
    found, refused = [], []

    def work(job):
        for _ in range(8):
            try:
                found.append((board.train(job), job))
            except DeviceError as error:
                refused.append(str(error))

    threads = [threading.Thread(target=work, args=[job_of(seed, n_rows=400)]) for seed in (3, 4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found
    assert all(REFUSED in text for text in refused)
    for result, job in found:
        is_right(result, job)
    check_models(board, [SHORT])


def test_left_run_is_stopped(board):
    with board.begin([LONG]) as run:
        next(run.epochs())
    assert not board._buffers
    check_models(board, [SHORT])


@pytest.mark.parametrize("length", [1, pytest.param(100, marks=pytest.mark.slow)])
def test_reset_under_a_run_is_noticed_soon(board, length):
    """Before its first epoch is done, too."""
    started = time.monotonic()
    with pytest.raises(DeviceError, match=r"is gone .*the board was reset"):
        board.train(LONG, on_epoch=lambda _: board.board.reset(length))
    with board.begin([LONG]) as run:
        epochs, plain = run.epochs(), board.wait

        def wait(done, timeout_s):
            board.board.run(500)
            board.board.reset(length)
            return plain(done, timeout_s)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(board, "wait", wait)
            with pytest.raises(DeviceError, match="STATUS 0x00000000 says neither busy nor done"):
                next(epochs)
    assert time.monotonic() - started < 20
    assert not board._buffers
    check_models(board, [SHORT])


class ResetAfterwards(ForwardingDevice):
    """A board that is reset before one of the reads that follow the end of a run."""

    reads, chosen = 0, 0

    def read(self, offset):
        if self.device.board.interrupt:
            self.reads += 1
            if self.reads == self.chosen:
                self.device.board.reset(1)
        return self.device.read(offset)


@pytest.mark.parametrize("step", [3, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("config", "action"), [
    (CONFIG, lambda device: device.train(FEW_ROWS)),
    (FAST, lambda device: device.gradient(GRADIENT))])
def test_reset_while_results_are_read(config, action, step):
    """Nothing of it is taken for a result: neither models of no epoch nor counters of 0. By day
    before every third read, the first and the last ones.
    """
    with open_board(config) as board:
        device = ResetAfterwards(board)
        action(device)
        assert device.reads > 40
        for number in sorted({*range(1, device.reads + 1, step), 2, device.reads - 1,
                              device.reads}):
            board.board.reset()
            device.reads, device.chosen = 0, number
            with pytest.raises(DeviceError, match=r"is gone .*the board was reset"):
                action(device)


class ResetBefore(ForwardingDevice):
    """A board that is reset before one of the writes of registers."""

    writes, chosen = 0, 0

    def write(self, offset, value):
        self.writes += 1
        if self.writes == self.chosen:
            self.device.board.reset(1)
        self.device.write(offset, value)


def test_reset_while_registers_are_written():
    """A run of which the board knows a part is no fault of its bitstream."""
    with open_board(CONFIG) as board:
        device = ResetBefore(board)
        device.train(SHORT)
        assert device.writes > 40
        for number in range(2, device.writes + 1):
            device.writes, device.chosen = 0, number
            with pytest.raises(DeviceError, match=r"is gone .*ROWS says 0 .*the board was reset"):
                device.train(SHORT)
        device.writes, device.chosen = 0, 1         # before the first of them
        is_right(device.train(SHORT), SHORT)


def test_slow_memory_is_no_reset():
    with open_board(CONFIG, memory_latency=5000) as device:
        is_right(device.train(SHORT), SHORT)
