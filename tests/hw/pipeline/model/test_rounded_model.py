"""The copy of the model with words of few bits is golden's, at every size and place of a word."""

import random

import numpy as np
import pytest
from support import put, put_all_of, ticks

from bitstep.cycles.shape import Shape
from bitstep.golden.rounded_model import model_exponent, rounded_model
from bitstep.pipeline.config import PipelineConfig
from bitstep_hw.pipeline.model.rounded_model import RoundedModel
from bitstep_sim.testing.harness import simulate
from bitstep_sim.testing.random_jobs import random_job

CONFIGS = [
    PipelineConfig(bits=8, max_features=64, model_bits=16),
    PipelineConfig(bits=3, max_features=150, model_bits=4),
    PipelineConfig(bits=5, max_features=300, model_bits=7, update_interval=4),
    PipelineConfig(bits=1, bus_width=256, max_features=500, model_bits=2),
]


async def begin_epoch(ctx, dut, bits, key, beats):
    put_all_of(ctx, dut, {"key": key, "bits": bits, "beats": beats, "epoch_start": 1})
    await ctx.tick()
    put(ctx, dut.epoch_start, 0)


async def walk(ctx, dut, model, beats, most=None):
    """Let a batch begin; returns the cycles until its copy is there, or at most so many."""
    config = dut.config
    padded = np.zeros(beats * config.rows.lanes, np.int64)
    padded[:len(model)] = model
    words, asked, cycles = padded.reshape(beats, -1).tolist(), [0, 0], 0
    put(ctx, dut.start, 1)
    while not ctx.get(dut.done) and cycles != most:
        asked.append(ctx.get(dut.index))
        put(ctx, dut.words, words[asked[-2 - config.clock.memory_wait]])
        await ctx.tick()
        put(ctx, dut.start, 0)
        cycles += 1
    return cycles


async def copy_of(ctx, dut, model, beats):
    """The copy of a model and its exponent, and the cycles that they take."""
    cycles, copy = await walk(ctx, dut, model, beats), []
    await ctx.tick()
    for beat in range(beats):
        put(ctx, dut.slot, {"valid": 1, "index": beat})
        await ticks(ctx, 2)
        copy += [ctx.get(word) for word in dut.o]
    return copy[:len(model)], ctx.get(dut.exponent), cycles


def copies(config, models, bits, key, beats):
    """The copy and its exponent for the models of one batch after the other, and its cycles."""
    dut, found = RoundedModel(config=config), []

    async def testbench(ctx):
        await begin_epoch(ctx, dut, bits, key, beats)
        for model in models:
            found.append(await copy_of(ctx, dut, model, beats))

    simulate(dut, testbench, limit=50_000)
    return found


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.name)
def test_batches_of_an_epoch(config):
    rng = random.Random(config.name)
    for n_features in (config.rows.capacity, 2 * config.rows.lanes - 1, 1):
        bits, key, beats = (rng.choice([2, config.model_bits]), rng.getrandbits(32),
                            config.rows.beats(n_features))
        sizes = [0, 1, bits - 1, bits, 12, 31]
        models = [np.array([rng.randrange(-1 << size, 1 << size) for _ in range(n_features)])
                  for size in sizes]
        models.append(np.full(n_features, -1 << 31))
        shape = Shape.of(random_job(config, n_features=n_features, n_rows=1, model_bits=bits),
                         config, None)
        for batch, (copy, exponent, cycles) in enumerate(copies(config, models, bits, key, beats)):
            expected = rounded_model(models[batch], bits, key, batch)
            assert exponent == model_exponent(models[batch], bits)
            assert [word << exponent for word in copy] == expected.tolist()
            assert cycles == shape.rounding_cycles


@pytest.mark.parametrize("config", [CONFIGS[1], CONFIGS[2]], ids=lambda config: config.name)
def test_stop_in_any_cycle(config):
    """A walk that is cut off asks for no words, which are the port's by then, and the next epoch
    is as after no other.
    """
    rng, bits, beats = random.Random(config.name), config.model_bits, 2
    cut_off, model = (np.array([rng.randrange(-1 << size, 1 << size)
                                for _ in range(beats * config.rows.lanes)]) for size in (30, 9))
    keys = rng.getrandbits(32), rng.getrandbits(32)
    (expected,), dut = copies(config, [model], bits, keys[1], beats), RoundedModel(config=config)

    async def testbench(ctx):
        for cycle in range(1, expected[2] + 1):
            await begin_epoch(ctx, dut, bits, keys[0], beats)
            await walk(ctx, dut, cut_off, beats, cycle)
            put(ctx, dut.stop, 1)
            for _ in range(config.latency):
                await ctx.tick()
                assert not ctx.get(dut.busy), f"stop after {cycle} cycles"
            put(ctx, dut.stop, 0)
            await begin_epoch(ctx, dut, bits, keys[1], beats)
            assert await copy_of(ctx, dut, model, beats) == expected, f"stop after {cycle} cycles"

    simulate(dut, testbench, limit=100_000)
