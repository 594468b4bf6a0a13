"""Registers, sums and products of which several components consist."""

from contextlib import nullcontext

from amaranth import C, Cat, Mux, Signal, signed

# Attribute of a signal that synthesis leaves as it is, and makes one with no other.
KEPT = {"keep": 1}


def enable_of(config, valid):
    """Return the clock enable of registers whose data count only while ``valid``. None with a fast
    clock: an enable with thousands of loads would cost the clock.
    """
    return None if config.clock.fast else valid


def last_choice(m, flag, if_set, otherwise, *, name):
    """``Mux(flag, if_set, otherwise)`` of bits, where ``flag`` comes late: synthesis leaves both
    choices as they are, so the flag passes one level of logic.
    """
    choices = [Signal(name=f"{name}_{which}", attrs=KEPT) for which in ("if_set", "otherwise")]
    m.d.comb += [choices[0].eq(if_set), choices[1].eq(otherwise)]
    return Mux(flag, *choices)


def delay_enable(m, enable, cycles, *, name):
    """:func:`delay` of an enable from :func:`enable_of`."""
    return None if enable is None else delay(m, enable, cycles, name=name)


def when(m, enable):
    """``m.If(enable)``; without an enable (None) in every cycle."""
    return nullcontext() if enable is None else m.If(enable)


def each(targets, sources):
    """Statements that connect one array with another."""
    return [target.eq(source) for target, source in zip(targets, sources, strict=True)]


def same(target, source, *names):
    """Statements that connect members of two interfaces that have the same names."""
    return [getattr(target, name).eq(getattr(source, name)) for name in names]


def delay_ports(m, part, cycles, *names):
    """:func:`delay` of some ports of a part, in this order."""
    return [delay(m, getattr(part, name), cycles, name=name) for name in names]


def delay(m, value, cycles, *, name):
    """``value`` as it was ``cycles`` clock edges ago; ``value`` itself for 0 cycles."""
    assert cycles >= 0, f"{name} comes {-cycles} cycles too late"
    for stage in range(cycles):
        register = Signal(value.shape(), name=f"{name}_{stage + 1}", reset_less=True)
        m.d.sync += register.eq(value)
        value = register
    return value


def copies(m, value, cycles, number, *, name):
    """``value`` as it was ``cycles`` clock edges ago, ``number`` times: one register that drives
    everything is far from most of it.
    """
    if not cycles:
        return [value] * number
    value = delay(m, value, cycles - 1, name=name)
    registers = [Signal(value.shape(), name=f"{name}_{copy}", reset_less=True, attrs=KEPT)
                 for copy in range(number)]
    m.d.sync += [register.eq(value) for register in registers]
    return registers


def adder_tree(m, terms, *, stages, valid, name, signs=None, far=False):
    """Sum of ``terms``, with a register after every second level, ``stages`` in all; if they come
    from ``far``, after the first level if the others can do without it.

    The registers only move where ``valid``, the flag of the terms, goes along with them: that
    spares power, and simulation time. It may be None (:func:`enable_of`).

    With ``signs``, a bit for each term that comes a cycle before it, a term whose bit is 1 is
    subtracted. If the first bit is 1, the result is the negative of the sum. No term is negated,
    which would cost it a carry chain: an adder subtracts where the first terms of its two sides
    have different signs, and finds that in a register.
    """
    level, short = 0, far and len(terms) <= 1 << 2 * stages - 1
    for stage in range(stages):
        for _ in range(1 if short and not stage else 2):
            pairs = []
            for place, (a, b) in enumerate(zip(terms[::2], terms[1::2], strict=False)):
                first = 2 * place << level
                negative = None if signs is None else delay(
                    m, signs[first] ^ signs[first + (1 << level)], stage + 1,
                    name=f"{name}_sign_{level}_{place}")
                pairs.append(add_signed(a, b, negative))
            terms, level = pairs + terms[2 * len(pairs):], level + 1
        registers = []
        for index, term in enumerate(terms):
            registers.append(Signal(term.shape(), name=f"{name}_{stage}_{index}", reset_less=True))
        with when(m, valid):
            m.d.sync += each(registers, terms)
        terms = registers
        valid = delay_enable(m, valid, 1, name=f"{name}_valid_{stage}")
    assert len(terms) == 1, "the caller gave too few stages for its terms"
    return terms[0]


def add_signed(a, b, negative):
    """``a - b`` if ``negative`` is 1, else ``a + b``, in a single carry chain; for None ``a + b``.
    """
    if negative is None:
        return a + b
    width = max(len(a), len(b)) + 1
    flipped = extend(b, width) ^ negative.replicate(width)
    # The bit below carries the 1 that a negative number has more than its complement.
    return (Cat(C(1, 1), extend(a, width)) + Cat(negative, flipped))[1:width + 1].as_signed()


