"""A board that was reset in a run is as good as a new one, however short the reset was: for the
same run, and for another one.
"""

import random

import numpy as np
import pytest
from drawn_jobs import CONFIGS
from replays import LIMIT, RESULTS, Recorder
from run_modes import MODES, QUICK, values_of
from simulated import open_board

from bitstep.devices.cpu.device import CpuDevice
from bitstep.pipeline.registers import OFFSETS, Status
from bitstep_hw.parts.reset import SETTLE
from bitstep_sim.board.compiled import BASE
from bitstep_sim.board.device import POISON

NEAR = {"memory_latency": 9}
LENGTHS = range(1, 33)


class Recorded:
    """A run on a board, whose registers the driver wrote once; any kind of run."""

    def __init__(self, device, call):
        self.board = device.board
        recorder = Recorder(device)
        call(recorder)
        self.writes = list(recorder.writes.items())     # CONTROL was last
        assert self.writes[-1][0] == OFFSETS["CONTROL"]
        named = {name: recorder.writes.get(offset, 0) for name, offset in OFFSETS.items()}
        start = named["MODEL_OUT_ADDRESS_LO"] - BASE
        self.written = self.board.memory[
            start:start + named["EPOCHS"] * named["MODEL_OUT_STRIDE_LO"]]

    def start(self):
        """Begin the run, in memory that nothing was written to."""
        self.written[:] = POISON
        self.board.restart_timing()
        self.board.write_all(self.writes)

    def run(self):
        """Return what a whole run leaves in the registers and in memory."""
        self.start()
        assert self.board.run(LIMIT) < LIMIT, "the run hangs"
        values = self.board.read_all([OFFSETS[name] for name in RESULTS])
        return dict(zip(RESULTS, values, strict=True)), self.written.tobytes()


def check_resets(mode, points):
    """Reset a board in a run, at each of these points (cycle, length); then let it run again, or
    another run, in turn.
    """
    config, kind = MODES[mode]
    calls, wrong, fresh = [kind(config), kind(config, other=True)], [], []
    for number in range(len(calls)):
        with open_board(config, **NEAR) as device:
            fresh.append([Recorded(device, call) for call in calls][number].run())
        assert fresh[number][0]["STATUS"] == Status.DONE
    assert fresh[0] != fresh[1]
    with open_board(config, **NEAR) as device:
        runs = [Recorded(device, call) for call in calls]
        chosen = points(fresh[0][0]["CYCLES_LO"])
        for place, (cycle, length) in enumerate(chosen):
            runs[0].start()
            device.board.run(cycle)
            device.board.reset(length)
            number = place % len(runs)
            try:
                if runs[number].run() != fresh[number]:
                    wrong.append((cycle, length, number, "not as on a new board"))
            except AssertionError as error:
                wrong.append((cycle, length, number, str(error)))
                device.board.reset(200)
        assert not wrong, f"{len(wrong)} of {len(chosen)} (cycle, length, run): {wrong[:5]}"
        for call in calls:
            for mine, golden in zip(values_of(call(device)), values_of(call(CpuDevice(config))),
                                    strict=True):
                np.testing.assert_array_equal(mine, golden)


@pytest.mark.parametrize("mode", QUICK)
def test_every_length(mode):
    """Each at a cycle of the run."""
    rng = random.Random(mode)
    check_resets(mode, lambda cycles: [
        (rng.randrange(cycles + 20), length) for length in LENGTHS])


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_every_cycle(mode):
    """Each with every third length, all of them within three cycles."""
    check_resets(mode, lambda cycles: [
        (cycle, length) for cycle in range(cycles + 20)
        for length in LENGTHS if (cycle + length) % 3 == 0])


def test_registers_answer_soon():
    """A driver waits for the end of the reset, but not for long."""
    with open_board(CONFIGS[5]) as device:
        for length in (1, 4, 100):
            device.board.reset(length)
            before = device.board.cycles
            assert device.read(OFFSETS["STATUS"]) == 0
            assert SETTLE <= device.board.cycles - before <= SETTLE + 8
            before = device.board.cycles
            device.read(OFFSETS["STATUS"])
            assert device.board.cycles - before < 8
