"""Ports that every solver has."""

from amaranth import signed
from amaranth.lib.wiring import In, Out

from bitstep.golden.dither import DITHER_WIDTH
from bitstep.pipeline.config import (
    FEW_BITS,
    LABEL_WIDTH,
    MANTISSA_WIDTH,
    MAX_LABEL_SHIFT,
    MAX_SHIFT,
    UPDATE_WIDTH,
    WOVEN,
)
from bitstep_hw.pipeline.update.derivative_step import STEP_WIDTH


def solver_ports(config):
    """Return the members by which the pipeline is connected with its solver, whatever its loss.

    Members
    -------
    clear : In(1)
        Strobe: forget every c; between epochs.
    valid : In(1)
        Strobe: a row enters, ``solver_lead`` cycles before its dot product.
    idle_row : In(1)
        The row only fills a slot and has c = 0.
    products : In(signed(gram_width)).array(correlated_rows)
        Products of the row that enters with the rows before, nearest first.
    label : In(signed(32))
        Label of the row that enters.
    derivatives : In(1)
        Of woven rows: labels are derivatives at a centre; constant during a run.
    dot : In(signed(dot_width))
        Dot product of the row that entered ``solver_lead`` cycles before.
    dither : In(16)
        Random bits of the row of ``dot``.
    take : Out(1)
        Strobe, with ``dot``: ``dither`` is used.
    mantissa : In(18)
        Mantissa of the step size; constant during an epoch.
    shift : In
        Its shift, in units of 8 bits; constant during an epoch.
    label_shift : In
        Fraction bits of the dot product beyond the label's; constant during an epoch.
    derivative_step : In(47)
        K of :class:`bitstep_hw.pipeline.update.derivative_step.DerivativeStep`, with 16 fraction
        bits; constant during an epoch.
    step_too_large : In(1)
        K does not fit; constant during an epoch.
    update_bits : In
        With ``rounded_updates``: the register; constant during an epoch.
    o_valid : Out(1)
        Strobe: ``o`` is the c of a row.
    o : Out(signed(32))
        c.
    saturated : Out(1)
        Strobe: the c of a row did not fit.
    """
    return {
        "clear": In(1), "valid": In(1), "idle_row": In(1),
        "products": In(signed(config.gram_width)).array(config.correlated_rows),
        "label": In(signed(LABEL_WIDTH)),
        **({"derivatives": In(1)} if config.row_format == WOVEN else {}),
        "dot": In(signed(config.dot_width)),
        "dither": In(DITHER_WIDTH),
        "take": Out(1),
        "mantissa": In(MANTISSA_WIDTH),
        "shift": In(range(MAX_SHIFT + 1)),
        "label_shift": In(range(MAX_LABEL_SHIFT + 1)),
        "derivative_step": In(STEP_WIDTH),
        "step_too_large": In(1),
        **({"update_bits": In(range(FEW_BITS[1] + 1))} if config.rounded_updates else {}),
        "o_valid": Out(1), "o": Out(signed(UPDATE_WIDTH)),
        "saturated": Out(1),
    }
