# amaranth: UnusedElaboratable=no

from support import put, ticks

from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.registers import LabelFormat, Loss
from bitstep_hw.shell.run_check import RunCheck
from bitstep_sim.testing.cases import each
from bitstep_sim.testing.harness import once, simulate

CONFIG = PipelineConfig(bits=3, max_features=105)       # 21 lanes, 11 pairs of words a beat
GOOD = {"rows": 1000, "beats_per_row": 3, "last_lanes": 21, "epochs": 1, "batch": 1, "copies": 1}


@each("rows, beats, wrong", [
    (1, 1, False), (1000, 3, False), ((1 << 32) - 1, 1, False), ((1 << 31) - 1, 2, False),
    (1 << 31, 2, True), (1 << 31, 5, True), (1 << 30, 3, False), ((1 << 32) // 3, 3, False),
    ((1 << 32) // 3 + 1, 3, True), ((1 << 32) - 1, 3, True)])
@each("period", [0, 5])
def test_sizes(rows, beats, wrong, period):
    """A block of rows that is too long for its register is wrong, as soon as that is known; and
    only that one.
    """
    dut = once(RunCheck, config=CONFIG)

    async def check(ctx, rows, beats, wrong):
        put(ctx, dut.registers, {**GOOD, "rows": rows, "beats_per_row": beats,
                                 "correction_period": period})
        await ticks(ctx, 2)
        put(ctx, dut.start, 1)
        await ctx.tick()
        put(ctx, dut.start, 0)
        for _ in range(25):
            await ctx.tick()
            if ctx.get(dut.ready):
                break
        for _ in range(40):     # a run reads the beats until its end
            assert ctx.get(dut.bad) == wrong
            assert ctx.get(dut.ready)
            assert ctx.get(dut.row_beats) == (rows * beats) % (1 << 32)
            await ctx.tick()
        assert ctx.get(dut.model_beats) == beats * 11 + 1
        assert ctx.get(dut.corrects) == (period != 0)

    async def testbench(ctx):
        await check(ctx, (1 << 32) - 1, 3, True)
        await check(ctx, rows, beats, wrong)

    simulate(dut, testbench)


@each("choices, least", [
    ({}, 0), ({"models": 2}, 0), ({"loss_family": "logistic", "update_interval": 6}, 13),
    # Their label shifts stand in the table.
    ({"loss_family": "logistic", "update_interval": 6, "models": 2}, 0)])
def test_label_shift(choices, least):
    config = PipelineConfig(bits=3, max_features=63, **choices)
    dut = once(RunCheck, config=config)
    loss = Loss.LOGISTIC if config.loss_family == "logistic" else Loss.LEAST_SQUARES

    async def testbench(ctx):
        for shift in sorted({0, max(least - 1, 0), least, 40, 41}):
            put(ctx, dut.registers, {
                **GOOD, "label_shift": shift, "loss": loss.value, "models": 2,
                "label_format": LabelFormat.SIGN.value})
            await ticks(ctx, 2)
            assert ctx.get(dut.bad) == (not least <= shift <= 40)

    simulate(dut, testbench)


def test_a_gradient_that_the_pipeline_cannot_sum():
    """Its second half would never come."""
    dut = once(RunCheck, config=CONFIG)

    async def testbench(ctx):
        for gradient in (0, 1):
            put(ctx, dut.registers, {**GOOD, "batch": 1000, "gradient": gradient})
            await ticks(ctx, 2)
            assert ctx.get(dut.bad) == gradient

    simulate(dut, testbench)
