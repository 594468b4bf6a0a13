# amaranth: UnusedElaboratable=no

import pytest
from support import put, put_all_of, ticks

from bitstep.pipeline.bit_planes import BitPlaneLayout
from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.parts.formats import BIT_PLANES
from bitstep_hw.bit_planes.epoch_scale import EpochScale
from bitstep_hw.shell.run_check import RunCheck
from bitstep_sim.testing.harness import once, simulate

LINEAR = PipelineConfig(row_format=BIT_PLANES, bits=16)
LOGISTIC = PipelineConfig(row_format=BIT_PLANES, bits=16, loss_family="logistic", update_interval=6)


@pytest.mark.parametrize("config, least, flags", [
    (LINEAR, 0, {"derivatives": 0}), (LINEAR, 16, {"derivatives": 1}),
    (LOGISTIC, 13, {"derivatives": 0, "fine": 0}), (LOGISTIC, 16, {"derivatives": 1, "fine": 0}),
    (LOGISTIC, 17, {"derivatives": 0, "fine": 1})])
def test_numbers_of_an_epoch(config, least, flags):
    """Every number of planes in the entry, at the edges of shift and level."""
    dut = once(EpochScale, config=config)

    async def bench(ctx):
        put_all_of(ctx, dut, flags)
        for planes in range(32):
            left = 16 - planes
            for shift in sorted({0, max(left + least - 1, 0), max(left + least, 0), 40}):
                for level in (0, 1 << 16, 1 << max(left, 0), (1 << max(left, 0)) // 2, 3):
                    put_all_of(ctx, dut, {"planes": planes, "label_shift": shift,
                                          "intercept_level": level})
                    await ticks(ctx, 1)
                    good = 1 <= planes <= 16 and shift >= left + least and level % (1 << left) == 0
                    assert ctx.get(dut.bad) == (not good), (planes, shift, level)
                    if good:
                        assert ctx.get(dut.o_label_shift) == shift - left
                        assert ctx.get(dut.o_intercept_level) == level >> left

    simulate(dut, bench, limit=5000)


@pytest.mark.parametrize("n_features, n_rows, wrong", [
    (1, 1, False), (5, (1 << 32) - 1, False), (4096, 1000, False), (1001, 77, False),
    (512, (1 << 32) - 1, False), (516, ((1 << 39) - 128) // 129, False),
    (516, ((1 << 39) - 128) // 129 + 1, True),
    (1024, 1 << 31, True), (4096, (1 << 32) - 1, True)])
def test_sizes_of_a_run(n_features, n_rows, wrong):
    dut = once(RunCheck, config=LINEAR)
    layout, beats = BitPlaneLayout(n_features), LINEAR.rows.beats(n_features)
    last_lanes = n_features - (beats - 1) * LINEAR.rows.lanes

    async def bench(ctx):
        put(ctx, dut.registers, {"rows": n_rows, "beats_per_row": beats, "last_lanes": last_lanes,
                                 "epochs": 1, "batch": 1, "copies": 1,
                                 "intercept_level": 1 << 16, "label_shift": 40})
        await ticks(ctx, 2)
        put(ctx, dut.start, 1)
        await ctx.tick()
        put(ctx, dut.start, 0)
        for _ in range(25):
            await ctx.tick()
            if ctx.get(dut.ready):
                break
        assert ctx.get(dut.ready)
        assert ctx.get(dut.bad) == wrong
        assert ctx.get(dut.plane_units) * 64 == layout.plane_bytes
        if not wrong:
            assert ctx.get(dut.row_beats) * 64 == layout.bytes_read(n_rows, 1)

    simulate(dut, bench)
