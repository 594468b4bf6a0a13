"""Scalar recursion of the logistic loss: from a row's dot product to its update."""

from itertools import pairwise

from amaranth import Array, C, Cat, Module, Mux, Signal, signed
from amaranth.lib import wiring

from bitstep.golden.dither import DITHER_WIDTH
from bitstep.golden.sigmoid import NODES, RANGE, SEGMENT_FRACTION, VALUE_FRACTION
from bitstep.golden.steps import STEP_FRACTION
from bitstep.pipeline.parts.widths import SIGMOID_FRACTION, UPDATE_WIDTH
from bitstep_hw.parts.arithmetic import (
    compress_registered,
    compressed_sum,
    delay,
    enable_of,
    extend,
    multiply,
    multiply_carry_save,
    out_of_range,
    when,
)
from bitstep_hw.pipeline.update.derivative_step import STEP_WIDTH
from bitstep_hw.pipeline.update.fine_update import FineUpdate
from bitstep_hw.pipeline.update.solver_ports import (
    RowSteps,
    give_update,
    history_of,
    solver_ports,
)
from bitstep_hw.pipeline.update.update_rounding import FRACTION, UpdateRounding

ARGUMENT_WIDTH = (RANGE << SIGMOID_FRACTION).bit_length()       # signed, of a clamped argument


