# amaranth: UnusedElaboratable=no

import itertools
import random

import numpy as np
import pytest
from amaranth import Module, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from support import signed_number, trace

from bitstep.golden.float32 import align
from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.parts.formats import FLOAT_GUARD
from bitstep.pipeline.parts.widths import MODEL_WIDTH, UPDATE_WIDTH
from bitstep_hw.parts.lane_product import (
    integer_product,
    level_product,
    level_product_stages,
    minus_product,
    value_stages,
)
from bitstep_sim.testing.random_jobs import random_floats

FLOAT = PipelineConfig(bits=32, row_format="float32")
LEVELS = [PipelineConfig(bits=bits, row_format=row_format, update_interval=update_interval)
          for bits, row_format in ((1, "one_level"), (2, "one_level"), (2, "two_levels"),
                                   (4, "one_level"),
                                   (8, "one_level"), (16, "bit_planes"))
          for update_interval in (2, 4)]
TERNARY = [config for config in LEVELS if config.rows.ternary_levels]
EXPONENTS = [*range(0, 3), *range(60, 68), *range(90, 128)]


class Product(wiring.Component):
    """A product by itself; of two levels if ``fraction`` is None."""

    def __init__(self, config, width, fraction=None):
        self.config, self.fraction = config, fraction
        shape = signed(config.rows.level_width)
        width = config.rows.level_width if fraction is None else width
        super().__init__({"level": In(shape), "value": In(signed(width)), "valid": In(1),
                          "o": Out(signed(80))})

    def elaborate(self, platform):
        m = Module()
        product = level_product(m, self.config, self.level, self.value, valid=self.valid,
                                name="product") if self.fraction is None else \
            sum(integer_product(m, self.config, self.level, self.value, fraction=self.fraction,
                                valid=self.valid, name="product"))
        m.d.comb += self.o.eq(product)
        return m


def stages(config, fraction):
    """Clock edges until a product is there."""
    return level_product_stages(config) if fraction is None else config.stages.dot.term


def found(config, pairs, *, width=0, fraction=None):
    """Products of pairs, one a cycle, with a cycle without one after every third."""
    cycles, places, rng = [], [], random.Random(0)
    for number, (level, value) in enumerate(pairs):
        places.append(len(cycles))
        cycles.append({"level": int(level), "value": int(value), "valid": 1})
        if number % 3 == 2:
            cycles.append({"level": rng.getrandbits(config.rows.level_width - 1), "valid": 0})
    recorded = trace(Product(config, width, fraction), cycles, ["o"])
    return [recorded[place + stages(config, fraction)]["o"] for place in places]


def parts(word):
    """Signed mantissa and exponent field of a float32 as a 32-bit number; 0 for subnormal."""
    exponent = word >> 23 & 0xFF
    mantissa = (word & 0x7F_FFFF | 0x80_0000) * (exponent > 0)
    return -mantissa if word >> 31 else mantissa, exponent


def floats(rng, count):
    """Corners of each exponent, with both signs, then random ones; as unsigned numbers."""
    corners = [exponent << 23 | mantissa | sign << 31
               for exponent in EXPONENTS for mantissa in (0, 1, 0x40_0000, 0x7F_FFFF)
               for sign in (0, 1) if exponent < 127 or not mantissa]
    random_ones = random_floats((count,), np.random.default_rng(rng.getrandbits(32)))
    return corners, random_ones.view(np.uint32).tolist()


def signed32(word):
    return word - (word >> 31 << 32)


def aligned(products, shifts):
    return align(np.array(products, np.int64), np.array(shifts, np.int64)).tolist()


@pytest.mark.parametrize("width, fraction", [(MODEL_WIDTH + 1, FLOAT_GUARD), (UPDATE_WIDTH, 0)])
def test_float_times_integer(width, fraction):
    """Words with fraction bits of a sum, updates without."""
    rng = random.Random(fraction)
    corners, others = floats(rng, 500)
    top = 1 << width - 1
    # Small odd numbers make ties with powers of two.
    values = [0, 1, -1, 2, 3, -3, 5, -5, top - 1, -top, 1 << 20, -(1 << 20) - 1]
    pairs = [*itertools.product(corners, values),
             *((word, signed_number(rng, width)) for word in others)]
    expected = aligned([parts(word)[0] * value for word, value in pairs],
                       [150 - fraction - parts(word)[1] for word, _ in pairs])
    assert any(expected)
    assert found(FLOAT, [(signed32(word), value) for word, value in pairs],
                 width=width, fraction=fraction) == expected


def test_product_of_two_floats():
    rng = random.Random(0)
    corners, others = floats(rng, 400)
    pairs = [*((a, rng.choice(corners)) for a in corners for _ in range(5)),
             *itertools.product(corners[-40:], corners[-40:]),
             *itertools.pairwise(others)]
    expected = aligned([parts(a)[0] * parts(b)[0] for a, b in pairs],
                       [300 - FLOAT_GUARD - parts(a)[1] - parts(b)[1] for a, b in pairs])
    assert {1 << FLOAT_GUARD, -1 << FLOAT_GUARD, 0} <= set(expected)
    assert found(FLOAT, [(signed32(a), signed32(b)) for a, b in pairs]) == expected


