"""The least label shift of each loss and mode: host and hardware take it, and refuse one less."""

from dataclasses import replace

import numpy as np
import pytest
from centred_runs import gradient_job
from drawn_jobs import LOGISTIC
from run_modes import BIT_PLANE_FAST, BIT_PLANE_LOGISTIC, MODELS, values_of
from simulated import TestedDevice, open_board

from bitstep.devices.cpu.device import CpuDevice
from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.job import TrainingJob
from bitstep.pipeline.registers import OFFSETS, Control, LabelFormat, Loss
from bitstep.pipeline.results import BadConfigurationError, DeviceError
from bitstep_sim.board.compiled import BASE
from bitstep_sim.testing.bit_plane_jobs import random_bit_plane_job
from bitstep_sim.testing.random_jobs import random_job, random_jobs

FLOAT = PipelineConfig(bits=32, row_format="float32", max_features=6, lookahead=3,
                       loss_family="logistic", update_interval=6)
SIZES = {"n_features": 5, "n_rows": 30}
DERIVATIVES = {"label_format": LabelFormat.INT32, "planes": (6, 9)}


def plain(config, **options):
    """A job on rows of fixed bits, or of numbers."""
    return random_job(config, loss=Loss.LOGISTIC, **SIZES, **options)


def bit_planes(config, **options):
    """A job on bit-plane rows, with few planes in its first epoch."""
    return random_bit_plane_job(config, speed=0.01, **SIZES, **options)


def whole(config, **options):
    """A job of a full pass."""
    return gradient_job(config, scale=1e-6, **SIZES, **options)


def trained(device, job):
    """A run of one job."""
    return device.train_models([job])


def summed(device, job):
    """The gradient of a job."""
    return device.gradient(job)


def written(device, job):
    """The gradient, then the derivatives at 6 planes."""
    return device.gradient(job, derivative_planes=6)


CASES = {       # configuration, job, run, least label shift
    "logistic": (LOGISTIC, plain(LOGISTIC), trained, 13),
    "logistic, float32": (FLOAT, plain(FLOAT, warm=True), trained, 13),
    "least squares, bit_planes": (BIT_PLANE_FAST, bit_planes(BIT_PLANE_FAST, planes=(6, 9)),
                                  trained, 10),
    "hinge, bit_planes": (BIT_PLANE_FAST,
                          bit_planes(BIT_PLANE_FAST, planes=(6, 9), loss=Loss.HINGE), trained, 10),
    "logistic, bit_planes": (
        BIT_PLANE_LOGISTIC, bit_planes(BIT_PLANE_LOGISTIC, planes=(6, 9), loss=Loss.LOGISTIC),
        trained, 23),
    "squared hinge, derivatives as labels": (
        BIT_PLANE_FAST, bit_planes(BIT_PLANE_FAST, loss=Loss.SQUARED_HINGE, **DERIVATIVES), trained,
        26),
    "logistic, derivatives as labels": (
        BIT_PLANE_LOGISTIC, bit_planes(BIT_PLANE_LOGISTIC, loss=Loss.LOGISTIC, **DERIVATIVES),
        trained, 26),
    "logistic, gradient": (
        BIT_PLANE_LOGISTIC, whole(BIT_PLANE_LOGISTIC, loss=Loss.LOGISTIC), summed, 17),
    "logistic, derivatives": (
        BIT_PLANE_LOGISTIC, whole(BIT_PLANE_LOGISTIC, loss=Loss.LOGISTIC), written, 26),
    "squared hinge, derivatives": (
        BIT_PLANE_FAST, whole(BIT_PLANE_FAST, loss=Loss.SQUARED_HINGE), written, 26),
}


@pytest.mark.parametrize("case", [
    pytest.param(case, marks=pytest.mark.slow if CASES[case][0] is FLOAT else ())
    for case in CASES])
def test_least_label_shift(case):
    config, drawn, run, least = CASES[case]
    job = replace(drawn, label_shift=least)
    expected = values_of(run(CpuDevice(config), job))

    def check_is_golden(board):
        for mine, golden in zip(values_of(run(board, job)), expected, strict=True):
            np.testing.assert_array_equal(mine, golden)

    with open_board(config) as board:
        check_is_golden(board)
        with pytest.raises(BadConfigurationError):
            run(TestedDevice(board, registers={"LABEL_SHIFT": least - 1}), job)
        check_is_golden(board)
        for device in (board, CpuDevice(config)):
            with pytest.raises((ValueError, DeviceError), match=f"label_shift .* least {least}"):
                run(device, replace(drawn, label_shift=least - 1))


class OtherShift(TestedDevice):
    """A board whose epoch table has another label shift in one of its entries."""

    def __init__(self, device, number, shift):
        super().__init__(device)
        self.number, self.shift = number, shift

    def write(self, offset, value):
        """Change the table before the start."""
        if offset == OFFSETS["CONTROL"] and value == Control.START:
            at = self.get("EPOCH_TABLE_ADDRESS") - BASE + 16 * self.number
            word = self.device.board.memory[at:at + 8].view("<u8")
            assert int(word[0]) >> 53 & 63 == 13
            word[0] = int(word[0]) & ~(63 << 53) | self.shift << 53
        super().write(offset, value)


@pytest.mark.parametrize("count", [1, 2])
def test_label_shifts_of_several_models(count):
    jobs: list[TrainingJob] = [replace(job, label_shift=13) for job in random_jobs(
        MODELS, count, loss=Loss.LOGISTIC, n_features=5, n_rows=30)]
    expected = values_of(CpuDevice(MODELS).train_models(jobs))
    with open_board(MODELS) as board:
        for number in range(count):
            for shift in (0, 12, 41, 63):
                with pytest.raises(BadConfigurationError):
                    OtherShift(board, number, shift).train_models(jobs)
            found = values_of(OtherShift(board, number, 13).train_models(jobs))
            for mine, golden in zip(found, expected, strict=True):
                np.testing.assert_array_equal(mine, golden)
