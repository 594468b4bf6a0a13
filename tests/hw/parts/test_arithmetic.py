# amaranth: UnusedElaboratable=no

import random

import pytest
from amaranth import Const, Module, Signal, signed, unsigned
from support import Clocked, put, ticks

from bitstep_hw.parts.arithmetic import (
    add_signed,
    adder_tree,
    compress,
    delay,
    extend,
    multiply,
    multiply_carry_save,
    out_of_range,
    scale,
)
from bitstep_sim.testing.cases import each
from bitstep_sim.testing.harness import simulate


def run(make, check):
    """Build a module whose result ``make(m)`` returns, then run ``check(ctx, result)``."""
    m = Module()
    result = make(m)

    async def testbench(ctx):
        await check(ctx, result)

    simulate(Clocked(m), testbench)


@each("cycles", [0, 1, 5])
def test_delay(cycles):
    value = Signal(8)
    values = [random.Random(0).randrange(256) for _ in range(20)]

    async def check(ctx, result):
        for number, new in enumerate(values):
            put(ctx, value, new)
            if number >= cycles:
                assert ctx.get(result) == values[number - cycles]
            await ctx.tick()

    run(lambda m: delay(m, value, cycles, name="value"), check)


async def check_sum(ctx, inputs, values, valid, stages, result, expected):
    """The tree's result is there in time and stays, as what is not valid changes nothing."""
    for signal, value in zip(inputs, values, strict=True):
        put(ctx, signal, value)
    put(ctx, valid, 1)
    await ctx.tick()
    put(ctx, valid, 0)
    for signal in inputs:
        put(ctx, signal, 7)
    await ticks(ctx, stages - 1)
    for _ in range(stages + 1):
        assert ctx.get(result) == expected
        await ctx.tick()


@pytest.mark.parametrize(("terms", "stages"), [(1, 1), (2, 1), (4, 1), (5, 2), (12, 2), (16, 2),
                                               (21, 3), (64, 3)])
@each("far", [False, True])
def test_adder_tree(terms, stages, far):
    inputs, valid = [Signal(signed(6)) for _ in range(terms)], Signal()
    rng = random.Random(terms)

    async def check(ctx, result):
        for values in ([-32] * terms, [31] * terms,
                       *([rng.randrange(-32, 32) for _ in inputs] for _ in range(10))):
            await check_sum(ctx, inputs, values, valid, stages, result, sum(values))

    run(lambda m: adder_tree(m, inputs, stages=stages, valid=valid, name="tree", far=far), check)


@pytest.mark.parametrize(("terms", "stages"), [(1, 1), (2, 1), (3, 1), (4, 1), (5, 2), (64, 4)])
@each("far", [False, True])
def test_adder_tree_with_signs(terms, stages, far):
    """The ends of the range with every pattern of signs among four, then random numbers."""
    inputs, signs = [Signal(signed(6)) for _ in range(terms)], Signal(terms)
    valid, rng = Signal(), random.Random(terms)
    patterns = [sum(1 << lane for lane in range(terms) if pattern >> lane % 4 & 1)
                for pattern in range(16)]
    cases = [(values, pattern) for pattern in patterns
             for values in ([-32] * terms, [31] * terms,
                            [(-32, 31)[pattern >> lane & 1] for lane in range(terms)],
                            [rng.randrange(-32, 32) for _ in inputs])]

    async def check(ctx, result):
        for values, negative in cases:
            put(ctx, signs, negative)
            await ctx.tick()
            put(ctx, signs, rng.getrandbits(terms))
            total = sum(-value if negative >> lane & 1 else value
                        for lane, value in enumerate(values))
            await check_sum(ctx, inputs, values, valid, stages, result,
                            -total if negative & 1 else total)

    run(lambda m: adder_tree(m, inputs, signs=list(signs), stages=stages, valid=valid,
                             name="tree", far=far), check)


@each("a_width, b_width", [(1, 1), (3, 5), (5, 3), (32, 33)])
def test_add_signed(a_width, b_width):
    a, b, negative = Signal(signed(a_width)), Signal(signed(b_width)), Signal()
    rng = random.Random(a_width)
    ends = [[-1 << width - 1, (1 << width - 1) - 1, 0, -1] for width in (a_width, b_width)]
    pairs = [(x, y) for x in ends[0] for y in ends[1]]
    pairs += [tuple(rng.randrange(-1 << width - 1, 1 << width - 1)
                    for width in (a_width, b_width)) for _ in range(50)]

    async def check(ctx, results):
        chosen, always = results
        for x, y in pairs:
            put(ctx, a, x)
            put(ctx, b, y)
            for sign in (0, 1):
                put(ctx, negative, sign)
                assert ctx.get(chosen) == (x - y if sign else x + y)
            assert ctx.get(always) == x + y

    run(lambda m: (add_signed(a, b, negative), add_signed(a, b, None)), check)


def test_adder_tree_with_too_few_stages():
    with pytest.raises(AssertionError, match="too few stages"):
        adder_tree(Module(), [Signal()] * 5, stages=1, valid=Signal(), name="tree")


