# amaranth: UnusedElaboratable=no

import random

import pytest
from support import put, put_all_of, ticks

from bitstep.pipeline.registers import LabelFormat
from bitstep.pipeline.shapes import row_label_bits
from bitstep_hw.shell.job_feeders import AuxFeeder, RowFeeder
from bitstep_sim.testing.cases import each
from bitstep_sim.testing.harness import get_all, held, once, simulate

TOP = (1 << 64) - 4096
ADDRESSES = {"model_address": 0x1000, "coefficients_address": TOP, "table_address": 0x3000,
             "labels_address": 0x4000}


def collect(dut, count, *, stall=0.0, **values):
    """The first ``count`` blocks after a start; there must be no more."""
    blocks = []

    async def testbench(ctx):
        put_all_of(ctx, dut, values)
        await ticks(ctx, 2)
        assert not ctx.get(dut.o.valid)
        put(ctx, dut.start, 1)
        await ctx.tick()
        put(ctx, dut.start, 0)
        blocks.extend(await get_all(ctx, dut.o, count, rng=random.Random(0), stall=stall))
        for _ in range(10):
            await ctx.tick()
            assert not ctx.get(dut.o.valid)

    simulate(dut, testbench, processes=[held(dut.o)])
    return [(block.address, block.beats) for block in blocks]


@each("stall", [0.0, 0.7])
@each("epochs, copies", [(1, 1), (5, 1), (5, 2), (7, 3), (2, 255), (260, 255)])
def test_rows(stall, epochs, copies):
    blocks = collect(RowFeeder(), epochs, stall=stall, epochs=epochs, copies=copies,
                     address=0x5000, stride=0x40, beats=77)
    assert blocks == [(0x5000 + epoch % copies * 0x40, 77) for epoch in range(epochs)]


def test_each_run_begins_with_the_first_copy():
    """Also after a run of fewer epochs than copies, and after one that was stopped."""
    dut = once(RowFeeder)

    async def testbench(ctx):
        put_all_of(ctx, dut, {"epochs": 3, "address": 0x5000, "stride": 0x40, "beats": 77})
        for copies, taken in ((4, 3), (2, 3), (4, 1), (2, 3), (3, 3)):
            put(ctx, dut.copies, copies)
            put(ctx, dut.start, 1)
            await ctx.tick()
            put(ctx, dut.start, 0)
            blocks = await get_all(ctx, dut.o, taken, rng=random.Random(0))
            assert [block.address for block in blocks] \
                == [0x5000 + epoch % copies * 0x40 for epoch in range(taken)]
            put(ctx, dut.stop, 1)
            await ticks(ctx, 3)
            put(ctx, dut.stop, 0)

    simulate(dut, testbench)


@each("stall", [0.0, 0.7])
@each("model", [0, 1])
@each("coefficients", [0, 1])
@each("epochs", [1, 3])
def test_auxiliary_blocks(stall, model, coefficients, epochs):
    expected = [(0x1000, 9)] * model + [(TOP, 9)] * coefficients
    for epoch in range(epochs):
        expected += [(0x3000 + 16 * epoch, 2), (0x4000, 25)]
    blocks = collect(AuxFeeder(), len(expected), stall=stall, epochs=epochs, rows=100,
                     label_format=LabelFormat.INT16.value, load_model=model,
                     load_coefficients=coefficients, model_beats=9, **ADDRESSES)
    assert blocks == expected


@each("label_format, rows, beats", [
    (LabelFormat.SIGN, 1, 1), (LabelFormat.SIGN, 64, 1), (LabelFormat.SIGN, 65, 2),
    (LabelFormat.INT16, 1, 1), (LabelFormat.INT16, 4, 1), (LabelFormat.INT16, 5, 2),
    (LabelFormat.INT32, 1, 1), (LabelFormat.INT32, 2, 1), (LabelFormat.INT32, 3, 2),
    (LabelFormat.SIGN, (1 << 32) - 1, 1 << 26), (LabelFormat.INT16, (1 << 32) - 1, 1 << 30),
    (LabelFormat.INT32, (1 << 32) - 1, 1 << 31)])
