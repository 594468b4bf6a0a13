"""Update of a derivative of 1, once an epoch."""

from amaranth import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from bitstep.golden.steps import STEP_FRACTION
from bitstep.pipeline.parts.widths import (
    MANTISSA_WIDTH,
    MAX_LABEL_SHIFT,
    MAX_SHIFT,
    SHIFT_UNIT,
    UPDATE_WIDTH,
)

STEP_WIDTH = UPDATE_WIDTH - 1 + STEP_FRACTION   # bits of K; without its fraction it is an update


class DerivativeStep(wiring.Component):
    """Calculation of K, the update of a derivative of 1, with 16 fraction bits, for hinge and
    logistic loss: round(mantissa 2^(label_shift + 16) 2^(-8 shift)), to nearest, ties up.

    No multiplier: a shift by up to 7 bits, then one by whole bytes in either direction. Results
    are valid 2 cycles after an input has changed. Stores 78 bits. Golden model:
    :func:`bitstep.golden.steps.derivative_step`.

    Members
    -------
    mantissa : In(18)
        Mantissa of the step size; constant during an epoch.
    shift : In
        Its shift, in units of 8 bits, at least 1; constant during an epoch.
    label_shift : In
        Fraction bits of the dot product beyond the label's; constant during an epoch.
    value : Out(47)
        K; meaningless if it is too large.
    too_large : Out(1)
        K does not fit 47 bits.
    """

    def __init__(self):
        super().__init__({
            "mantissa": In(MANTISSA_WIDTH),
            "shift": In(range(MAX_SHIFT + 1)),
            "label_shift": In(range(MAX_LABEL_SHIFT + 1)),
            "value": Out(STEP_WIDTH),
            "too_large": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        largest_bytes = (MAX_LABEL_SHIFT + STEP_FRACTION) // SHIFT_UNIT - 1
        fine = Signal(MANTISSA_WIDTH + SHIFT_UNIT - 1)
        coarse = Signal(range(-MAX_SHIFT, largest_bytes + 1))   # bytes to the left
        place_width = (SHIFT_UNIT - 1).bit_length()
        m.d.sync += [
            fine.eq(self.mantissa << self.label_shift[:place_width]),
            coarse.eq(self.label_shift[place_width:] + STEP_FRACTION // SHIFT_UNIT - self.shift),
        ]
        # Further to the right, K rounds to 0.
        exact = Signal(len(fine) + SHIFT_UNIT * largest_bytes)
        with m.Switch(coarse):
            for distance in range(-(len(fine) // SHIFT_UNIT), largest_bytes + 1):
                with m.Case(distance):
                    if distance < 0:
                        right = SHIFT_UNIT * -distance
                        m.d.comb += exact.eq(fine + (1 << right - 1) >> right)
                    else:
                        m.d.comb += exact.eq(fine << SHIFT_UNIT * distance)
        m.d.sync += [self.value.eq(exact), self.too_large.eq(exact[STEP_WIDTH:].any())]
        return m