def test_rounding_by_hand():
    """1/2 of 1 is a tie and goes up, of -1 too; 2^-22 is the last fraction bit of a sum."""
    half, quarter, last, tie = (signed32(int(np.float32(value).view(np.uint32)))
                                for value in (0.5, 0.25, 2.0**-22, 2.0**-23))
    pairs = [(half, 1), (half, -1), (half, 3), (half, -3), (quarter, 1), (quarter, 2), (-half, 0)]
    assert found(FLOAT, pairs, width=UPDATE_WIDTH, fraction=0) == [1, 0, 2, -1, 0, 1, 0]
    assert found(FLOAT, [(last, 1), (last, -1), (tie, 1), (tie, -1), (tie, 3), (tie, -3)],
                 width=MODEL_WIDTH + 1, fraction=FLOAT_GUARD) == [1, -1, 1, 0, 2, -1]


def test_registers_move_with_valid_alone():
    for fraction in (None, 0):
        dut = Product(FLOAT, UPDATE_WIDTH, fraction)
        one = signed32(0x3F80_0000)
        cycles = [{"level": one, "value": one, "valid": 1}, {"valid": 0},
                  *[{"level": 5, "value": 9}] * 5]
        recorded = trace(dut, cycles, ["o"])
        assert len({outputs["o"] for outputs in recorded[2:]}) == 1
        assert recorded[2]["o"] != 0


@pytest.mark.parametrize("config", LEVELS, ids=lambda config: config.name)
def test_levels(config):
    limit = min(config.rows.level_limit, (1 << config.rows.level_width - 1) - 1)
    rng = random.Random(config.name)
    levels = [rng.randint(-limit, limit) for _ in range(200)] + [-limit, limit, 0]
    values = [signed_number(rng, MODEL_WIDTH + 1) for _ in levels]
    pairs = list(zip(levels, values, strict=True))
    assert found(config, pairs, width=MODEL_WIDTH + 1, fraction=0) == [a * b for a, b in pairs]
    pairs = list(zip(levels, reversed(levels), strict=True))
    assert found(config, pairs) == [a * b for a, b in pairs]


class Difference(wiring.Component):
    """``a - level * value`` by itself."""

    def __init__(self, config):
        self.config = config
        super().__init__({"a": In(signed(MODEL_WIDTH)),
                          "level": In(signed(config.rows.level_width)),
                          "value": In(signed(UPDATE_WIDTH)), "valid": In(1), "o": Out(signed(80))})

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.o.eq(minus_product(m, self.config, self.a, self.level, self.value,
                                            valid=self.valid, name="product"))
        return m


def test_levels_of_minus_one_zero_and_one():
    assert [config for config in LEVELS if config.bits <= 2] == TERNARY
    assert PipelineConfig(bits=3, row_format="two_levels").rows.ternary_levels
    assert not PipelineConfig(bits=1, codebooks=True).rows.ternary_levels
    assert not FLOAT.rows.ternary_levels


@pytest.mark.parametrize("config", [*LEVELS, FLOAT], ids=lambda config: config.name)
def test_difference(config):
    """Ends of the range, then random numbers; level, value and ``a`` come one after the other."""
    rng, stages, late = random.Random(config.name), config.stages.dot.term, value_stages(config)
    ends = (-1 << MODEL_WIDTH - 1, (1 << MODEL_WIDTH - 1) - 1)
    limit = 1 if config.row_format == "float32" else min(
        config.rows.level_limit, (1 << config.rows.level_width - 1) - 1)
    cases = [(a, level, value) for a in (*ends, 0) for level in (-limit, 0, limit)
             for value in (*ends, 1, 0)]
    cases += [(signed_number(rng, MODEL_WIDTH), rng.randint(-limit, limit),
               signed_number(rng, UPDATE_WIDTH)) for _ in range(50)]
    cycles = [{"valid": 1} for _ in range(len(cases) + stages + 1)]
    floats = {-1: signed32(0xBF80_0000), 0: 0, 1: 0x3F80_0000}
    for number, (a, level, value) in enumerate(cases):
        cycles[number]["level"] = floats[level] if config.row_format == "float32" else level
        cycles[number + late]["value"] = value
        cycles[number + stages]["a"] = a
    recorded = trace(Difference(config), cycles, ["o"])
    assert [recorded[number + stages]["o"] for number in range(len(cases))] \
        == [a - level * value for a, level, value in cases]


def test_difference_keeps_the_level_of_the_last_valid_cycle():
    config = TERNARY[0]
    cycles = [{"valid": 1, "level": 1, "value": 9}, {"valid": 0, "level": -1, "value": 9, "a": 20},
              {"level": 0, "value": 4, "a": 20}]
    recorded = trace(Difference(config), cycles, ["o"])
    assert [outputs["o"] for outputs in recorded[1:3]] == [11, 16]
