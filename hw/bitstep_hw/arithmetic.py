"""Registers, sums and products that several components build from."""

from amaranth import Mux, Signal, signed


def delay(m, value, cycles, *, name):
    """``value`` as it was ``cycles`` clock edges ago; ``value`` itself for 0 cycles."""
    for stage in range(cycles):
        register = Signal(value.shape(), name=f"{name}_{stage + 1}", reset_less=True)
        m.d.sync += register.eq(value)
        value = register
    return value


def adder_tree(m, terms, *, stages, valid, name):
    """Sum of ``terms``, with a register after every second level, ``stages`` in all.

    The registers only move where ``valid``, the flag of the terms, goes along with them: that
    spares power, and simulation time.
    """
    for stage in range(stages):
        for _level in range(2):
            pairs = [a + b for a, b in zip(terms[::2], terms[1::2], strict=False)]
            terms = pairs + terms[2 * len(pairs):]
        registers = []
        for index, term in enumerate(terms):
            registers.append(Signal(term.shape(), name=f"{name}_{stage}_{index}", reset_less=True))
        with m.If(valid):
            m.d.sync += [register.eq(term) for register, term in zip(registers, terms, strict=True)]
        terms = registers
        valid = delay(m, valid, 1, name=f"{name}_valid_{stage}")
    assert len(terms) == 1, "the caller gave too few stages for its terms"
    return terms[0]


def scale(level, value):
    """``level * value``, without a multiplier if the level is -1, 0 or 1."""
    if len(level) > 2:
        return level * value
    return Mux(level[0], Mux(level[1], -value, value), 0)


def multiply(m, a, b, *, stages, valid, name, width, addend=0):
    """Register of ``width`` bits with ``a * b + addend``, ``stages`` (1 or 2) clock edges later.

    With two stages the wider operand is cut in two, so that each product is about as narrow as a
    multiplier block, and the parts are added in the second stage. ``addend`` must not change while
    a product is on its way. As in :func:`adder_tree`, registers move with ``valid`` alone.
    """
    result = Signal(signed(width), name=name, reset_less=True)
    if stages == 1:
        with m.If(valid):
            m.d.sync += result.eq(a * b + addend)
        return result
    if len(a) > len(b):
        a, b = b, a
    cut = len(b) // 2
    high = b[cut:].as_signed() if b.shape().signed else b[cut:]
    parts = []
    for index, part in enumerate((b[:cut], high)):
        product = Signal((a * part).shape(), name=f"{name}_part{index}", reset_less=True)
        with m.If(valid):
            m.d.sync += product.eq(a * part)
        parts.append(product)
    with m.If(delay(m, valid, 1, name=f"{name}_valid")):
        m.d.sync += result.eq(parts[0] + (parts[1] << cut) + addend)
    return result


def out_of_range(value, width):
    """1 if the signed ``value`` does not fit ``width`` bits."""
    top = value[width - 1:]
    return top.any() & ~top.all()
