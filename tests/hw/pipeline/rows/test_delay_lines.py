# amaranth: UnusedElaboratable=no

import random

import pytest
from support import in_rows, put, take

from bitstep.pipeline.config import PipelineConfig
from bitstep_hw.pipeline.rows.delay_lines import DelayLines
from bitstep_sim.testing.cases import each
from bitstep_sim.testing.harness import once, simulate


def usable_lines(config, beats):
    return [line for line in range(1, config.lookahead + 2)
            if beats <= config.ahead.line_depth(line)]


@pytest.mark.parametrize("lookahead", [0, 1, 3, 8])
@each("beats", [1, 2, 3, 4, 7, 10])
@each("gap", [0.0, 0.5])
@pytest.mark.parametrize("update_interval", [2, 4])
def test_beats_of_the_rows_before(lookahead, beats, gap, update_interval):
    config = PipelineConfig(bits=8, max_features=80, lookahead=lookahead,
                            update_interval=update_interval)
    dut = once(DelayLines, config=config)
    lines = usable_lines(config, beats)
    assert lines[:config.ahead.of_rows(beats) + 1] \
        == list(range(1, config.ahead.of_rows(beats) + 2))
    rng = random.Random(f"{lookahead}-{beats}-{gap}")
    n_rows = lookahead + 8
    content = [[rng.getrandbits(64) for _ in range(beats)] for _ in range(n_rows)]
    schedule = in_rows([beats] * n_rows, rng, gap=gap, pitch=2,
                       apart=4 if update_interval == 4 else 2)

    async def testbench(ctx):
        before = None
        for now in [*schedule, None]:
            # What was announced one cycle ago.
            put(ctx, dut.beat, rng.getrandbits(64) if before is None else content[before[0]][
                before[1]])
            if before is not None:
                row, beat, *_ = before
                previous = take(ctx, dut.previous_beats)
                for line in lines:
                    if row >= line:
                        assert previous[line - 1] == content[row - line][beat], (row, beat, line)
            put(ctx, dut.valid, now is not None)
            put(ctx, dut.index, rng.randrange(config.rows.max_beats) if now is None else now[1])
            await ctx.tick()
            before = now

    simulate(dut, testbench)


def test_far_lines_are_short():
    config = PipelineConfig(bits=4, max_features=4096, lookahead=6)
    depths = [config.ahead.line_depth(line) for line in range(1, 8)]
    assert depths[:2] == [256, 256]                     # look-ahead 1 is for rows of any length
    assert depths == sorted(depths, reverse=True)
    assert max(depths[2:]) <= config.latency
