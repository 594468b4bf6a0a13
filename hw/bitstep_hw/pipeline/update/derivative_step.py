"""Update of the largest derivative of a loss, once an epoch."""

from functools import reduce
from operator import or_

from amaranth import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from bitstep.golden.steps import STEP_FRACTION
from bitstep.pipeline.parts.widths import (
    BOUND_WIDTH,
    MANTISSA_WIDTH,
    MAX_LABEL_SHIFT,
    MAX_SHIFT,
    SHIFT_UNIT,
    UPDATE_WIDTH,
)
from bitstep_hw.parts.arithmetic import delay, multiply

STEP_WIDTH = UPDATE_WIDTH - 1 + STEP_FRACTION   # bits of K; without its fraction it is an update


class DerivativeStep(wiring.Component):
    """Calculation of K, the update of the largest derivative, with 16 fraction bits:
    round(mantissa B 2^(label_shift + 16) 2^(-8 shift)), to nearest, ties up. B is 1 but for the
    Huber loss.

    A shift by up to 7 bits, then one by whole bytes in either direction; before them, where there
    is a B, the product with it. A result leaves every cycle, :attr:`latency` cycles after the
    inputs that belong to a model.
    Golden model: :func:`bitstep.golden.steps.derivative_step`.

    Parameters
    ----------
    bound_width : int or None
        Bits of ``bound``, 0 for none of it; None for a pipeline whose losses have no B.
    product_stages : int
        Registers of the product with B, 1 or 2.
    decoded : bool
        The shift by bytes is decoded in a cycle of its own.

    Attributes
    ----------
    latency : int
        2, with B also the registers of the product; one more if ``decoded``.

    Members
    -------
    factor : In(26)
        Where there is a B: it, the register DERIVATIVE_BOUND, or 0 for 1; constant during a run,
        and there a cycle before the rest.
    bound : Out(bound_width)
        The mantissa times B 2^label_shift, or the largest number if that has more bits.
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

    def __init__(self, *, bound_width=None, product_stages=1, decoded=False):
        self._bound_width, self._decoded = bound_width, decoded
        self._product_stages = 0 if bound_width is None else product_stages
        self.latency = 2 + self._product_stages + decoded
        super().__init__({
            "factor": In(BOUND_WIDTH), "bound": Out(bound_width or 0),
            "mantissa": In(MANTISSA_WIDTH),
            "shift": In(range(MAX_SHIFT + 1)),
            "label_shift": In(range(MAX_LABEL_SHIFT + 1)),
            "value": Out(STEP_WIDTH),
            "too_large": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        largest_bytes = (MAX_LABEL_SHIFT + STEP_FRACTION) // SHIFT_UNIT - 1
        largest, label_shift, shift = self.mantissa, self.label_shift, self.shift
        if self._bound_width is not None:
            width = MANTISSA_WIDTH + BOUND_WIDTH
            factor = Signal(BOUND_WIDTH, reset_less=True)
            m.d.sync += factor.eq(Mux(self.factor.any(), self.factor, 1))
            largest = multiply(m, self.mantissa, factor, stages=self._product_stages, valid=None,
                               name="largest", width=width + 1)[:width]
            label_shift = delay(m, label_shift, self._product_stages, name="label_shift")
            shift = delay(m, shift, self._product_stages, name="shift")
        fine = Signal(len(largest) + SHIFT_UNIT - 1)
        coarse = Signal(range(-MAX_SHIFT, largest_bytes + 1))   # bytes to the left
        place_width = (SHIFT_UNIT - 1).bit_length()
        m.d.sync += [
            fine.eq(largest << label_shift[:place_width]),
            coarse.eq(label_shift[place_width:] + STEP_FRACTION // SHIFT_UNIT - shift),
        ]
        # Further to the right, K rounds to 0.
        distances = range(-(len(fine) // SHIFT_UNIT), largest_bytes + 1)
        exact = Signal(len(fine) + SHIFT_UNIT * largest_bytes)
        if self._decoded:
            places = [delay(m, coarse == distance, 1, name=f"place_{number}")
                      for number, distance in enumerate(distances)]
            kept = delay(m, fine, 1, name="fine")
            m.d.comb += exact.eq(reduce(or_, (
                Mux(place, _moved(kept, distance), 0)
                for place, distance in zip(places, distances, strict=True))))
        else:
            with m.Switch(coarse):
                for distance in distances:
                    with m.Case(distance):
                        m.d.comb += exact.eq(_moved(fine, distance))
        m.d.sync += [self.value.eq(exact), self.too_large.eq(exact[STEP_WIDTH:].any())]
        if self._bound_width:
            scaled = Signal(len(fine) + MAX_LABEL_SHIFT // SHIFT_UNIT * SHIFT_UNIT)
            places = delay(m, label_shift[place_width:], 1, name="places")
            m.d.comb += scaled.eq(fine << (places << place_width))
            scaled = delay(m, scaled, int(self._decoded), name="scaled")
            m.d.sync += self.bound.eq(
                Mux(scaled[self._bound_width:].any(), ~0, scaled[:self._bound_width]))
        return m


def _moved(fine, distance):
    """``fine``, so many bytes to the left, or to the right and rounded."""
    if distance >= 0:
        return fine << SHIFT_UNIT * distance
    right = SHIFT_UNIT * -distance
    return fine + (1 << right - 1) >> right
