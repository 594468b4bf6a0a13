"""Nothing that another program left in a register matters to the driver's run."""

import random

import numpy as np
import pytest
from replays import Recorder
from run_modes import MODES, QUICK, values_of
from simulated import open_board

from bitstep.devices.cpu.device import CpuDevice
from bitstep.pipeline.registers import OFFSETS, REGISTERS

WRITABLE = {register.offset for register in REGISTERS if register.access == "rw"}


@pytest.mark.by_day(4)
@pytest.mark.parametrize("mode", [
    mode if mode in QUICK else pytest.param(mode, marks=pytest.mark.slow) for mode in MODES])
def test_registers_that_were_left(mode):
    config, kind = MODES[mode]
    call, rng = kind(config), random.Random(mode)
    expected = values_of(call(CpuDevice(config)))
    with open_board(config) as device:
        recorder = Recorder(device)
        call(recorder)
        assert recorder.writes.keys() == WRITABLE | {OFFSETS["CONTROL"]}
        for value in (lambda: 0xFFFF_FFFF, *[lambda: rng.getrandbits(32)] * 3):
            device.board.write_all([(offset, value()) for offset in sorted(WRITABLE)])
            for mine, golden in zip(values_of(call(device)), expected, strict=True):
                np.testing.assert_array_equal(mine, golden)
