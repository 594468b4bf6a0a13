"""The scalar recursion of the logistic loss: from a row's dot product to its update."""

from itertools import pairwise

from amaranth import Array, C, Cat, Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from bitstep.golden.dither import DITHER_WIDTH
from bitstep.golden.sigmoid import NODES, RANGE, SEGMENT_FRACTION, VALUE_FRACTION
from bitstep.golden.steps import UNIT_FRACTION
from bitstep.pipeline.config import (
    LABEL_WIDTH,
    MANTISSA_WIDTH,
    MAX_LABEL_SHIFT,
    MAX_SHIFT,
    SIGMOID_FRACTION,
    UPDATE_WIDTH,
)
from bitstep_hw.parts.arithmetic import out_of_range
from bitstep_hw.pipeline.update.unit_update import UNIT_WIDTH
from bitstep_hw.pipeline.update.update_history import UpdateHistory

ARGUMENT_WIDTH = (RANGE << SIGMOID_FRACTION).bit_length()       # signed, of a clamped argument


class LogisticSolver(wiring.Component):
    """c_i = -y_i floor(K sigmoid(-y_i z_i) 2^-32 + dither), z_i corrected for the rows on their
    way.

    As in :class:`bitstep_hw.pipeline.update.linear_solver.Solver`, time is counted backwards in
    places (:class:`bitstep_hw.pipeline.update.update_history.UpdateHistory`). Between c_(i-1) and
    c_i are six cycles: product with G_1, subtraction, argument, chord, value, product with K. The
    terms of all rows further back are subtracted before.

    Latency is ``solver_stages(6)`` = 7 cycles from ``dot``, throughput a row every 6 cycles.
    Multipliers: one of c and a product of rows for every row of look-ahead, one of 12 and 10 bits
    in the chord, one of 47 and 17 bits for K. Golden model: the logistic loss of
    :func:`bitstep.golden.steps.update_rule`, with :mod:`bitstep.golden.sigmoid`.

    Members
    -------
    clear : In(1)
        Forgets every c; between epochs.
    valid : In(1), idle_row : In(1)
        A row enters, one cycle before its dot product; a row that only fills a slot has c = 0.
    products : In(signed(gram_width)).array(lookahead), label : In(signed(32))
        Of the row that enters; the label is +1 or -1.
    dot : In(signed(dot_width))
        Dot product of the row that entered in the cycle before.
    dither : In(16), take : Out(1)
        With the dot product: random bits of the row, and the strobe that they are taken.
    mantissa, shift : In
        Not used, because ``unit`` holds them; here so that both solvers are wired alike.
    label_shift : In
        At least 13; constant during an epoch.
    unit : In(47), unit_too_large : In(1)
        K with 16 fraction bits, of :class:`bitstep_hw.pipeline.update.unit_update.UnitUpdate`;
        constant during an epoch.
    o_valid : Out(1), o : Out(signed(32)), saturated : Out(1)
        c of a row, and whether K was too large for it.
    """

    def __init__(self, *, config):
        if config.solver != "logistic":
            raise ValueError(f"Solver must be 'logistic', not {config.solver!r}")
        self.config = config
        super().__init__({
            "clear": In(1),
            "valid": In(1),
            "idle_row": In(1),
            "products": In(signed(config.gram_width)).array(config.lookahead),
            "label": In(signed(LABEL_WIDTH)),
            "dot": In(signed(config.dot_width)),
            "dither": In(DITHER_WIDTH), "take": Out(1),
            "mantissa": In(MANTISSA_WIDTH),
            "shift": In(range(MAX_SHIFT + 1)),
            "label_shift": In(range(MAX_LABEL_SHIFT + 1)),
            "unit": In(UNIT_WIDTH),
            "unit_too_large": In(1),
            "o_valid": Out(1),
            "o": Out(signed(UPDATE_WIDTH)),
            "saturated": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        history = UpdateHistory(m, self.config, valid=self.valid, idle_row=self.idle_row,
                                clear=self.clear)
        at = history.at
        # Rows are six places apart, so the sign of one stays until it leaves place 2.
        positive = Signal(reset_less=True)
        with m.If(at[history.entry]):
            m.d.sync += positive.eq(~self.label[-1])
        margin = self._margin(m, history, positive)
        argument = self._argument(m, at, margin)
        value = self._value(m, at, argument)
        # Of a row's dot product. Rows are six places apart, so it stays until place 2.
        dotted = history.entry - self.config.solver_lead
        m.d.comb += self.take.eq(at[dotted] & ~history.idle[dotted])
        dither = Signal(DITHER_WIDTH, reset_less=True)
        with m.If(at[dotted]):
            m.d.sync += dither.eq(self.dither)
        # The sign goes into the factor: -floor(x + d) is floor(-x - d + 1) without its last bit.
        factor = Signal(signed(UNIT_WIDTH + 1), reset_less=True)
        fraction = UNIT_FRACTION + VALUE_FRACTION
        addend = Signal(fraction, reset_less=True)
        exact = Cat(C(0, fraction - DITHER_WIDTH - 1), C(1, 1), dither)
        with m.If(at[2]):
            m.d.sync += [factor.eq(Mux(positive, -self.unit, self.unit)),
                         addend.eq(Mux(positive, ~exact, exact))]
        history.push(factor * value + addend >> fraction)
        m.d.sync += self.saturated.eq(at[1] & ~history.idle[1] & self.unit_too_large)
        m.d.comb += [self.o_valid.eq(at[0]), self.o.eq(history.newest)]
        return m

    def _margin(self, m, history, positive):
        """-y z, of the row at place 4."""
        config, at, entry = self.config, history.at, history.entry
        width = config.dot_width + 2        # what is beyond cancels out
        far = []
        for d in range(2, config.lookahead + 1):
            term = Signal(signed(UPDATE_WIDTH + config.gram_width), name=f"far_{d}",
                          reset_less=True)
            with m.If(at[entry]):
                m.d.sync += term.eq(history.before(d, entry) * self.products[d - 1])
            far.append(term)
        residual = Signal(signed(width), reset_less=True)
        with m.If(at[entry - 1]):
            m.d.sync += residual.eq(self.dot - sum(far))
        near = Signal(signed(width), reset_less=True)       # without look-ahead it stays 0
        if config.lookahead:
            factor = Signal(signed(config.gram_width), reset_less=True)
            with m.If(at[entry]):
                m.d.sync += factor.eq(self.products[0])
            with m.If(at[6]):
                m.d.sync += near.eq(history.before(1, 6) * factor)
        margin = Signal(signed(width), reset_less=True)
        with m.If(at[5]):
            m.d.sync += margin.eq(Mux(positive, near, residual) - Mux(positive, residual, near))
        return margin

    def _argument(self, m, at, margin):
        """The margin with 12 fraction bits, rounded and clamped to [-8, 8), at place 3."""
        doubled = Signal(signed(len(margin)))       # with one fraction bit more, to round
        distance = (self.label_shift - (SIGMOID_FRACTION + 1))[:len(self.label_shift)]
        m.d.comb += doubled.eq(margin >> distance)
        rounded = Signal(signed(ARGUMENT_WIDTH + 1))
        m.d.comb += rounded.eq(doubled[:ARGUMENT_WIDTH + 1].as_signed() + 1 >> 1)
        argument = Signal(signed(ARGUMENT_WIDTH), reset_less=True)
        limit = RANGE << SIGMOID_FRACTION
        with m.If(at[4]):
            m.d.sync += argument.eq(rounded)
            with m.If(doubled[-1] & out_of_range(doubled, ARGUMENT_WIDTH + 1)):
                m.d.sync += argument.eq(-limit)
            with m.Elif(~doubled[-1] & (out_of_range(doubled, ARGUMENT_WIDTH + 1)
                                        | (rounded == limit))):
                m.d.sync += argument.eq(limit - 1)
        return argument

    def _value(self, m, at, argument):
        """The sigmoid with 16 fraction bits, at place 1."""
        segment = Signal(ARGUMENT_WIDTH - SEGMENT_FRACTION)
        # The segments count from -8: the argument's sign bit is turned around.
        m.d.comb += segment.eq(argument[SEGMENT_FRACTION:] ^ 1 << len(segment) - 1)
        rises = [high - low for low, high in pairwise(NODES)]
        node = Signal(range(max(NODES) + 1), reset_less=True)
        rise = Signal(range(max(rises) + 1), reset_less=True)
        within = Signal(SEGMENT_FRACTION, reset_less=True)
        with m.If(at[3]):
            m.d.sync += [node.eq(Array(NODES[:-1])[segment]), rise.eq(Array(rises)[segment]),
                         within.eq(argument[:SEGMENT_FRACTION])]
        value = Signal(range(max(NODES) + 1), reset_less=True)
        with m.If(at[2]):
            m.d.sync += value.eq(
                node + (rise * within + (1 << SEGMENT_FRACTION - 1) >> SEGMENT_FRACTION))
        return value
