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
    """Register of ``width`` bits with ``a * b + addend``, ``stages`` (1 to 3) clock edges later.

    With two stages the operands are cut into pieces that fit a multiplier block of 18 x 18 bits,
    and the products of the pieces are added in the second stage; with three, in two stages.
    ``addend`` must not change while a product is on its way. As in :func:`adder_tree`, registers
    move with ``valid`` alone.
    """
    result = Signal(signed(width), name=name, reset_less=True)
    if stages == 1:
        with m.If(valid):
            m.d.sync += result.eq(a * b + addend)
        return result
    total = addend
    for a_place, a_piece in _pieces(a):
        partial = 0
        for b_place, b_piece in _pieces(b):
            product = Signal((a_piece * b_piece).shape(), name=f"{name}_{a_place}_{b_place}",
                             reset_less=True)
            with m.If(valid):
                m.d.sync += product.eq(a_piece * b_piece)
            partial = partial + (product << b_place)
        if stages == 3:
            row = Signal(partial.shape(), name=f"{name}_{a_place}", reset_less=True)
            with m.If(delay(m, valid, 1, name=f"{name}_{a_place}_valid")):
                m.d.sync += row.eq(partial)
            partial = row
        total = total + (partial << a_place)
    with m.If(delay(m, valid, stages - 1, name=f"{name}_valid")):
        m.d.sync += result.eq(total)
    return result


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
