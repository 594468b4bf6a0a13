# amaranth: UnusedElaboratable=no

import random

import numpy as np
import pytest
from support import put, put_all_of, ticks

from bitstep.pipeline.bit_planes import (
    GROUP,
    PLANES,
    BitPlaneLayout,
    from_bit_planes,
    to_bit_planes,
)
from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.parts.formats import BIT_PLANES
from bitstep_hw.bit_planes.plane_feeder import PlaneFeeder
from bitstep_hw.bit_planes.sizes import BitPlaneSizes
from bitstep_hw.bit_planes.transpose import BitPlaneTranspose
from bitstep_sim.testing.cases import each
from bitstep_sim.testing.harness import get_all, held, once, put_all, simulate


def config(n_features, bus_width=64, **options):
    return PipelineConfig(row_format=BIT_PLANES, bits=16, bus_width=bus_width,
                          max_features=n_features, **options)


def sizes(chosen, n_features, n_rows):
    layout, beats = BitPlaneLayout(n_features), chosen.rows.beats(n_features)
    last_lanes = n_features - (beats - 1) * chosen.rows.lanes
    return {"rows": n_rows, "beats": beats, "last_groups": -(-last_lanes // GROUP),
            "plane_units": layout.plane_bytes // 64, "units": layout.bytes_read(n_rows, 1) // 64}


def planes_beats(chosen, bit_planes, n_features, n_rows, planes):
    """Beats of planes, in the order in which they are read."""
    layout, memory, beats = BitPlaneLayout(n_features), bit_planes.reshape(-1), []
    for start, length in layout.chunks(n_rows):
        for plane in range(planes):
            at = start + plane * layout.plane_bytes
            beats += [int.from_bytes(beat.tobytes(), "little") for beat in
                      memory[at:at + length].reshape(-1, chosen.rows.beat_bytes)]
    return beats


def slots(chosen, codes, planes):
    """Values of the lanes of every slot that hold a feature."""
    halves = codes.astype(np.int64) - (1 << planes - 1)
    return [row[first:first + chosen.rows.lanes].tolist()
            for row in halves for first in range(0, codes.shape[1], chosen.rows.lanes)]


def values(chosen, payload, length):
    """The first lanes of a slot, as signed numbers."""
    codes = np.array([payload >> PLANES * lane & 0xFFFF for lane in range(length)], np.uint16)
    return codes.view(np.int16).tolist()


def drawn(chosen, n_features, n_rows, planes, seed=0):
    codes = np.random.default_rng(seed).integers(0, 1 << 16, (n_rows, n_features), np.uint16)
    codes[0] = 0xFFFF
    bit_planes = to_bit_planes(codes)
    return (planes_beats(chosen, bit_planes, n_features, n_rows, planes),
            slots(chosen, from_bit_planes(bit_planes, n_features, planes, 0, n_rows), planes))


async def start(ctx, dut, chosen, n_features, n_rows, planes):
    put_all_of(ctx, dut, sizes(chosen, n_features, n_rows) | {"planes": planes, "start": 1})
    await ctx.tick()
    put(ctx, dut.start, 0)


async def take(ctx, dut, chosen, expected, *, stall):
    got = await get_all(ctx, dut.o, len(expected), rng=random.Random("sink"), stall=stall)
    assert [values(chosen, payload, len(slot)) for payload, slot
            in zip(got, expected, strict=True)] == expected


@pytest.mark.by_day(5)
@pytest.mark.parametrize("n_features, n_rows, planes, bus_width, stall", [
    (1, 130, 1, 64, 0.0), (3, 1, 16, 64, 0.3), (5, 70, 3, 64, 0.5), (16, 65, 2, 64, 0.0),
    (17, 64, 5, 64, 0.3), (20, 300, 2, 64, 0.0), (63, 12, 4, 64, 0.5), (65, 80, 1, 128, 0.2),
    (1000, 5, 2, 64, 0.0), *(pytest.param(*others, marks=pytest.mark.slow) for others in (
        (256, 17, 16, 64, 0.0), (700, 9, 1, 512, 0.1)))])
def test_slots(n_features, n_rows, planes, bus_width, stall):
    chosen = config(n_features, bus_width)
    dut = once(BitPlaneTranspose, config=chosen)
    beats, expected = drawn(chosen, n_features, n_rows, planes)

    async def source(ctx):
        await start(ctx, dut, chosen, n_features, n_rows, planes)
        await put_all(ctx, dut.i, beats, rng=random.Random("source"), stall=stall)

    async def sink(ctx):
        await take(ctx, dut, chosen, expected, stall=stall)
        await ticks(ctx, 20)
        assert not ctx.get(dut.o.valid)

    simulate(dut, source, sink, processes=[held(dut.o)], limit=20_000)


@each("given, taken", [(0, 0), (3, 0), (20, 0), (24, 0), (24, 3), (24, 9)])
def test_stop_in_the_middle(given, taken):
    """Of a chunk, and of the rows: what follows is as at first."""
    chosen = config(20)
    dut = once(BitPlaneTranspose, config=chosen)
    other = drawn(chosen, 6, 9, 3, seed=1)
    beats, expected = drawn(chosen, 20, 3, 2)

    async def bench(ctx):
        await start(ctx, dut, chosen, 6, 9, 3)
        await put_all(ctx, dut.i, other[0][:given], rng=random.Random("other"))
        await take(ctx, dut, chosen, other[1][:taken], stall=0)
        put(ctx, dut.stop, 1)
        await ticks(ctx, 2)
        assert not ctx.get(dut.o.valid)
        assert not ctx.get(dut.i.ready)
        put(ctx, dut.stop, 0)
        await start(ctx, dut, chosen, 20, 3, 2)
        await put_all(ctx, dut.i, beats, rng=random.Random("source"))
        await take(ctx, dut, chosen, expected, stall=0)

    simulate(dut, bench)


def test_full():
    """Beats wait while no slot is taken: two chunks of 128 are stored, and no more."""
    chosen = config(256)
    dut = once(BitPlaneTranspose, config=chosen)
    beats, expected = drawn(chosen, 256, 70, 1)
    progress = []

    async def source(ctx):
        await start(ctx, dut, chosen, 256, 70, 1)
        for beat in beats:
            await put_all(ctx, dut.i, [beat], rng=random.Random(0))
            progress.append(beat)

    async def sink(ctx):
        await ticks(ctx, 400)
        assert 256 <= len(progress) <= 257      # two slots have left the first beat
        await take(ctx, dut, chosen, expected, stall=0)

    simulate(dut, source, sink, limit=20_000)


@pytest.mark.by_day(1)
@pytest.mark.parametrize("n_features, planes", [
    (64, 2), (128, 5), pytest.param(64, 4, marks=pytest.mark.slow)])
def test_full_rate(n_features, planes):
    """A beat a cycle where planes are many, a slot a cycle where they are few."""
    chosen, n_rows = config(n_features), 4 * 4096 // n_features
    dut = once(BitPlaneTranspose, config=chosen)
    beats, expected = drawn(chosen, n_features, n_rows, planes)
    times = []

    async def source(ctx):
        await start(ctx, dut, chosen, n_features, n_rows, planes)
        await put_all(ctx, dut.i, beats, rng=random.Random(0))

    async def sink(ctx):
        put(ctx, dut.o.ready, 1)
        time = 0
        while len(times) < len(expected):
            *_, valid = await ctx.tick().sample(dut.o.valid)
            time += 1
            if valid:
                times.append(time)

    simulate(dut, source, sink, limit=20_000)
    chunk = 64 * max(4, planes)         # cycles: 512 bytes of every plane, or their slots
    assert 4 * chunk <= times[-1] - 64 * min(4, planes) <= 4 * chunk + 8


@pytest.mark.parametrize("n_features, n_rows, planes, bus_width, copies", [
    (1, 5000, 1, 64, 1), (24, 385, 4, 64, 2), (9, 1, 16, 128, 3), (257, 300, 2, 512, 1)])
def test_feeder(n_features, n_rows, planes, bus_width, copies):
    chosen, layout = config(n_features, bus_width), BitPlaneLayout(n_features)
    dut, stride = PlaneFeeder(config=chosen), 1 << 20
    needed = sizes(chosen, n_features, n_rows)

    async def bench(ctx):
        put_all_of(ctx, dut, {name: needed[name] for name in ("plane_units", "units")} | {
            "copies": copies, "address": 4096, "stride": stride, "begin": 1})
        await ctx.tick()
        put(ctx, dut.begin, 0)
        for epoch in range(4):
            now = planes + epoch % 2 * (16 - planes)
            put_all_of(ctx, dut, {"planes": now, "start": 1})
            await ctx.tick()
            put(ctx, dut.start, 0)
            assert ctx.get(dut.o.valid)
            expected = [
                (4096 + epoch % copies * stride + at + plane * layout.plane_bytes,
                 length // chosen.rows.beat_bytes)
                for at, length in layout.chunks(n_rows) for plane in range(now)]
            if epoch == 2:
                expected = expected[:2]         # the epoch is ended early
            got = await get_all(ctx, dut.o, len(expected), rng=random.Random(epoch), stall=0.3)
            assert [(job["address"], job["beats"]) for job in got] == expected
            if epoch == 2:
                put(ctx, dut.stop, 1)
                await ticks(ctx, 1)
                put(ctx, dut.stop, 0)
            await ticks(ctx, 3)
            assert not ctx.get(dut.o.valid)

    simulate(dut, bench, limit=20_000)


def test_each_run_begins_with_the_first_copy():
    """Also after a run of fewer epochs than copies."""
    chosen = config(16)
    dut = once(PlaneFeeder, config=chosen)
    needed = sizes(chosen, 16, 9)

    async def bench(ctx):
        put_all_of(ctx, dut, {name: needed[name] for name in ("plane_units", "units")} | {
            "address": 4096, "stride": 1 << 20, "planes": 1})
        for copies, epochs in ((3, 2), (3, 4), (2, 3), (1, 2)):
            put_all_of(ctx, dut, {"copies": copies, "begin": 1})
            await ctx.tick()
            put(ctx, dut.begin, 0)
            for epoch in range(epochs):
                put(ctx, dut.start, 1)
                await ctx.tick()
                put(ctx, dut.start, 0)
                (job,) = await get_all(ctx, dut.o, 1, rng=random.Random(epoch))
                assert job["address"] == 4096 + epoch % copies * (1 << 20)
                await ticks(ctx, 3)

    simulate(dut, bench)


def test_sizes():
    """Every length of a row up to 300 values, and some longer ones."""
    chosen = config(1 << 16)
    dut = once(BitPlaneSizes, config=chosen)

    async def bench(ctx):
        for n_features in [*range(1, 301), 999, 4096, 5001, 12345, 65532, 65536]:
            layout, beats = BitPlaneLayout(n_features), chosen.rows.beats(n_features)
            put_all_of(ctx, dut, {"beats": beats,
                                  "last_lanes": n_features - (beats - 1) * chosen.rows.lanes})
            await ticks(ctx, 3)
            assert ctx.get(dut.groups) * GROUP == layout.row_bits
            assert ctx.get(dut.plane_units) * 64 == layout.plane_bytes, n_features

    simulate(dut, bench)


def test_chunks_are_what_is_read():
    """Runs of at least 512 bytes on average but at the end, and all bytes once."""
    for n_features in [*range(1, 70), 256, 1001, 4096]:
        layout = BitPlaneLayout(n_features)
        for n_rows in {1, layout.block_rows // 2 + 1, layout.block_rows,
                       3 * layout.block_rows + 1}:
            chunks = list(layout.chunks(n_rows))
            assert sum(length for _, length in chunks) == layout.bytes_read(n_rows, 1)
            assert max(length for _, length in chunks) <= 1024
            whole = [length for at, length in chunks
                     if at // layout.block_bytes < n_rows // layout.block_rows]
            assert not whole or sum(whole) >= 512 * len(whole)
