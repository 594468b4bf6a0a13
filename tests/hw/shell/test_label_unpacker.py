# amaranth: UnusedElaboratable=no

import random

import numpy as np
import pytest
from support import put, put_all_of, ticks

from bitstep.golden.steps import WEIGHT_TURN
from bitstep.pipeline.levels import unpack_labels
from bitstep.pipeline.memory import pack_labels, pack_weighted_labels
from bitstep.pipeline.registers import LabelFormat
from bitstep_hw.shell.label_unpacker import LabelUnpacker
from bitstep_sim.testing.cases import each
from bitstep_sim.testing.harness import get_all, held, once, put_all, simulate

PER_WORD = {LabelFormat.SIGN: 64, LabelFormat.INT16: 4, LabelFormat.INT32: 2}
CORNERS = [0, (1 << 64) - 1, 0x8000_7FFF_0001_FFFE, 0x8000_0000_7FFF_FFFF, 1, 1 << 63]


def expected_labels(words, label_format):
    packed = np.array(words, np.uint64).view(np.uint8)
    return unpack_labels(packed, label_format, len(words) * PER_WORD[label_format]).tolist()


@each("label_format", LabelFormat)
@each("source_stall", [0.0, 0.6])
@each("sink_stall", [0.0, 0.6])
def test_labels(label_format, source_stall, sink_stall):
    rng = random.Random(f"{label_format}-words")
    words = CORNERS + [rng.getrandbits(64) for _ in range(60 // PER_WORD[label_format])]
    expected = expected_labels(words, label_format)
    dut = once(LabelUnpacker)
    received = []

    async def source(ctx):
        put(ctx, dut.label_format, label_format.value)
        await put_all(ctx, dut.i, words, rng=random.Random("source"), stall=source_stall)

    async def sink(ctx):
        received.extend(await get_all(ctx, dut.o, len(expected), rng=random.Random("sink"),
                                      stall=sink_stall))

    simulate(dut, source, sink, processes=[held(dut.o)])
    assert received == expected


def test_labels_by_hand():
    assert expected_labels([0b101], LabelFormat.SIGN)[:4] == [1, -1, 1, -1]
    assert expected_labels([0x8000_7FFF_0001_FFFE], LabelFormat.INT16) == [-2, 1, 32767, -32768]
    assert expected_labels([0x8000_0000_7FFF_FFFF], LabelFormat.INT32) == [2**31 - 1, -2**31]


@each("label_format", LabelFormat)
def test_one_label_a_cycle(label_format):
    dut = once(LabelUnpacker)

    async def testbench(ctx):
        put_all_of(ctx, dut, {"label_format": label_format.value})
        put(ctx, dut.i.valid, 1)
        put(ctx, dut.o.ready, 1)
        await ctx.tick()
        for _ in range(3 * PER_WORD[label_format]):
            assert ctx.get(dut.o.valid)
            await ctx.tick()

    simulate(dut, testbench)


def test_valid_does_not_wait_for_ready():
    dut = once(LabelUnpacker)

    async def testbench(ctx):
        put(ctx, dut.i.valid, 1)
        await ticks(ctx, 5)
        assert ctx.get(dut.o.valid)
        assert not ctx.get(dut.i.ready)         # one word is stored

    simulate(dut, testbench)


@each("label_format", LabelFormat)
@each("taken", [0, 1, "all"])
def test_restart_drops_the_rest_of_a_word(label_format, taken):
    dut = once(LabelUnpacker)
    first, second = CORNERS[2], CORNERS[3]

    async def testbench(ctx):
        put(ctx, dut.label_format, label_format.value)
        await put_all(ctx, dut.i, [first], rng=random.Random(0))
        await get_all(ctx, dut.o, PER_WORD[label_format] if taken == "all" else taken,
                      rng=random.Random(0))
        put(ctx, dut.restart, 1)
        put(ctx, dut.i.valid, 1)
        assert not ctx.get(dut.o.valid)
        assert not ctx.get(dut.i.ready)
        await ctx.tick()
        put_all_of(ctx, dut, {"restart": 0})
        put(ctx, dut.i.valid, 0)
        assert not ctx.get(dut.o.valid)
        await put_all(ctx, dut.i, [second], rng=random.Random(0))
        received = await get_all(ctx, dut.o, PER_WORD[label_format], rng=random.Random(0))
        assert received == expected_labels([second], label_format)

    simulate(dut, testbench)


@each("label_format", LabelFormat)
@pytest.mark.parametrize("models, streams", [(2, 2), (3, 4), (8, 8)])
@each("shared", [0, 1])
def test_labels_of_several_models(label_format, models, streams, shared):
    rng = random.Random(f"{label_format}-{models}")
    per_row = 1 if shared else streams
    words = [rng.getrandbits(64) for _ in range(24)]
    labels = np.array(expected_labels(words, label_format)).reshape(-1, per_row)
    expected = np.repeat(labels, models, axis=1) if shared else labels[:, :models]
    dut = once(LabelUnpacker, models=models, streams=streams)
    received = []

    async def source(ctx):
        put_all_of(ctx, dut, {"label_format": label_format.value, "shared": shared})
        await put_all(ctx, dut.i, words, rng=random.Random("source"), stall=0.3)

    async def sink(ctx):
        received.extend(await get_all(ctx, dut.o, len(expected), rng=random.Random("sink"),
                                      stall=0.3))

    simulate(dut, source, sink)
    assert [[row[model] for model in range(models)] for row in received] == expected.tolist()


@each("taken", [1, 2, 3])
def test_restart_within_the_words_of_a_row(taken):
    """Eight labels of 32 bits take four words."""
    dut = once(LabelUnpacker, models=8, streams=8)

    async def testbench(ctx):
        put_all_of(ctx, dut, {"label_format": LabelFormat.INT32.value})
        put(ctx, dut.i.valid, 1)
        put(ctx, dut.i.payload, 0x7)
        await ticks(ctx, taken)
        put(ctx, dut.restart, 1)
        await ctx.tick()
        put(ctx, dut.restart, 0)
        for word in range(4):
            assert not ctx.get(dut.o.valid)
            put(ctx, dut.i.payload, 2 * word | 2 * word + 1 << 32)
            await ctx.tick()
        assert ctx.get(dut.o.valid)
        row = ctx.get(dut.o.payload)
        assert [row[model] for model in range(8)] == list(range(8))

    simulate(dut, testbench)


@each("label_format", LabelFormat)
@pytest.mark.parametrize("models, streams, rows", [(1, 1, 4), (1, 1, 16), (3, 4, 2), (5, 8, 4)])
@each("shared", [0, 1])
def test_labels_of_several_rows_together(label_format, models, streams, rows, shared):
    rng = random.Random(f"{label_format}-{models}-{rows}")
    words = [rng.getrandbits(64) for _ in range(128)]
    per_row = 1 if shared else streams
    labels = np.array(expected_labels(words, label_format)).reshape(-1, rows, per_row)[:20]
    expected = np.repeat(labels, models, axis=2) if shared else labels[:, :, :models]
    dut = once(LabelUnpacker, models=models, streams=streams, rows=rows)
    received = []

    async def source(ctx):
        put_all_of(ctx, dut, {"label_format": label_format.value})
        if models > 1:
            put(ctx, dut.shared, shared)
        await put_all(ctx, dut.i, words, rng=random.Random("source"), stall=0.2)

    async def sink(ctx):
        received.extend(await get_all(ctx, dut.o, len(expected), rng=random.Random("sink"),
                                      stall=0.2))

    simulate(dut, sink, background=[source], limit=20_000)
    assert [[group[place] for place in range(rows * models)] for group in received] \
        == expected.reshape(len(expected), -1).tolist()


@each("label_format", LabelFormat)
@pytest.mark.parametrize("models, streams", [(1, 1), (2, 2), (3, 4), (8, 8)])
@each("shared", [0, 1])
@each("stall", [0.0, 0.4])
def test_rows_with_weights(label_format, models, streams, shared, stall):
    """Labels, weights, and the places of dithers; then, after a restart, others from place 0."""
    rng = np.random.default_rng(models)
    bits = {LabelFormat.INT16: 16, LabelFormat.INT32: 32}.get(label_format)
    dut = once(LabelUnpacker, models=models, streams=streams, weights=True)
    per_row = 1 if shared and models > 1 else streams
    expected, words = [], []
    for n_rows in (41, 7):
        labels = rng.choice([-1, 1], (n_rows, per_row)) if bits is None else \
            rng.integers(-1 << bits - 1, 1 << bits - 1, (n_rows, per_row))
        weights = rng.integers(0, 1 << 16, n_rows).astype(np.uint16)
        weights[:2], labels[-1] = (0, 65535), -1
        words.append(pack_weighted_labels(labels, weights, label_format).view("<u8").tolist())
        expected.append([([*np.broadcast_to(row, models)] if per_row == 1 else [*row[:models]],
                          weight, WEIGHT_TURN * number % (1 << 16))
                         for number, (row, weight) in enumerate(
                             zip(labels.tolist(), weights.tolist(), strict=True))])

    async def testbench(ctx):
        put_all_of(ctx, dut, {"label_format": label_format.value, "weighted": 1})
        if models > 1:
            put(ctx, dut.shared, shared)
        for some, rows in zip(words, expected, strict=True):
            received, left = [], list(some)
            while len(received) < len(rows):
                put(ctx, dut.i.valid, bool(left) and random.random() >= stall)
                put(ctx, dut.i.payload, left[0] if left else 0)
                put(ctx, dut.o.ready, random.random() >= stall)
                taken = ctx.get(dut.i.valid) and ctx.get(dut.i.ready)
                if ctx.get(dut.o.valid) and ctx.get(dut.o.ready):
                    row = ctx.get(dut.o.payload)
                    labels = [row.labels] if models == 1 else \
                        [row.labels[model] for model in range(models)]
                    received.append((labels, row.weight, row.place))
                await ctx.tick()
                if taken:
                    del left[0]
            assert received == rows
            put_all_of(ctx, dut, {"restart": 1})
            put(ctx, dut.i.valid, 0)
            await ctx.tick()
            put_all_of(ctx, dut, {"restart": 0})

    random.seed(f"{label_format}-{models}")
    simulate(dut, testbench, limit=20_000)


@each("label_format", LabelFormat)
@pytest.mark.parametrize("models, streams", [(1, 1), (3, 4)])
@pytest.mark.parametrize("rows, rows_per_beat", [(2, 2), (8, 5)])
@each("shared", [0, 1])
@each("weighted", [0, 1])
def test_rows_with_weights_together(label_format, models, streams, rows, rows_per_beat, shared,
                                    weighted):
    """Those of a beat; after a restart within the words of one, others from place 0."""
    rng = np.random.default_rng([models, rows])
    bits = {LabelFormat.INT16: 16, LabelFormat.INT32: 32}.get(label_format)
    dut = once(LabelUnpacker, models=models, streams=streams, rows=rows, weights=True,
               rows_per_beat=rows_per_beat)
    per_row = 1 if shared and models > 1 else streams
    words, expected = [], []
    for n_beats in (9, 4):
        n_rows = n_beats * rows
        labels = rng.choice([-1, 1], (n_rows, per_row)) if bits is None else \
            rng.integers(-1 << bits - 1, 1 << bits - 1, (n_rows, per_row))
        weights = rng.integers(0, 1 << 16, n_rows).astype(np.uint16)
        weights[:3] = 0, 65535, 1
        stored = pack_weighted_labels(labels, weights, label_format) if weighted else \
            pack_labels(labels.reshape(-1), label_format)
        words.append(stored.view("<u8").tolist())
        given = np.broadcast_to(labels, (n_rows, models)) if per_row == 1 else labels[:, :models]
        expected.append([
            (beat.reshape(-1).tolist(), some.tolist() if weighted else None,
             WEIGHT_TURN * rows_per_beat * number % (1 << 16))
            for number, (beat, some) in enumerate(zip(
                given.reshape(n_beats, rows, models), weights.reshape(n_beats, rows),
                strict=True))])

    async def testbench(ctx):
        put_all_of(ctx, dut, {"label_format": label_format.value, "weighted": weighted})
        if models > 1:
            put(ctx, dut.shared, shared)
        for some, beats in zip(words, expected, strict=True):
            received, left = [], list(some)
            while len(received) < len(beats) - 1:       # some words of the last one are taken
                put(ctx, dut.i.valid, bool(left) and random.random() >= 0.2)
                put(ctx, dut.i.payload, left[0] if left else 0)
                put(ctx, dut.o.ready, random.random() >= 0.2)
                taken = ctx.get(dut.i.valid) and ctx.get(dut.i.ready)
                if ctx.get(dut.o.valid) and ctx.get(dut.o.ready):
                    beat = ctx.get(dut.o.payload)
                    received.append((
                        [beat.labels[place] for place in range(rows * models)],
                        [beat.weight[row] for row in range(rows)] if weighted else None,
                        beat.place))
                await ctx.tick()
                if taken:
                    del left[0]
            assert received == beats[:-1]
            put_all_of(ctx, dut, {"restart": 1})
            put(ctx, dut.i.valid, 0)
            await ctx.tick()
            put_all_of(ctx, dut, {"restart": 0})

    random.seed(f"{label_format}-{models}-{rows}")
    simulate(dut, testbench, limit=20_000)


def test_rows_with_weights_by_hand():
    """A row of one sign takes 32 bits: the sign in the lowest, the weight in the highest 16."""
    assert pack_weighted_labels(np.array([[1], [-1], [1]]), np.array([2, 3, 65535], np.uint16),
                                LabelFormat.SIGN).view("<u8").tolist() == [
        0x0003_0000_0002_0001, 0xFFFF_0001]
    assert pack_weighted_labels(np.array([[-2]]), np.array([5], np.uint16),
                                LabelFormat.INT32).view("<u8").tolist() == [0x0005_0000_FFFF_FFFE]


@each("label_format", LabelFormat)
def test_a_pipeline_with_weights_takes_rows_without(label_format):
    words = CORNERS[:4]
    dut = once(LabelUnpacker, weights=True)
    received = []

    async def testbench(ctx):
        put_all_of(ctx, dut, {"label_format": label_format.value, "weighted": 0})
        put(ctx, dut.i.valid, 1)
        put(ctx, dut.o.ready, 1)
        left = list(words)
        while len(received) < 4 * PER_WORD[label_format]:
            put(ctx, dut.i.valid, bool(left))
            put(ctx, dut.i.payload, left[0] if left else 0)
            taken = left and ctx.get(dut.i.ready)
            if ctx.get(dut.o.valid):
                received.append(ctx.get(dut.o.payload).labels)
            await ctx.tick()
            if taken:
                del left[0]

    simulate(dut, testbench)
    assert received == expected_labels(words, label_format)
