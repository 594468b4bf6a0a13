# amaranth: UnusedElaboratable=no

import random
from dataclasses import replace

import pytest
from support import (
    halves,
    in_rows,
    put,
    put_all_of,
    read_model,
    signed_number,
    signed_numbers,
    ticks,
    write_model,
)

from bitstep.golden.rounding import fits
from bitstep.pipeline.config import PipelineConfig
from bitstep_hw.pipeline.model.store import ModelStore
from bitstep_sim.testing.cases import each
from bitstep_sim.testing.harness import once, simulate

CONFIGS = [
    PipelineConfig(bits=8, max_features=24, lookahead=2),
    PipelineConfig(bits=3, max_features=63, lookahead=2),                # an odd number of lanes
    PipelineConfig(bits=2, row_format="two_levels", max_features=96, lookahead=2),
    PipelineConfig(bits=8, max_features=24, minibatch=False),
    PipelineConfig(bits=8, max_features=24, corrections=False),
]
FAST = [replace(config, update_interval=4) for config in CONFIGS[:3]]
EVERY_CYCLE = [replace(config, update_interval=1, max_features=5 * config.rows.lanes)
               for config in (*CONFIGS[:3], CONFIGS[4])]
FLAG_LATENCY = 8            # a bound: the flags of all lanes take a few cycles more
LOW, HIGH = -1 << 31, (1 << 31) - 1


class Reference:
    """The model, frozen model and intercept, a slot at a time."""

    def __init__(self, model, intercept, level):
        self.model, self.frozen = [list(words) for words in model], [list(w) for w in model]
        self.intercept = self.frozen_intercept = intercept
        self.level = level

    def step(self, slot, levels, update, correction):
        """Words and intercept for the dot product, and words to sample."""
        index = slot["index"]
        updated = [word - update * level
                   for word, level in zip(self.model[index], levels, strict=True)]
        seen = [word + slot["correct"] * e for word, e in zip(updated, correction, strict=True)]
        self.model[index] = seen if slot["commit"] else updated
        if slot["first"]:
            self.intercept -= update * self.level
        if slot["freeze"]:
            self.frozen[index] = seen
            if slot["first"]:
                self.frozen_intercept = self.intercept
        if slot["frozen"]:
            return self.frozen[index], self.frozen_intercept, seen
        return seen, self.intercept, seen


def words_latency(config):
    """Cycles from a slot to its words."""
    return config.stages.store.words - config.stages.store.entry


def in_time(config, cycles):
    """Cycles with the levels and the update of each slot when the store takes them."""
    stages, found = config.stages, [dict(cycle) for cycle in cycles]
    late = 2 - stages.store.entry
    for name, later in (("update", late), ("levels", late + stages.dot.product - stages.dot.term)):
        for cycle in found:
            cycle.pop(name, None)
        for now, cycle in enumerate(cycles[:len(cycles) - later]):
            if name in cycle:
                found[now + later][name] = cycle[name]
    return found


def kinds_and_places(config, rng, gap, beats):
    """What each of 40 rows does, and its beats in order, as :func:`support.in_rows` has them. Where
    rows come in every cycle, no slot follows one that commits or freezes words for 4 cycles.
    """
    apart = config.update_interval
    kinds = ["freeze", *rng.choices(
        ["plain", "plain", "correct", "commit", "freeze", "frozen", "frozen"], k=39)]
    if apart > 1:
        return kinds, in_rows([beats] * 40, rng, gap=gap, pitch=2, apart=apart)
    places = []
    for kind in kinds:
        places += in_rows([beats], rng, gap=gap)
        if kind in ("commit", "freeze"):
            places += [None] * 4
    return kinds, places


@pytest.mark.by_day(6)
@pytest.mark.covering(2)
@pytest.mark.parametrize("config", [*CONFIGS, *FAST], ids=lambda config: config.name)
@pytest.mark.parametrize("gap", [0.0, 0.5])
@pytest.mark.parametrize("beats", [1, 2, 3])
def test_slots(config, gap, beats):
    """Updates, pending and committed corrections, and the batch's model, at full speed."""
    check_slots(config, gap, beats)


@pytest.mark.by_day(5)
@pytest.mark.covering(2)
@pytest.mark.parametrize("config", EVERY_CYCLE, ids=lambda config: config.name)
@pytest.mark.parametrize("gap", [0.0, 0.2, 0.5])
@pytest.mark.parametrize("beats", [1, 2, 3, 4, 5])
def test_slots_in_every_cycle(config, gap, beats):
    """Likewise with the same words in every cycle, and at all distances from it on."""
    check_slots(config, gap, beats)


