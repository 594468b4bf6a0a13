# amaranth: UnusedElaboratable=no

import random

import numpy as np
import pytest
from support import put, put_all_of, ticks

from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.levels import look_up
from bitstep.pipeline.memory import ModelLayout, pack_codes
from bitstep_hw.shell.codebooks import Codebooks
from bitstep_sim.testing.cases import each
from bitstep_sim.testing.harness import get_all, held, once, put_all, simulate


def config(bits, bus_width=64, **options):
    return PipelineConfig(bits=bits, bus_width=bus_width, max_features=3 * (bus_width // bits),
                          codebooks=True, **options)


def drawn(config, n_features, n_rows, seed):
    """Words of the tables, beats of codes, and the beats of levels that they stand for."""
    rng = np.random.default_rng(seed)
    tables = rng.integers(-127, 128, (n_features, 1 << config.bits)).astype(np.int8)
    codes = rng.integers(0, 1 << config.bits, (n_rows, n_features), dtype=np.uint8)
    words = ModelLayout(config, n_features).pack_codebooks(tables).view("<u8").tolist()
    beat_bytes = config.bus_width // 8
    stored = pack_codes(codes, config.bits, config.bus_width).reshape(-1, beat_bytes)
    levels = np.zeros((n_rows, config.rows.beats(n_features) * config.rows.lanes), np.int8)
    levels[:, :n_features] = look_up(codes, tables)
    return (words, [int.from_bytes(beat.tobytes(), "little") for beat in stored],
            [int.from_bytes(beat.tobytes(), "little")
             for beat in levels.reshape(-1, config.rows.lanes)])


async def load(ctx, dut, words, beats, *, stall=0.0):
    put_all_of(ctx, dut, {"words": len(words), "beats": beats, "clear": 1})
    await ctx.tick()
    put(ctx, dut.clear, 0)
    await put_all(ctx, dut.i_tables, words, rng=random.Random("words"), stall=stall)


@each("stall", [0.0, 0.5])
@pytest.mark.parametrize("bits, bus_width, n_features", [
    (1, 64, 64), (1, 64, 150), (2, 64, 1), (3, 64, 63), (4, 64, 40), (4, 128, 96), (5, 64, 13)])
def test_levels(bits, bus_width, n_features, stall):
    chosen = config(bits, bus_width)
    dut, received = Codebooks(config=chosen), []
    words, beats, expected = drawn(chosen, n_features, 9, bits)

    async def source(ctx):
        put(ctx, dut.i.valid, 1)            # rows are there first, and must wait
        put(ctx, dut.i.payload, beats[0])
        await load(ctx, dut, words, chosen.rows.beats(n_features), stall=stall)
        put(ctx, dut.i.valid, 0)
        await put_all(ctx, dut.i, beats, rng=random.Random("source"), stall=stall)

    async def sink(ctx):
        received.extend(await get_all(ctx, dut.o, len(expected), rng=random.Random("sink"),
                                      stall=stall))

    simulate(dut, source, sink, processes=[held(dut.o)])
    assert received == expected


def test_packed_tables_by_hand():
    """Two features, 1 bit, 64 lanes: a word of 8 lanes, 8 words a code, codes one by one."""
    chosen = PipelineConfig(bits=1, max_features=2, codebooks=True)
    stored = ModelLayout(chosen, 2).pack_codebooks(np.array([[-1, 5], [7, -127]], np.int8))
    assert stored.size == 128 == 8 * chosen.rows.codebook_words(2)
    assert stored.view(np.int8)[[0, 1, 2, 64, 65, 66]].tolist() == [-1, 7, 0, 5, -127, 0]


@each("taken", [0, 1, 2])
def test_clear_in_the_middle(taken):
    """Of tables, and of a row: what follows is as at first."""
    chosen = config(4)
    dut = once(Codebooks, config=chosen)
    words, beats, expected = drawn(chosen, 40, 3, 1)
    others = drawn(chosen, 20, 3, 2)

    async def bench(ctx):
        await load(ctx, dut, words[:5 * taken], 3)
        await load(ctx, dut, words, 3)
        for beat in beats[:taken]:
            await put_all(ctx, dut.i, [beat], rng=random.Random(0))
            assert await get_all(ctx, dut.o, 1, rng=random.Random(0)) \
                == [expected[beats.index(beat)]]
        put(ctx, dut.i.valid, 1)
        await ticks(ctx, 2)
        put(ctx, dut.i.valid, 0)
        await load(ctx, dut, others[0], 2)
        assert not ctx.get(dut.o.valid)
        for beat, levels in zip(*others[1:], strict=True):
            await put_all(ctx, dut.i, [beat], rng=random.Random(0))
            assert await get_all(ctx, dut.o, 1, rng=random.Random(0)) == [levels]

    simulate(dut, bench)


def test_one_beat_a_cycle():
    chosen = config(4)
    dut = once(Codebooks, config=chosen)
    words, beats, expected = drawn(chosen, 40, 4, 3)
    seen = []

    async def bench(ctx):
        await load(ctx, dut, words, 3)
        await ticks(ctx, 2)
        put_all_of(ctx, dut.o, {"ready": 1})
        put(ctx, dut.i.valid, 1)
        for beat in beats:
            put(ctx, dut.i.payload, beat)
            assert ctx.get(dut.i.ready)
            await ctx.tick()
            assert ctx.get(dut.o.valid)
            seen.append(ctx.get(dut.o.payload))

    simulate(dut, bench)
    assert seen == expected
