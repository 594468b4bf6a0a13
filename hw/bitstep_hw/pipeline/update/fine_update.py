"""Updates of the logistic loss in the full pass of bit-centred training."""

from itertools import pairwise

from amaranth import Array, C, Cat, Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from bitstep.golden.dither import DITHER_WIDTH
from bitstep.golden.sigmoid import (
    BOWS,
    FINE_ARGUMENT,
    FINE_NODES,
    FINE_RANGE,
    FINE_SEGMENT,
    FINE_VALUE,
)
from bitstep.golden.steps import STEP_FRACTION
from bitstep.pipeline.parts.stages import FINE_STAGES
from bitstep.pipeline.parts.widths import MAX_LABEL_SHIFT, UPDATE_WIDTH
from bitstep_hw.parts.arithmetic import delay, out_of_range
from bitstep_hw.pipeline.update.derivative_step import STEP_WIDTH

_ARGUMENT_WIDTH = (FINE_RANGE << FINE_ARGUMENT).bit_length()    # signed, of a clamped argument
_FRACTION = STEP_FRACTION + FINE_VALUE
_RISES = tuple(high - low for low, high in pairwise(FINE_NODES))
LATENCY = 4 + FINE_STAGES       # cycles from the margin; the solver's own way takes 4


class FineUpdate(wiring.Component):
    """Unit that makes c = -y floor(K sigmoid(m) 2^-40 + dither) of a margin m = -y z, with the
    parabolas of :func:`bitstep.golden.sigmoid.fine_sigmoid`.

    A row every 6 cycles, :data:`LATENCY` cycles from the margin to c; there is no recursion. What
    comes with the margin must stay for 6 cycles. Multipliers: one of 15 and 15 bits, one of 14 and
    37, one of 47 and 25.

    Parameters
    ----------
    margin_width : int
        Bits of a margin.
    own_steps : bool
        True if each row has a ``derivative_step`` of its own, with its margin.

    Members
    -------
    valid : In(1), margin : In(signed(margin_width)), positive : In(1), dither : In(16)
        -y z of a row, the sign of its label, and its dither.
    label_shift : In, derivative_step : In(47)
        As those of :func:`bitstep_hw.pipeline.update.solver_ports.solver_ports`; ``label_shift``
        at least 17.
    o : Out(signed(32))
        c.
    """

    def __init__(self, *, margin_width, own_steps=False):
        self._own_steps = own_steps
        super().__init__({
            "valid": In(1), "margin": In(signed(margin_width)), "positive": In(1),
            "dither": In(DITHER_WIDTH), "label_shift": In(range(MAX_LABEL_SHIFT + 1)),
            "derivative_step": In(STEP_WIDTH), "o": Out(signed(UPDATE_WIDTH)),
        })

    def elaborate(self, platform):
        m = Module()
        positive = Signal(reset_less=True)
        dither = Signal(DITHER_WIDTH, reset_less=True)
        with m.If(self.valid):
            m.d.sync += [positive.eq(self.positive), dither.eq(self.dither)]
        step = self.derivative_step
        if self._own_steps:
            step = Signal(STEP_WIDTH, name="step", reset_less=True)
            with m.If(self.valid):
                m.d.sync += step.eq(self.derivative_step)
        value = self._value(m, self._argument(m))
        exact = Signal(STEP_WIDTH + FINE_VALUE + 1, reset_less=True)
        rounded = Signal(UPDATE_WIDTH, reset_less=True)
        addend = Cat(C(0, _FRACTION - DITHER_WIDTH - 1), C(1, 1), dither)
        late = Signal(reset_less=True)          # ``positive``, beside ``rounded``
        m.d.sync += [
            exact.eq(step * value),
            rounded.eq(exact + addend >> _FRACTION), late.eq(positive),
            self.o.eq(Mux(late, -rounded, rounded)),
        ]
        return m

    def _argument(self, m):
        """Register: the margin with 16 fraction bits, rounded and clamped to [-16, 16)."""
        doubled = Signal(signed(len(self.margin)))      # with one fraction bit more, to round
        rounded = Signal(signed(_ARGUMENT_WIDTH + 1))
        argument = Signal(signed(_ARGUMENT_WIDTH), reset_less=True)
        limit = FINE_RANGE << FINE_ARGUMENT
        m.d.comb += [
            doubled.eq(self.margin >> (self.label_shift - (FINE_ARGUMENT + 1))[
                :len(self.label_shift)]),
            rounded.eq(doubled[:_ARGUMENT_WIDTH + 1].as_signed() + 1 >> 1),
        ]
        beyond = out_of_range(doubled, _ARGUMENT_WIDTH + 1)
        m.d.sync += argument.eq(Mux(
            beyond, Mux(doubled[-1], -limit, limit - 1),
            Mux(rounded == limit, limit - 1, rounded)))
        return argument

    def _value(self, m, argument):
        """Register: the sigmoid with 24 fraction bits, 4 cycles after ``argument``."""
        segment = Signal(_ARGUMENT_WIDTH - FINE_SEGMENT)
        # The segments count from -16: the argument's sign bit is turned around.
        m.d.comb += segment.eq(argument[FINE_SEGMENT:] ^ 1 << len(segment) - 1)
        node = Signal(range(max(FINE_NODES) + 1), reset_less=True)
        rise = Signal(range(max(_RISES) + 1), reset_less=True)
        bow = Signal(signed(max(map(abs, BOWS)).bit_length() + 1), reset_less=True)
        within = Signal(FINE_SEGMENT, reset_less=True)
        m.d.sync += [node.eq(Array(FINE_NODES[:-1])[segment]), rise.eq(Array(_RISES)[segment]),
                     bow.eq(Array(C(size, bow.shape()) for size in BOWS)[segment]),
                     within.eq(argument[:FINE_SEGMENT])]
        slope = Signal(signed(len(rise) + FINE_SEGMENT + 2), reset_less=True)
        product = Signal(signed(len(slope) + FINE_SEGMENT), reset_less=True)
        value = Signal(range((1 << FINE_VALUE) + 1), reset_less=True)
        m.d.sync += [
            slope.eq((rise << FINE_SEGMENT) + bow * ((1 << FINE_SEGMENT) - within)),
            product.eq(slope * delay(m, within, 1, name="within")),
            value.eq(delay(m, node, 2, name="node")
                     + (product + (1 << 2 * FINE_SEGMENT - 1) >> 2 * FINE_SEGMENT)),
        ]
        return value
