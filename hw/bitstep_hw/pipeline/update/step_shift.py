"""The shift of a step, whole bytes: of a product with the mantissa, and of the dither beside it."""

from functools import reduce
from operator import or_

from amaranth import Mux, Signal, signed

from bitstep.golden.dither import DITHER_WIDTH
from bitstep.pipeline.parts.widths import MAX_SHIFT, SHIFT_UNIT


def shifted_by(m, exact, shift, *, decoded=False, name="shifted"):
    """``exact`` without its fraction of ``8 shift`` bits. ``decoded``: the shift, a constant, is
    decoded in front of registers, since much follows in the same cycle.
    """
    shifted = Signal(signed(len(exact) - SHIFT_UNIT), name=name)
    if decoded:
        places = [Signal(name=f"place_{number}") for number in range(1, MAX_SHIFT + 1)]
        m.d.sync += [place.eq(shift == number) for number, place in enumerate(places, 1)]
        m.d.comb += shifted.eq(reduce(or_, (
            Mux(place, (exact >> SHIFT_UNIT * number), 0)
            for number, place in enumerate(places, 1))))
        return shifted
    with m.Switch(shift):
        for number in range(1, MAX_SHIFT + 1):
            with m.Case(number):
                m.d.comb += shifted.eq(exact >> SHIFT_UNIT * number)
    return shifted


def placed_dither(m, doubled, shift, *, name):
    """Register of what is added to a product for its dither: ``doubled``, 17 bits behind the point
    at ``8 shift``.
    """
    addend = Signal(MAX_SHIFT * SHIFT_UNIT, name=name, reset_less=True)
    with m.Switch(shift):
        for number in range(1, MAX_SHIFT + 1):
            with m.Case(number):
                m.d.sync += addend.eq(doubled << SHIFT_UNIT * number >> DITHER_WIDTH + 1)
    return addend