@pytest.mark.parametrize("width", [2, 3, 8])
def test_scale(width):
    """Levels of 2 bits need no multiplier; -2 is none of them."""
    level, value = Signal(signed(width)), Signal(signed(33))
    low = -1 if width == 2 else -1 << width - 1

    async def check(ctx, result):
        for factor in range(low, 1 << width - 1):
            for number in (0, 1, -1, (1 << 32) - 1, -1 << 32, 123456789):
                put(ctx, level, factor)
                put(ctx, value, number)
                assert ctx.get(result) == factor * number

    def make(m):
        result = Signal(signed(50))
        m.d.comb += result.eq(scale(level, value))
        return result

    run(make, check)


def numbers(shape, rng):
    """Corner values of a shape, then random ones."""
    low = -1 << shape.width - 1 if shape.signed else 0
    high = low + (1 << shape.width) - 1
    return [low, high, 0, 1, *(rng.randint(low, high) for _ in range(20))]


def check_products(make, a_shape, b_shape, *, stages, expected):
    """Whether ``make(m, a, b)`` is ``expected(x, y)`` for a pair of factors a cycle."""
    a, b = Signal(a_shape), Signal(b_shape)
    rng = random.Random(f"{stages}-{a_shape}-{b_shape}")
    pairs = [*zip(numbers(a_shape, rng), numbers(b_shape, rng), strict=True),
             *((x, y) for x in numbers(a_shape, rng)[:4] for y in numbers(b_shape, rng)[:4])]

    async def check(ctx, result):
        for number, (x, y) in enumerate([*pairs, *[(0, 0)] * stages]):
            put(ctx, a, x)
            put(ctx, b, y)
            if number >= stages:
                assert ctx.get(result) == expected(*pairs[number - stages])
            await ctx.tick()

    run(lambda m: make(m, a, b), check)


FACTORS = pytest.mark.parametrize(("a_shape", "b_shape"), [
    (signed(18), unsigned(18)), (signed(44), unsigned(18)), (signed(9), signed(33)),
    (signed(33), signed(9)), (unsigned(5), unsigned(4)), (signed(32), signed(45))], ids=repr)


@pytest.mark.parametrize("stages", [1, 2, 3])
@FACTORS
def test_multiply(stages, a_shape, b_shape):
    def make(m, a, b):
        return multiply(m, a, b, stages=stages, valid=Const(1), name="product", width=80,
                        addend=Signal(8, init=77))

    check_products(make, a_shape, b_shape, stages=stages, expected=lambda x, y: x * y + 77)


@pytest.mark.parametrize("addend", [0, 2])
@FACTORS
def test_multiply_carry_save(addend, a_shape, b_shape):
    def make(m, a, b):
        parts = multiply_carry_save(m, a, b, valid=Const(1), name="product", width=50,
                                    addend=addend)
        total = Signal(50)
        m.d.comb += total.eq(sum(parts))
        return total

    check_products(make, a_shape, b_shape, stages=2,
                   expected=lambda x, y: (x * y + addend) % 2**50)


def test_multiply_carry_save_moves_with_valid_alone():
    a, valid = Signal(8, init=5), Signal(init=1)

    async def check(ctx, result):
        await ctx.tick()
        put(ctx, valid, 0)
        put(ctx, a, 9)
        for _ in range(4):
            await ctx.tick()
            assert ctx.get(result) == 25

    def make(m):
        parts = multiply_carry_save(m, a, Const(5, 8), valid=valid, name="product", width=16)
        total = Signal(16)
        m.d.comb += total.eq(sum(parts))
        return total

    run(make, check)


@each("terms", [0, 1, 2, 3, 4, 7])
def test_compress(terms):
    inputs = [Signal(9) for _ in range(terms)]
    rng = random.Random(terms)

    async def check(ctx, result):
        for values in ([0] * terms, [511] * terms,
                       *([rng.randrange(512) for _ in inputs] for _ in range(20))):
            for signal, value in zip(inputs, values, strict=True):
                put(ctx, signal, value)
            assert ctx.get(result) == sum(values) % 512

    def make(m):
        total = Signal(9)
        m.d.comb += total.eq(sum(compress(inputs, 9)))
        return total

    run(make, check)


@pytest.mark.parametrize(("shape", "width", "value", "expected"), [
    (signed(4), 8, -3, 253), (signed(4), 8, 3, 3), (unsigned(4), 8, 13, 13),
    (signed(4), 2, -3, 1), (signed(4), 4, -8, 8)])
def test_extend(shape, width, value, expected):
    source = Signal(shape, init=value)

    async def check(ctx, result):
        assert ctx.get(result) == expected

    def make(m):
        result = Signal(width)
        m.d.comb += result.eq(extend(source, width))
        return result

    run(make, check)


def test_out_of_range():
    value = Signal(signed(40))

    async def check(ctx, result):
        for number, expected in [(0, 0), (-1, 0), (2**31 - 1, 0), (2**31, 1), (-2**31, 0),
                                 (-2**31 - 1, 1), (2**39 - 1, 1), (-2**39, 1), (2**32, 1)]:
            put(ctx, value, number)
            assert ctx.get(result) == expected

    def make(m):
        result = Signal()
        m.d.comb += result.eq(out_of_range(value, 32))
        return result

    run(make, check)