def check_slots(config, gap, beats):
    rng = random.Random(f"{config.name}-{gap}-{beats}")
    level = config.rows.level_limit
    start = [signed_numbers(rng, 24, config.rows.lanes) for _ in range(beats)]
    reference = Reference(start, 12345, level)
    cycles, expected, corrections = [], {}, {}
    flags, update = {}, 0
    kinds, places = kinds_and_places(config, rng, gap, beats)
    for place in places:
        now = len(cycles)
        cycle = {"slot": {"valid": 0, "index": rng.randrange(beats)},
                 "levels": [rng.randint(-level, level) for _ in range(config.rows.lanes)],
                 "update": signed_number(rng, 20),
                 "correction": signed_numbers(rng, 24, config.rows.lanes)}
        if place is not None:
            _, beat, first, last = place
            if first:
                kind = kinds.pop(0)
                correct = config.corrections and kind in ("correct", "commit")
                flags = {"correct": correct, "commit": correct and kind == "commit",
                         "freeze": config.minibatch and kind == "freeze",
                         "frozen": config.minibatch and kind == "frozen"}
                update = cycle["update"]
            cycle["update"] = update        # one c for all beats of a row
            cycle["slot"] = {"valid": 1, "index": beat, "first": first, "last": last, **flags}
            expected[now] = cycle
        corrections[now] = cycle["correction"]
        cycles.append(cycle)
    # The correction of a slot comes after it.
    for now in expected:
        words, intercept, sampled = reference.step(
            cycles[now]["slot"], cycles[now]["levels"], cycles[now]["update"],
            corrections.get(now + words_latency(config) - 2, [0] * config.rows.lanes))
        expected[now] = words, intercept, sampled
    cycles += [{"slot": {"valid": 0}, "correction": [0] * config.rows.lanes}] * 3
    cycles = in_time(config, cycles)

    dut = once(ModelStore, config=config)
    recorded = []

    async def testbench(ctx):
        put(ctx, dut.intercept_level, level)
        await write_model(ctx, dut.words, config, start, 12345)
        for cycle in [*cycles, *[{"slot": {"valid": 0}}] * 8]:
            put_all_of(ctx, dut, cycle)
            recorded.append({"words": [ctx.get(word) for word in dut.slot_words],
                             "intercept": ctx.get(dut.intercept),
                             "sampled": [ctx.get(dut.sampled[i]) for i in range(config.rows.lanes)],
                             "overflowed": ctx.get(dut.overflowed)})
            await ctx.tick()
        assert await read_model(ctx, dut.words, config, beats) \
            == (reference.model, reference.intercept)

    simulate(dut, testbench)
    for now, (words, intercept, sampled) in expected.items():
        outputs = recorded[now + words_latency(config)]
        assert outputs["words"] == words, now
        if cycles[now]["slot"]["first"]:
            assert outputs["intercept"] == intercept, now
        assert recorded[now + words_latency(config) - 1]["sampled"] == sampled, now
    assert not any(outputs["overflowed"] for outputs in recorded)


def overflows(config, *, word, update=0, level=1, correction=0, slot=None, intercept=0,
              intercept_level=0):
    """Whether one slot that does this to one lane raises the flag, and the words it gives."""
    dut, lanes = once(ModelStore, config=config), config.rows.lanes
    flags, words = [], []
    lane = lanes - 1

    async def testbench(ctx):
        put(ctx, dut.intercept_level, intercept_level)
        await write_model(ctx, dut.words, config, [[0] * lane + [word]], intercept)
        put_all_of(ctx, dut, {
            "slot": {"valid": 1, "first": 1, "last": 1, **(slot or {})}, "update": update,
            "levels": [0] * lane + [level], "correction": [0] * lane + [correction]})
        await ctx.tick()
        put(ctx, dut.slot, {"valid": 0})
        for _ in range(FLAG_LATENCY):
            flags.append(ctx.get(dut.overflowed))
            words.append(ctx.get(dut.slot_words[lane]))
            await ctx.tick()

    simulate(dut, testbench)
    assert sum(flags) <= 1
    return any(flags), words[words_latency(config) - 1]


@each("word, update, level", [
    (0, -HIGH, 1), (0, -HIGH - 1, 1), (0, LOW, -1), (0, HIGH, -1), (HIGH, 1, 1), (HIGH, -1, 1),
    (LOW, 0, 1), (LOW, 1, 1), (HIGH, LOW, 127), (LOW, HIGH, 127), (-1, HIGH, 1), (-2, HIGH, 1),
    (HIGH, 0, 0), (1 << 30, 1 << 24, -64), ((1 << 30) - 1, 1 << 24, -64)])
