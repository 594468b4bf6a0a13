# amaranth: UnusedElaboratable=no

import functools
import random

import pytest
from amaranth import Module
from amaranth.lib import wiring
from support import model_beats, put, read_model, signed_numbers, ticks, write_model

from bitstep.pipeline.config import PipelineConfig
from bitstep_hw.pipeline.model.port import ModelPort
from bitstep_hw.pipeline.model.store import ModelStore
from bitstep_sim.testing.cases import each
from bitstep_sim.testing.harness import Elaborated, get_all, held, put_all, simulate

CONFIGS = [PipelineConfig(bits=8, max_features=24), PipelineConfig(bits=3, max_features=63),
           PipelineConfig(bits=8, max_features=24, update_interval=4),
           PipelineConfig(bits=2, max_features=96, update_interval=4),
           pytest.param(PipelineConfig(bits=1, max_features=192, update_interval=4),
                        marks=pytest.mark.slow)]


@functools.lru_cache(maxsize=8)
def joined(config):
    """A port and a store, connected as in the pipeline, and the port."""
    m = Module()
    m.submodules.port = port = ModelPort(config=config)
    m.submodules.store = store = ModelStore(config=config)
    wiring.connect(m, port.words, store.words)
    return Elaborated(m), port


def random_model(config, rng, beats):
    return [signed_numbers(rng, 32, config.rows.lanes) for _ in range(beats)]


async def command(ctx, port, name, *, limit=2000):
    """Give a command and return the cycles until it is done."""
    put(ctx, getattr(port, name), 1)
    await ctx.tick()
    put(ctx, getattr(port, name), 0)
    for cycle in range(limit):
        *_, done = await ctx.tick().sample(port.done)
        if done:
            return cycle + 1
    raise TimeoutError(f"{name} does not end")


def check(config, beats, *, stall, seed=0):
    """Load, unload, clear, unload; cycles of each command."""
    m, port = joined(config)
    rng = random.Random(seed)
    models = [random_model(config, rng, beats) for _ in range(2)]
    words = [model_beats(config, model, -77 - n) for n, model in enumerate(models)]
    zeros = [0] * len(words[0])
    cycles, received = {}, []

    async def control(ctx):
        put(ctx, port.beats, beats)
        for name in ("load", "unload", "load", "unload", "clear", "unload"):
            cycles[name] = await command(ctx, port, name)

    async def source(ctx):
        await put_all(ctx, port.i, words[0] + words[1], rng=random.Random("in"), stall=stall)

    async def sink(ctx):
        received.extend(await get_all(ctx, port.o, 3 * len(zeros), rng=random.Random("out"),
                                      stall=stall))

    simulate(m, control, source, sink, processes=[held(port.o)])
    mask = [(1 << 64) - 1] * (len(zeros) - 1) + [(1 << 32) - 1]     # padding beside the intercept
    assert [a & b for a, b in zip(received, mask * 3, strict=True)] \
        == [a & b for a, b in zip(words[0] + words[1] + zeros, mask * 3, strict=True)]
    return cycles


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.name)
@each("stall", [0.0, 0.5])
@each("beats", [1, 2, 3])
def test_models_in_and_out(config, stall, beats):
    check(config, beats, stall=stall)


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.name)
@each("beats", [1, 3])
def test_a_pair_a_cycle(config, beats):
    count = beats * config.rows.model_lanes // 2 + 1
    cycles = check(config, beats, stall=0.0)
    assert cycles["clear"] == beats
    assert cycles["load"] == count
    assert cycles["unload"] <= count + 3


def test_coefficients():
    """Every pair but the intercept's is announced with its data."""
    config = CONFIGS[1]
    port = ModelPort(config=config)
    words = model_beats(config, random_model(config, random.Random(0), 2), 5)
    taken = []

    async def control(ctx):
        put(ctx, port.beats, 2)
        await command(ctx, port, "load_coefficients")
        await ticks(ctx, 2)

    async def source(ctx):
        await put_all(ctx, port.i, words, rng=random.Random(1), stall=0.4)

    async def watch(ctx):
        while True:
            *_, strobe, payload, write = await ctx.tick().sample(
                port.coefficient, port.i.payload, port.words.write)
            assert not write
            if strobe:
                taken.append(payload)

    simulate(port, control, source, processes=[watch])
    assert taken == words[:-1]


@pytest.mark.parametrize("update_interval", [2, 4])
@each("stall", [0.0, 0.5])
def test_flags_stand_beside_the_intercept(update_interval, stall):
    """Of several models; every other word is the store's."""
    config = PipelineConfig(bits=8, max_features=24, models=2, update_interval=update_interval)
    m, port = joined(config)
    words = model_beats(config, random_model(config, random.Random(2), 2), -5)
    received = []

    async def control(ctx):
        put(ctx, port.beats, 2)
        put(ctx, port.flags, 5)
        for name in ("load", "unload", "unload"):
            await command(ctx, port, name)

    async def source(ctx):
        await put_all(ctx, port.i, words, rng=random.Random("in"))

    async def sink(ctx):
        received.extend(await get_all(ctx, port.o, 2 * len(words), rng=random.Random("out"),
                                      stall=stall))

    simulate(m, control, source, sink, processes=[held(port.o)])
    *pairs, intercept = words
    assert received == [*pairs, intercept & 0xFFFF_FFFF | 5 << 32] * 2


@each("name", ["load", "unload", "load_coefficients", "clear"])
@each("after", [1, 2, 7])
def test_stop(name, after):
    """A command is given up, its output dropped, and the next command is whole."""
    config = CONFIGS[0]
    m, port = joined(config)
    words = model_beats(config, random_model(config, random.Random(0), 3), 9)

    async def testbench(ctx):
        put(ctx, port.beats, 3)
        put(ctx, getattr(port, name), 1)
        put(ctx, port.i.valid, 1)
        await ctx.tick()
        put(ctx, getattr(port, name), 0)
        for _ in range(after):
            await ctx.tick()
        put(ctx, port.stop, 1)
        for _ in range(12):
            await ctx.tick()
            assert not ctx.get(port.o.valid)
            assert not ctx.get(port.done)
        put(ctx, port.stop, 0)
        put(ctx, port.i.valid, 0)
        put(ctx, port.load, 1)
        await ctx.tick()
        put(ctx, port.load, 0)
        await put_all(ctx, port.i, words, rng=random.Random(0))
        put(ctx, port.unload, 1)
        await ctx.tick()
        put(ctx, port.unload, 0)
        assert await get_all(ctx, port.o, len(words), rng=random.Random(0), stall=0.3) == words

    simulate(m, testbench)


def test_access_by_the_harness_agrees():
    """The tests' own way to the store finds what the port wrote, and the other way round."""
    config = CONFIGS[1]
    model = random_model(config, random.Random(3), 3)
    store = ModelStore(config=config)

    async def testbench(ctx):
        await write_model(ctx, store.words, config, model, -5)
        assert await read_model(ctx, store.words, config, 3) == (model, -5)

    simulate(store, testbench)