class LogisticSolver(wiring.Component):
    """Solver of c_i = -y_i floor(K sigmoid(-y_i z_i) 2^-32 + dither), with z_i corrected for the
    updates that the model has not met yet.

    As in :class:`bitstep_hw.pipeline.update.linear_solver.LinearSolver`, time is counted backwards
    in cycles left (:class:`bitstep_hw.pipeline.update.update_history.UpdateHistory`). Between
    c_(i-1) and c_i are six cycles: product with G_1, subtraction, argument, chord, value, product
    with K. The terms of all rows further back are subtracted before. With a fast clock no row waits
    for another, all terms are subtracted with the dot product, and argument, value and product take
    a cycle, a cycle and two cycles more.

    Latency is ``config.stages.solver.cycles`` cycles from ``dot``, with ``rounded_updates``
    ``ROUNDING_STAGES`` more; throughput a row every ``update_interval`` cycles.
    Multipliers: one of c and a product of rows for every row of look-ahead, one of 12 and 10 bits
    in the chord, one of 47 and 17 bits for K. Golden model: the logistic loss of
    :func:`bitstep.golden.steps.update_rule`, with :mod:`bitstep.golden.sigmoid`.

    Of bit-plane rows a label may hold the derivative at a centre, which is subtracted: its size
    from the start of the chord. The factor of K has a bit more for it.

    Parameters
    ----------
    config : PipelineConfig
        Gives widths, ``correlated_rows`` and ``rounded_updates``; its solver must be ``logistic``.

    Raises
    ------
    ValueError
        If the configuration's solver is another.

    Members
    -------
    Those of :func:`bitstep_hw.pipeline.update.solver_ports.solver_ports`. The label is +1 or -1,
    ``label_shift`` at least 13. ``mantissa`` and ``shift`` are not used, because ``unit`` holds
    them.
    """

    RUN_NUMBERS = ()          # of the run that it has ports for

    def __init__(self, *, config):
        if config.loss_family != "logistic":
            raise ValueError(f"Solver must be 'logistic', not {config.loss_family!r}")
        self.config = config
        super().__init__(solver_ports(config))

    def elaborate(self, platform):
        m = Module()
        history = history_of(m, self)
        stage_valid = history.stage_valid
        steps = RowSteps(m, self, history)
        positive_at = self._kept(m, stage_valid, ~self.label[-1], history.entry, name="positive")
        positive = positive_at(2)
        fast = self.config.clock.fast
        # Cycles left with the margin, the argument, the chord, and the value.
        at_margin, at_argument, at_chord, at_value = (8, 6, 5, 3) if fast else (4, 3, 2, 1)
        centre, derivatives = None, C(0)
        if self.config.rows.centred:
            derivatives = self.derivatives
            centre = Signal(VALUE_FRACTION + 1, reset_less=True)
            derivative = self.label[1:].as_signed()
            with m.If(stage_valid[history.entry] & derivatives):
                m.d.sync += [positive.eq(self.label[0]),
                             centre.eq(Mux(self.label[0], -derivative, derivative))]
        margin = self._own_margin(m, history, positive_at) if fast \
            else self._margin(m, history, positive_at(at_margin + 1))
        argument = self._argument(m, stage_valid[at_margin], margin)
        node, rise, within = self._chord(m, stage_valid[at_argument], argument,
                                         None if centre is None else Mux(derivatives, centre, 0))
        value = self._value(m, stage_valid[at_chord], node, rise, within)
        m.d.comb += self.take.eq(stage_valid[history.dotted] & ~history.stage_idle[history.dotted])
        dither = self._kept(m, stage_valid, self.dither, history.dotted, name="dither")(2)
        # The sign goes into the factor: -floor(x + d) is floor(-x - d + 1) without its last bit.
        if self.config.rounded_updates:
            self._round(m, stage_valid, history.stage_idle, value, positive, dither,
                        (steps, at_value))
            return m
        factor = Signal(signed(STEP_WIDTH + 1), reset_less=True)
        fraction = STEP_FRACTION + VALUE_FRACTION
        addend = Signal(fraction, reset_less=True)
        exact = Cat(C(0, fraction - DITHER_WIDTH - 1), C(1, 1), dither)
        step = steps.at("derivative_step", at_value + 1)
        with when(m, enable_of(self.config, stage_valid[2])):
            m.d.sync += [factor.eq(Mux(positive_at(at_value + 1), -step, step)),
                         addend.eq(Mux(positive & ~derivatives, ~exact, exact))]
        if fast:
            width = len(factor) + len(value)
            parts = multiply_carry_save(m, factor, value, valid=None, name="product", width=width)
            product = compressed_sum([*parts, addend], width)[:width].as_signed()
        else:
            product = factor * value + addend
        history.push(product >> fraction)
        m.d.sync += self.overflowed.eq(stage_valid[1] & ~history.stage_idle[1]
                                       & steps.at("step_too_large", 1))
        told = Signal(reset_less=True)      # that of the row with one cycle left
        with m.If(stage_valid[2]):
            m.d.sync += told.eq(positive)
        give_update(m, self, history, told)
        if self.config.stages.solver.fine:
            self._refine(m, history, margin, positive, dither, steps)
        return m

    def _kept(self, m, stage_valid, value, entered, *, name):
        """``value`` of the row with ``entered`` cycles left, when it has fewer left, at least 2: a
        function of these. Of rows that are six cycles apart one register keeps it.
        """
        if self.config.clock.every_cycle:
            return lambda left: delay(m, value, entered - left, name=f"{name}_until_{left}")
        register = Signal(value.shape(), name=name, reset_less=True)
        with m.If(stage_valid[entered]):
            m.d.sync += register.eq(value)
        return lambda left: register

    def _refine(self, m, history, margin, positive, dither, steps):
        """Give the updates of the finer sigmoid instead in a run that has it."""
        m.submodules.fine_update = fine = FineUpdate(
            margin_width=len(margin), own_steps=self.config.row_weights)
        m.d.comb += [
            fine.valid.eq(history.stage_valid[4]), fine.margin.eq(margin),
            fine.positive.eq(positive), fine.dither.eq(dither),
            fine.label_shift.eq(self.label_shift),
            fine.derivative_step.eq(steps.at("derivative_step", 4)),
        ]
        late = self.config.stages.solver.fine
        valid = delay(m, history.stage_valid[0], late, name="fine_valid")
        idle = delay(m, history.stage_idle[0], late, name="fine_idle")
        with m.If(self.fine):
            m.d.comb += [self.o_valid.eq(valid), self.o.eq(Mux(idle, 0, fine.o))]

    def _round(self, m, stage_valid, stage_idle, value, positive, dither, steps_at):
        """Round the update of the row with one cycle left to few bits. ``steps_at``: the steps, and
        the cycles left with the value.
        """
        steps, at_value = steps_at
        m.submodules.rounding = rounding = UpdateRounding()
        negate = Signal(reset_less=True)
        row_dither = Signal.like(dither, name="row_dither")
        with m.If(stage_valid[2]):
            m.d.sync += [negate.eq(positive), row_dither.eq(dither)]
        step = steps.at("derivative_step", at_value)
        product = step * value if at_value == 1 else multiply(
            m, step, value, stages=2, valid=None, name="product", width=len(step) + len(value) + 1)
        m.d.comb += [
            rounding.bits.eq(self.update_bits), rounding.valid.eq(stage_valid[1]),
            rounding.idle.eq(stage_idle[1]), rounding.negate.eq(negate),
            rounding.value.eq(product[STEP_FRACTION + VALUE_FRACTION - FRACTION:]),
            rounding.dither.eq(row_dither),
            self.o_valid.eq(rounding.o_valid), self.o.eq(rounding.o),
            self.overflowed.eq(rounding.overflowed | (
                stage_valid[1] & ~stage_idle[1] & steps.at("step_too_large", 1))),
        ]

    def _margin(self, m, history, positive):
        """-y z, of the row with 4 cycles left."""
        config, stage_valid, entry = self.config, history.stage_valid, history.entry
        width = config.rows.dot_width + 2        # what is beyond cancels out
        far = []
        for d in range(2, config.stages.solver.correlated_rows + 1):
            term = Signal(signed(UPDATE_WIDTH + config.rows.gram_width), name=f"far_{d}",
                          reset_less=True)
            with m.If(stage_valid[entry]):
                m.d.sync += term.eq(history.before(d, entry) * self.products[d - 1])
            far.append(term)
        residual = Signal(signed(width), reset_less=True)
        with m.If(stage_valid[history.dotted]):
            m.d.sync += residual.eq(self.dot - sum(far))
        near = Signal(signed(width), reset_less=True)       # without look-ahead it stays 0
        if config.stages.solver.correlated_rows:
            factor = Signal(signed(config.rows.gram_width), reset_less=True)
            with m.If(stage_valid[entry]):
                m.d.sync += factor.eq(self.products[0])
            with m.If(stage_valid[6]):
                m.d.sync += near.eq(history.before(1, 6) * factor)
        margin = Signal(signed(width), reset_less=True)
        with m.If(stage_valid[5]):
            m.d.sync += margin.eq(Mux(positive, near, residual) - Mux(positive, residual, near))
        return margin

    def _own_margin(self, m, history, positive_at):
        """-y z of a row whose terms are all there when it enters, a cycle later."""
        config, width = self.config, self.config.rows.dot_width + 2
        positive = positive_at(history.dotted)
        margin = Signal(signed(width), reset_less=True)
        if not config.batch_lookahead:
            m.d.sync += margin.eq(Mux(positive, -self.dot, self.dot))
            return margin
        early = positive_at(history.dotted + 1)
        far = [extend(term, width) for term in
               history.terms(self.products, range(1, config.batch_lookahead + 1), width)]
        # -x is ~x + 1: the 1s of all terms that are turned around, the dot product among them.
        far = compress_registered(
            m, [*(Mux(early, term, ~term) for term in far), Mux(early, 1, len(far))], width,
            valid=None, name="far")
        dot = extend(self.dot, width)
        m.d.sync += margin.eq(compressed_sum([*far, Mux(positive, ~dot, dot)], width))
        return margin

    def _argument(self, m, valid, margin):
        """The margin with 12 fraction bits, rounded and clamped to [-8, 8), a cycle later; with a
        fast clock two.
        """
        doubled = Signal(signed(len(margin)))       # with one fraction bit more, to round
        distance = (self.label_shift - (SIGMOID_FRACTION + 1))[:len(self.label_shift)]
        m.d.comb += doubled.eq(margin >> distance)
        doubled = delay(m, doubled, int(self.config.clock.fast), name="doubled")
        rounded = Signal(signed(ARGUMENT_WIDTH + 1))
        m.d.comb += rounded.eq(doubled[:ARGUMENT_WIDTH + 1].as_signed() + 1 >> 1)
        argument = Signal(signed(ARGUMENT_WIDTH), reset_less=True)
        limit = RANGE << SIGMOID_FRACTION
        with when(m, enable_of(self.config, valid)):
            m.d.sync += argument.eq(rounded)
            with m.If(doubled[-1] & out_of_range(doubled, ARGUMENT_WIDTH + 1)):
                m.d.sync += argument.eq(-limit)
            with m.Elif(~doubled[-1] & (out_of_range(doubled, ARGUMENT_WIDTH + 1)
                                        | (rounded == limit))):
                m.d.sync += argument.eq(limit - 1)
        return argument

    def _chord(self, m, valid, argument, centre):
        """The chord of the argument's segment a cycle later: value at its begin, less ``centre``
        unless that is None, rise, and place within.
        """
        segment = Signal(ARGUMENT_WIDTH - SEGMENT_FRACTION)
        # The segments count from -8: the argument's sign bit is turned around.
        m.d.comb += segment.eq(argument[SEGMENT_FRACTION:] ^ 1 << len(segment) - 1)
        rises = [high - low for low, high in pairwise(NODES)]
        largest = max(NODES)
        values = range(largest + 1) if centre is None else range(-largest, largest + 1)
        node = Signal(values, reset_less=True)
        rise = Signal(range(max(rises) + 1), reset_less=True)
        within = Signal(SEGMENT_FRACTION, reset_less=True)
        with when(m, enable_of(self.config, valid)):
            m.d.sync += [node.eq(Array(NODES[:-1])[segment] - (0 if centre is None else centre)),
                         rise.eq(Array(rises)[segment]),
                         within.eq(argument[:SEGMENT_FRACTION])]
        return node, rise, within

    def _value(self, m, valid, node, rise, within):
        """The sigmoid with 16 fraction bits, of a chord, a cycle later; with a fast clock two."""
        late = int(self.config.clock.fast)
        value = Signal(node.shape(), reset_less=True)
        product = delay(m, rise * within, late, name="risen")
        with when(m, enable_of(self.config, valid)):
            m.d.sync += value.eq(delay(m, node, late, name="node")
                                 + (product + (1 << SEGMENT_FRACTION - 1) >> SEGMENT_FRACTION))
        return value
