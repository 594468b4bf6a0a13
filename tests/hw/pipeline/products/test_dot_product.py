# amaranth: UnusedElaboratable=no

import random

import pytest
from support import in_rows, signed_number, signed_numbers, trace

from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.parts.widths import MODEL_WIDTH
from bitstep_hw.pipeline.products.dot_product import DotProduct
from bitstep_sim.testing.cases import each
from bitstep_sim.testing.harness import once

CONFIGS = [
    PipelineConfig(bits=1, max_features=128),
    PipelineConfig(bits=2, row_format="two_levels", max_features=64),
    PipelineConfig(bits=2, max_features=64, bus_width=128, update_interval=4),
    PipelineConfig(bits=3, row_format="two_levels", max_features=63, update_interval=4),
    PipelineConfig(bits=4, max_features=80),
    PipelineConfig(bits=7, max_features=27),
    PipelineConfig(bits=8, row_format="two_levels", max_features=8),
    PipelineConfig(bits=1, max_features=128, update_interval=4),
    PipelineConfig(bits=3, max_features=63, update_interval=4),
    PipelineConfig(bits=8, max_features=24, update_interval=4),
    PipelineConfig(bits=1, max_features=128, lookahead=3, update_interval=1),
    PipelineConfig(bits=4, max_features=80, lookahead=3, update_interval=1),
]
FEW_BITS = [PipelineConfig(bits=8, max_features=24, model_bits=16),
            PipelineConfig(bits=3, max_features=63, model_bits=2, update_interval=4),
            PipelineConfig(bits=1, max_features=128, model_bits=2, update_interval=4),
            PipelineConfig(bits=2, max_features=64, model_bits=16)]


def check(config, rows, rng, *, gap, extreme=None, intercept_level=0, exponent=0):
    """Rows of random levels and words; ``extreme`` are one level, word and intercept for all."""
    limit, lanes = config.rows.level_limit, config.rows.lanes
    cycles, expected, total = [], [], 0
    constant = {"intercept_level": intercept_level}
    late = config.stages.dot.tree + config.stages.dot.product + 1
    if config.model_bits:
        constant["exponent"] = exponent
        late += config.stages.dot.scale
    for place in in_rows(rows, rng, gap=gap):
        levels = [rng.randint(-limit, limit) for _ in range(lanes)]
        words = signed_numbers(rng, config.stages.dot.word_width, lanes)
        intercept = signed_number(rng, MODEL_WIDTH)
        if extreme is not None:
            level, word, intercept = extreme
            levels, words = [level] * lanes, [word] * lanes
        cycle = {"valid": 0, "first": rng.getrandbits(1), "last": rng.getrandbits(1),
                 "levels": levels, "words": words, "intercept": intercept}
        if place is not None:
            _, _, first, last = place
            if first:
                total = intercept_level * intercept
            total += sum(a * b for a, b in zip(levels, words, strict=True)) << exponent
            cycle |= {"valid": 1, "first": first, "last": last}
            if last:
                expected.append((
                    len(cycles) + late, total))
        cycles.append(cycle)
    recorded = trace(once(DotProduct, config=config), cycles, ["o_valid", "o"], **constant)
    assert [(cycle, outputs["o"]) for cycle, outputs in enumerate(recorded)
            if outputs["o_valid"]] == expected
    return [total for _, total in expected]


@pytest.mark.by_day(7)
@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.name)
@each("gap", [0.0, 0.5])
@each("intercept", [False, True])
def test_sums(config, gap, intercept):
    rng = random.Random(f"{config.name}-{gap}-{intercept}")
    most = config.rows.max_beats
    rows = [1, 1, most, 1, *(rng.randint(1, most) for _ in range(15))]
    check(config, rows, rng, gap=gap, intercept_level=intercept * config.rows.level_limit)


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.name)
@each("sign", [-1, 1])
@each("word", [-1 << MODEL_WIDTH, (1 << MODEL_WIDTH) - 1])
def test_extremes_fit(config, sign, word):
    """Such as a word and its correction are."""
    limit = config.rows.level_limit
    intercept = -1 << MODEL_WIDTH - 1 if sign * word < 0 else (1 << MODEL_WIDTH - 1) - 1
    total, _ = check(config, [config.rows.max_beats] * 2, random.Random(0), gap=0.0,
                     extreme=(sign * limit, word, intercept), intercept_level=limit)
    assert total == sign * config.rows.capacity * limit * word + limit * intercept


@pytest.mark.parametrize("config", FEW_BITS, ids=lambda config: config.name)
@each("exponent", [0, 3, 16])
def test_words_of_few_bits(config, exponent):
    """Rows are summed up before their scale, and the ends of levels and words fit, too."""
    rng, limit = random.Random(f"{config.name}-{exponent}"), config.rows.level_limit
    rows = [1, config.rows.max_beats, *(rng.randint(1, config.rows.max_beats) for _ in range(9))]
    check(config, rows, rng, gap=0.3, intercept_level=limit, exponent=exponent)
    lowest = -1 << config.model_bits - 1
    for level, word in ((-limit, lowest), (limit, lowest), (limit, ~lowest)):
        total, _ = check(config, [config.rows.max_beats] * 2, rng, gap=0.0,
                         extreme=(level, word, -5),
                         intercept_level=limit, exponent=exponent)
        assert total == (config.rows.capacity * level * word << exponent) - 5 * limit