def scale(level, value):
    """``level * value``, without a multiplier if the level is -1, 0 or 1."""
    if len(level) > 2:
        return level * value
    return Mux(level[0], Mux(level[1], -value, value), 0)


def multiply(m, a, b, *, stages, valid, name, width, addend=0):
    """Register of ``width`` bits with ``a * b + addend``, ``stages`` (1 to 3) clock edges later.

    With two stages the operands are cut into pieces that fit a multiplier block of 18 x 18 bits,
    and the products of the pieces are added in the second stage; with three, in two stages, of
    which only the last has a carry. ``addend`` counts in the last stage. As in
    :func:`adder_tree`, sums move with ``valid`` alone.
    """
    result = Signal(signed(width), name=name, reset_less=True)
    if stages == 1:
        with when(m, valid):
            m.d.sync += result.eq(a * b + addend)
        return result
    terms = partial_products(m, a, b, name=name) if stages == 2 else \
        multiply_carry_save(m, a, b, valid=valid, name=f"{name}_partial", width=width)
    with when(m, delay_enable(m, valid, stages - 1, name=f"{name}_valid")):
        m.d.sync += result.eq(sum(terms) + addend)
    return result


def multiply_carry_save(m, a, b, *, valid, name, width, addend=0):
    """Two registers of ``width`` bits, 2 clock edges later, whose sum modulo 2^width is
    ``a * b + addend``: :func:`multiply` with two stages, but for the carry of its last sum.
    """
    terms = partial_products(m, a, b, name=name)
    if addend:
        terms.insert(0, C(addend, width))
    return compress_registered(m, terms, width, name=name,
                               valid=delay_enable(m, valid, 1, name=f"{name}_valid"))


def compress_registered(m, terms, width, *, valid, name):
    """:func:`compress`, registered."""
    parts = [Signal(width, name=f"{name}_{part}", reset_less=True) for part in ("sum", "carry")]
    with when(m, valid):
        m.d.sync += [part.eq(term)
                     for part, term in zip(parts, compress(terms, width, m=m), strict=True)]
    return parts


def compress(terms, width, *, m=None):
    """Two numbers of ``width`` bits whose sum is that of ``terms`` modulo 2^width, without a carry
    chain: carry-save addition. With a module ``m`` each step has signals of its own, or the
    expressions of many terms repeat each other.
    """
    terms = [extend(term, width) for term in (*terms, *[C(0)] * (2 - len(terms)))]
    while len(terms) > 2:
        a, b, c, *others = terms
        # The newest terms last, so that the tree is as flat as it can be.
        parts = [a ^ b ^ c, (((a & b) | (a & c) | (b & c)) << 1)[:width]]
        if m is not None:
            steps = [Signal(width, name="compressed") for _ in parts]
            m.d.comb += [step.eq(part) for step, part in zip(steps, parts, strict=True)]
            parts = steps
        terms = [*others, *parts]
    return terms


def compressed_sum(terms, width):
    """The sum of ``terms`` modulo 2^width, with a single carry chain."""
    a, b = compress(terms, width)
    return a + b


def extend(value, width):
    """``value`` with ``width`` bits, its sign repeated or cut off, as an unsigned number."""
    sign = value[-1:] if value.shape().signed else C(0, 1)
    return Cat(value, sign.replicate(max(width - len(value), 0)))[:width]


def partial_products(m, a, b, *, name):
    """Numbers whose sum is ``a * b``, a clock edge later: registers with the products of the
    operands' pieces, each at its place. They move in every cycle: multipliers have registers of
    their own, whose enables are a trouble to route.
    """
    terms = []
    for a_place, a_piece in _pieces(a):
        for b_place, b_piece in _pieces(b):
            product = Signal((a_piece * b_piece).shape(), name=f"{name}_{a_place}_{b_place}",
                             reset_less=True)
            m.d.sync += product.eq(a_piece * b_piece)
            terms.append(product << a_place + b_place)
    return terms


def _pieces(value):
    """Pieces of ``value`` with their places: 17 bits each, and what is left, with its sign."""
    width, signed_value = len(value), value.shape().signed
    place = 0
    while width - place > 17 + signed_value:
        yield place, value[place:place + 17]
        place += 17
    yield place, value[place:].as_signed() if signed_value else value[place:]


def out_of_range(value, width):
    """1 if the signed ``value`` does not fit ``width`` bits."""
    top = value[width - 1:]
    return top.any() & ~top.all()