def test_beats_of_the_labels(label_format, rows, beats):
    """As :func:`bitstep.pipeline.shapes.label_bytes`, without overflow."""
    blocks = collect(AuxFeeder(), 2, epochs=1, rows=rows, label_format=label_format.value,
                     **ADDRESSES)
    assert blocks[1] == (0x4000, beats)


@pytest.mark.parametrize("label_format, rows, streams, beats", [
    (LabelFormat.SIGN, 17, 4, 2), (LabelFormat.INT16, 3, 2, 2), (LabelFormat.INT32, 5, 8, 20),
    (LabelFormat.SIGN, (1 << 32) - 1, 16, 1 << 30), (LabelFormat.INT16, 1 << 30, 8, 1 << 31)])
def test_beats_of_the_labels_of_several_models(label_format, rows, streams, beats):
    """Without overflow, where a row has as many labels as ``streams``."""
    blocks = collect(AuxFeeder(streams=streams), 2, epochs=1, rows=rows, models=streams - 1,
                     label_format=label_format.value, **ADDRESSES)
    assert blocks == [(0x3000, 2 * (streams - 1)), (0x4000, beats)]


@pytest.mark.parametrize("label_format, rows, streams, beats", [
    (LabelFormat.SIGN, 3, 1, 2), (LabelFormat.SIGN, 3, 8, 2), (LabelFormat.INT16, 3, 1, 2),
    (LabelFormat.INT32, 3, 1, 3), (LabelFormat.INT16, 3, 8, 12), (LabelFormat.INT32, 3, 8, 24),
    (LabelFormat.SIGN, (1 << 32) - 1, 1, 1 << 31), (LabelFormat.INT16, (1 << 32) - 1, 1, 1 << 31),
    (LabelFormat.INT32, (1 << 32) - 1, 1, (1 << 32) - 1)])
def test_beats_of_rows_with_weights(label_format, rows, streams, beats):
    """Twice the bits of the labels, and at least 32 a row."""
    assert -(-rows * row_label_bits(label_format, streams, True) // 64) == beats
    models = {"models": streams} if streams > 1 else {}
    blocks = collect(AuxFeeder(streams=streams, weights=True), 2, epochs=1, rows=rows, weighted=1,
                     label_format=label_format.value, **models, **ADDRESSES)
    assert blocks[1] == (0x4000, beats)


@pytest.mark.parametrize("make", [RowFeeder, AuxFeeder])
@each("after", range(6))
def test_stop(make, after):
    """No block while stopped, even at a start; afterwards a run begins anew."""
    dut = make()

    async def testbench(ctx):
        put_all_of(ctx, dut, {"epochs": 100})
        put_all_of(ctx, dut, {"copies": 4, "address": 8, "stride": 8} if make is RowFeeder else
                   {"load_model": 1, "load_coefficients": 1, "rows": 4, **ADDRESSES})
        put(ctx, dut.o.ready, 1)
        await ticks(ctx, 2)
        for _ in range(2):
            put(ctx, dut.start, 1)
            await ctx.tick()
            put(ctx, dut.start, 0)
            assert ctx.get(dut.o.valid)
            assert ctx.get(dut.o.payload.address) == (8 if make is RowFeeder else 0x1000)
            await ticks(ctx, after)
            put_all_of(ctx, dut, {"stop": 1})
            for _ in range(8):
                assert not ctx.get(dut.o.valid)
                put(ctx, dut.start, 1)
                await ctx.tick()
            put_all_of(ctx, dut, {"start": 0, "stop": 0})
            await ticks(ctx, 2)
            assert not ctx.get(dut.o.valid)

    simulate(dut, testbench)
