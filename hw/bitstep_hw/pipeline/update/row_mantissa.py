"""Mantissas of rows with weights."""

from amaranth import Mux, Signal

from bitstep.pipeline.parts.widths import MANTISSA_WIDTH
from bitstep.pipeline.shapes import WEIGHT_BITS
from bitstep_hw.parts.arithmetic import delay, multiply


def row_mantissa(m, weighted, key, *, mantissa, weight, place, stages, kept, name):
    """A row's own mantissa, ``stages`` cycles after its weight: ``mantissa weight / 2^16``, rounded
    by a dither of its own; that of the epoch in runs whose rows have no weights.

    Golden model: :func:`bitstep.golden.steps.row_mantissa`.

    Parameters
    ----------
    m : Module
    weighted : Value
        With the result: that there are weights.
    key : Value
        Key of the epoch.
    mantissa, kept : Value
        Mantissa of the epoch, with the weight and with the result.
    weight, place : Value
        Of the row, as in :func:`bitstep_hw.parts.run.weighted_shape`.
    stages : int
        Registers of the product, 1 or 2.
    name : function of str
        Gives a signal its name.
    """
    dither = Signal(WEIGHT_BITS, name=name("place"))
    m.d.comb += dither.eq(place + key[:WEIGHT_BITS])
    scaled = multiply(m, mantissa, weight, stages=stages, valid=None,
                      addend=delay(m, dither, stages - 1, name=name("place")),
                      name=name("weighted"), width=MANTISSA_WIDTH + WEIGHT_BITS + 1)
    return Mux(weighted, scaled[WEIGHT_BITS:], kept)
