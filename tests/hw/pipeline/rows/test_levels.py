# amaranth: UnusedElaboratable=no

import random

import numpy as np
import pytest
from support import in_rows, put, take, ticks

from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.levels import decode
from bitstep_hw.pipeline.rows.levels import Levels
from bitstep_sim.testing.harness import once, simulate


def schedule_of(config, beats, n_rows, gap, rng):
    """A place in a row for each cycle, or None."""
    apart = {1: 1, 2: 2, 4: 4}[config.update_interval]
    return in_rows([beats] * n_rows, rng, gap=gap, pitch=min(apart, 2), apart=apart)


class Rows:
    """Random codes, and the levels that are expected of them."""

    def __init__(self, config, n_rows, beats, last_lanes, rng):
        self.config, self.last = config, (beats - 1, last_lanes)
        self.codes = np.array([[[rng.randrange(1 << config.bits) for _ in range(config.rows.lanes)]
                                for _ in range(beats)] for _ in range(n_rows)], np.uint8)
        self.codes[:, -1, last_lanes:] = 0      # padding

    def beat(self, row, beat):
        """A beat as the bus gives it."""
        return sum(int(code) << lane * self.config.bits
                   for lane, code in enumerate(self.codes[row, beat]))

    def levels(self, row, beat, sample):
        """Levels of a beat, 0 in lanes without a feature."""
        levels = decode(self.codes[row, beat], bits=self.config.bits,
                        row_format=self.config.row_format)[sample]
        if beat == self.last[0]:
            levels[self.last[1]:] = 0
        return levels.tolist()


@pytest.mark.by_day(8)
@pytest.mark.covering(2)
@pytest.mark.parametrize("gap", [0.0, 0.5])
@pytest.mark.parametrize("beats, lookahead", [(1, 3), (2, 2), (3, 1), (3, 0)])
@pytest.mark.parametrize("row_format, bits", [("one_level", 1), ("one_level", 5), ("two_levels", 2),
                                          ("two_levels", 4)])
@pytest.mark.parametrize("update_interval", [1, 2, 4])
def test_each_level_in_its_cycle(row_format, bits, update_interval, beats, lookahead, gap):
    config = PipelineConfig(bits=bits, row_format=row_format, update_interval=update_interval,
                            lookahead=3, max_features=64 // bits * 3)
    rng = random.Random(f"{config.name}-{beats}-{lookahead}-{gap}")
    dut, last_lanes = once(Levels, config=config), config.rows.lanes - 1
    rows = Rows(config, 12, beats, last_lanes, rng)
    stages, tail = config.stages.store.words, 12
    places = [*[None] * stages, *schedule_of(config, beats, 12, gap, rng), *[None] * tail]
    slots = [{"valid": 0} if place is None else
             {"valid": 1, "index": place[1], "first": place[2], "last": place[3],
              "apply": place[0] > lookahead}
             for place in places]
    late = config.stages.dot.product - config.stages.dot.term
    seen = []

    async def testbench(ctx):
        put(ctx, dut.last_lanes, last_lanes)
        put(ctx, dut.lookahead, lookahead)
        await ticks(ctx, 3)
        for now in range(stages, len(places)):
            for age in range(stages):
                put(ctx, dut.slots[age], slots[now - age])
            put(ctx, dut.beat, rows.beat(*places[now][:2]) if places[now] else rng.getrandbits(64))
            seen.append({name: take(ctx, getattr(dut, name))
                         for name in ("dot", "late_dot", "previous", "applied")})
            await ctx.tick()

    simulate(dut, testbench)
    for now, place in enumerate(places):
        if place is None:
            continue
        row, beat, *_ = place
        now -= stages
        assert seen[now + 2]["dot"] == rows.levels(row, beat, 0)
        assert seen[now + stages]["late_dot"] == rows.levels(row, beat, 0)
        lines = 0 if update_interval == 1 else min(row, lookahead)
        for line in range(1, lines + 1):
            assert seen[now + 2]["previous"][line - 1] == rows.levels(row - line, beat, 1)
        if row > lookahead:
            assert seen[now + 2 + late]["applied"] == rows.levels(row - lookahead - 1, beat, 1)