@pytest.mark.covering(1)
@pytest.mark.parametrize("lanes", [8, 64])
@pytest.mark.parametrize("update_interval", [2, 4])
def test_range_of_a_word(word, update, level, lanes, update_interval):
    if lanes == 64:
        level = max(-1, min(1, level))
    config = PipelineConfig(bits=64 // lanes, max_features=lanes,
                            update_interval=update_interval)
    result = word - update * level
    assert overflows(config, word=word, update=update, level=level)[0] is not fits(result, 32)


@each("word, correction", [
    (HIGH, 0), (HIGH, 1), (HIGH - 5, 5), (LOW, -1), (LOW, 0), (LOW + 7, -7), (HIGH, HIGH),
    (LOW, LOW)])
@pytest.mark.parametrize("config", [CONFIGS[0], FAST[0]], ids=lambda config: config.name)
def test_range_of_a_committed_correction(config, word, correction):
    """Until it is committed a sum may leave the range: the dot product takes 33 bits."""
    committed = {"correct": 1, "commit": 1}
    flag, seen = overflows(config, word=word, correction=correction, slot=committed)
    assert flag is not fits(word + correction, 32)
    assert overflows(config, word=word, correction=correction, slot={"correct": 1}) \
        == (False, word + correction)
    assert overflows(config, word=word, correction=correction) == (False, word)
    assert seen == word + correction


@each("intercept, update, level", [
    (HIGH, -1, 1), (HIGH, 0, 1), (LOW, 1, 1), (LOW, 0, 127), (0, -HIGH, 1), (0, LOW, 1),
    (HIGH, HIGH, 2), (0, HIGH, 0), (HIGH, -HIGH, 0)])
def test_range_of_the_intercept(intercept, update, level):
    flag, _ = overflows(CONFIGS[0], word=0, update=update, level=0, intercept=intercept,
                        intercept_level=level)
    assert flag is not fits(intercept - update * level, 32)


@pytest.mark.parametrize("config", [*CONFIGS[:2], replace(CONFIGS[0], update_interval=4)],
                         ids=lambda config: config.name)
def test_access(config):
    rng = random.Random(config.name)
    model = [signed_numbers(rng, 32, config.rows.lanes) for _ in range(config.rows.max_beats)]
    dut = once(ModelStore, config=config)

    async def testbench(ctx):
        await write_model(ctx, dut.words, config, model, LOW)
        assert await read_model(ctx, dut.words, config, config.rows.max_beats) == (model, LOW)
        put_all_of(ctx, dut.words, {"index": 1, "clear": 1, "write_data": 0})
        await ctx.tick()
        put(ctx, dut.words.clear, 0)
        await ticks(ctx, 2)
        cleared = [words if index != 1 else [0] * config.rows.lanes
                   for index, words in enumerate(model)]
        assert await read_model(ctx, dut.words, config, config.rows.max_beats) == (cleared, 0)

    simulate(dut, testbench)


def test_nothing_changes_without_a_slot():
    config = CONFIGS[0]
    rng = random.Random(0)
    cycles = [{"levels": [127] * 8, "update": signed_number(rng, 32),
               "slot": {"valid": 0, "first": 1, "last": 1, "commit": 1, "correct": 1}}
              for _ in range(20)]
    dut, recorded = once(ModelStore, config=config), []

    async def testbench(ctx):
        put(ctx, dut.intercept_level, 127)
        await ticks(ctx, 2)
        for cycle in [*cycles, *[{}] * 40]:
            put_all_of(ctx, dut, cycle)
            recorded.append((ctx.get(dut.words.read_data), ctx.get(dut.overflowed)))
            await ctx.tick()

    simulate(dut, testbench)
    assert set(recorded) == {(0, 0)}


def test_words_without_a_lane_stay_0():
    """Whatever passes at ``write_data`` while rows go through: a model in memory holds them."""
    config = CONFIGS[1]
    dut = once(ModelStore, config=config)

    async def testbench(ctx):
        await write_model(ctx, dut.words, config, [[5] * config.rows.lanes] * 3, 0)
        put(ctx, dut.words.write_data, (1 << 64) - 1)
        for index in range(3):
            put(ctx, dut.slot, {"valid": 1, "index": index})
            await ctx.tick()
        put(ctx, dut.slot, {"valid": 0})
        await ticks(ctx, 6)
        put(ctx, dut.words.shown, config.rows.model_lanes // 2 - 1)
        for index in range(3):
            put(ctx, dut.words.index, index)
            await ctx.tick()
            assert halves(ctx.get(dut.words.read_data)) == [5, 0]

    simulate(dut, testbench)
