"""Scalar recursion of all losses but the logistic one: from a dot product to an update."""

from amaranth import C, Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from bitstep.golden.steps import STEP_FRACTION
from bitstep.pipeline.parts.widths import (
    LABEL_WIDTH,
    LOOKAHEAD_MARGIN_WIDTH,
    MANTISSA_WIDTH,
    UPDATE_WIDTH,
)
from bitstep.pipeline.registers import Loss
from bitstep_hw.parts.arithmetic import (
    compress,
    compress_registered,
    compressed_sum,
    delay,
    delay_ports,
    enable_of,
    extend,
    multiply,
    multiply_carry_save,
    out_of_range,
    same,
)
from bitstep_hw.pipeline.update.centre import place_centre
from bitstep_hw.pipeline.update.row_decision import RowDecision, bound_width, scaled_width
from bitstep_hw.pipeline.update.solver_ports import (
    RowSteps,
    doubled_dither,
    give_update,
    history_of,
    solver_ports,
)
from bitstep_hw.pipeline.update.step_shift import placed_dither, shifted_by
from bitstep_hw.pipeline.update.update_rounding import round_linear


class LinearSolver(wiring.Component):
    """Solver of c_i = floor(mantissa (z_i - y_i) / 2^(8 shift) + dither), with z_i corrected for
    the updates that the model has not met yet.

    With Z the dot product with the model D + 1 rows ago and G_d the products with the rows
    before, z_i = Z - sum over d of c_(i-d) G_d. The last few terms decide the rate, so for them
    the mantissa is multiplied into G_d beforehand and c_(i-1) meets one product, one subtraction
    and one shift: ``update_interval`` cycles. Time is counted backwards, in cycles left
    (:class:`bitstep_hw.pipeline.update.update_history.UpdateHistory`).

    The dither is added with the residual's product, so it is not part of what decides the rate.
    The last step also sees on which side of its target a row is, exactly: rows beyond the hinge
    give c = 0, and the hinge loss takes K, rounded by the dither, for every other row. So does the
    Huber loss for rows that are further from their target than its bound, on either side.

    Of bit-plane rows a label may hold the derivative at a centre, which counts as a part of the
    target but where the sides are compared. It is all that a row beyond the hinge has.

    Latency is ``config.stages.solver.cycles`` cycles from ``dot``, with ``rounded_updates``
    ``ROUNDING_STAGES`` more; throughput a row every ``update_interval`` cycles.
    Golden model: :func:`bitstep.golden.steps.update_rule`.

    Parameters
    ----------
    config : PipelineConfig
        Gives widths, ``correlated_rows``, ``update_interval``, ``clock.fast``, ``refetch`` and
        ``rounded_updates``.
    steps_late : int, optional
        With ``row_weights``: cycles after a row in which its ``derivative_step``,
        ``step_too_large`` and ``bound`` come.

    Members
    -------
    Those of :func:`bitstep_hw.pipeline.update.solver_ports.solver_ports`; with a fast clock
    ``overflowed`` comes one cycle after ``o``. Also:

    loss : In(Loss)
        Any but logistic; constant during an epoch.
    bound : In
        Of the Huber loss, the mantissa times the largest distance that is not clipped
        (:class:`bitstep_hw.pipeline.update.derivative_step.DerivativeStep`); constant during an
        epoch.
    undecided, dot_margin, lookahead_margin, refetching, replay_alone, discard : In
        As :class:`bitstep_hw.pipeline.update.row_decision.RowDecision`; ``dot_margin`` with
        ``dot``, ``undecided`` a cycle later. Only with ``refetch``.
    o_decided, o_undecided, o_replay, o_positive : Out(1)
        The decision on the row of ``o``, likewise.
    o_derivative_step : Out(31)
        With ``refetch``: K, rounded by the dither of the row of ``o``.
    """

    RUN_NUMBERS = ("loss",)   # of the run that it has ports for

    def __init__(self, *, config, steps_late=0):
        self.config, self.steps_late = config, steps_late
        super().__init__(solver_ports(config) | {
            "loss": In(Loss), "bound": In(bound_width(config)), "undecided": In(1),
            "dot_margin": In(config.rows.dot_margin_width),
            "lookahead_margin": In(LOOKAHEAD_MARGIN_WIDTH), "refetching": In(1),
            "replay_alone": In(1), "discard": In(1),
            "o_decided": Out(1), "o_undecided": Out(1), "o_replay": Out(1),
            "o_derivative_step": Out(UPDATE_WIDTH - 1),
        })

    def elaborate(self, platform):
        m = Module()
        config = self.config
        # Constant during an epoch, and wanted in many places: for a fast clock a register more.
        mantissa, shift = delay_ports(m, self, int(config.clock.fast), "mantissa", "shift")
        history = history_of(m, self)
        self.steps = steps = RowSteps(m, self, history, late=self.steps_late,
                                      constants={"mantissa": mantissa})
        # What is rounded to few bits meets its dither later.
        addend = C(0) if config.rounded_updates else placed_dither(
            m, doubled_dither(self), shift, name="addend")
        centre = place_centre(m, self, steps.at("mantissa", history.entry), shift, addend)
        residual = self._residual(m, history, centre)
        discard = self.discard if config.refetch else C(0)
        m.d.comb += self.take.eq(history.stage_valid[history.dotted]
                                 & ~history.stage_idle[history.dotted] & ~discard)
        difference = self._compressed if config.clock.fast else self._subtracted
        exact, distance, sides = difference(m, history, residual, addend, centre)
        above, far_above, far_below = sides
        far = far_above | far_below, far_below
        positive = delay(m, ~self.label[-1] if centre is None else centre.positive,
                         history.entry - 1, name="positive")
        active = Mux(positive, distance[-1], above)
        if config.rounded_updates:
            round_linear(m, self, history, distance, (active, positive, *far), shift, steps)
            return m
        signed_steps = self._row_step(m, history)
        forgotten = self._decide(m, history, distance, positive)
        shifted = shifted_by(m, exact, shift, decoded=config.clock.every_cycle)
        rest = (C(0), C(0)) if centre is None else delay_ports(
            m, centre, history.dotted - 4, "rest", "beyond")
        update = self._update(m, history, (shifted, *rest), (active, positive, *far),
                              signed_steps, forgotten)
        history.push(Mux(forgotten, 0, update))
        if config.refetch:
            m.d.sync += self.o_derivative_step.eq(signed_steps[0])
        give_update(m, self, history, positive)
        return m

    @property
    def _near(self):
        """Rows before whose products meet the mantissa beforehand."""
        if self.config.clock.every_cycle:
            return 0
        return min(self.config.stages.solver.correlated_rows, 1 if self.config.clock.fast else 2)

    def _residual(self, m, history, centre):
        """The dot product less the target and the far terms, a cycle after the dot product. These
        terms are subtracted before the mantissa is multiplied in.
        """
        config = self.config
        # For a fast clock a cycle earlier, since it is subtracted from something first.
        wait = history.entry - history.dotted - (2 if config.clock.fast else 1)
        label = self.label if centre is None else centre.target
        label_shift = self.label_shift if centre is None else centre.target_shift
        label = delay(m, label, wait, name="label")
        target = Signal(signed(LABEL_WIDTH + config.rows.max_label_shift), reset_less=True)
        m.d.sync += target.eq(label << label_shift)
        residual = Signal(signed(config.rows.dot_width + 2), reset_less=True)
        distances = range(self._near + 1, config.stages.solver.correlated_rows + 1)
        if config.clock.fast:
            self._compressed_residual(m, history, distances, target, residual)
        else:
            entry, width = history.entry, UPDATE_WIDTH + config.rows.gram_width
            far = [multiply(m, history.before(d, entry), self.products[d - 1], stages=1,
                            valid=history.stage_valid[entry], name=f"far_{d}", width=width)
                   for d in distances]
            with m.If(history.stage_valid[history.dotted]):
                m.d.sync += residual.eq(self.dot - target - sum(far))
        return residual

    def _decide(self, m, history, distance, positive):
        """1 if the row with one cycle left gets no update now."""
        if not self.config.refetch:
            return C(0)
        m.submodules.decision = decision = RowDecision(config=self.config)
        m.d.comb += [
            decision.dot_valid.eq(history.stage_valid[history.dotted]),
            decision.margin_valid.eq(history.stage_valid[history.dotted - 1]),
            decision.mantissa.eq(self.steps.at("mantissa", history.dotted - 1)),
            decision.valid.eq(history.stage_valid[1] & ~history.stage_idle[1]),
            decision.distance.eq(distance), decision.positive.eq(positive),
            *same(decision, self, "dot_margin", "lookahead_margin", "undecided", "refetching",
                  "replay_alone", "discard"),
            *same(self, decision, "o_decided", "o_undecided", "o_replay", "o_positive"),
        ]
        return decision.forgotten

    def _factor(self, m, history, d):
        """Mantissa times G_d, when c_(i-d) is known."""
        config, cycles = self.config, history.entry - self.config.update_interval * d
        stages = min(2, cycles) if config.clock.fast else 1
        factor = multiply(m, self.products[d - 1], self.steps.at("mantissa", history.entry),
                          stages=stages, name=f"factor_{d}",
                          valid=enable_of(config, history.stage_valid[history.entry]),
                          width=config.rows.gram_width + MANTISSA_WIDTH)
        return delay(m, factor, cycles - stages, name=f"factor_{d}")

    def _row_step(self, m, history):
        """K of the row with one cycle left, rounded by its dither, and its negative."""
        fraction = self.steps.at("derivative_step", history.dotted)[:STEP_FRACTION]
        up = Signal(reset_less=True)
        m.d.sync += up.eq((fraction + self.dither)[STEP_FRACTION])
        step = Signal(UPDATE_WIDTH - 1, name="row_step", reset_less=True)
        minus = Signal(signed(UPDATE_WIDTH), name="minus_step", reset_less=True)
        whole = self.steps.at("derivative_step", 2)[STEP_FRACTION:]
        late_up = delay(m, up, history.dotted - 3, name="up")
        # -x is ~x + 1; rounding up takes the 1 away.
        m.d.sync += [step.eq(whole + late_up), minus.eq(~extend(whole, UPDATE_WIDTH) + ~late_up)]
        return step, minus

    def _subtracted(self, m, history, residual, addend, centre):
        """The mantissa times z - y, rounded and not, and flags that it is positive, above the bound
        and below its negative, with one cycle left: near terms one after the other.
        """
        width, left = scaled_width(self.config), history.dotted - 1     # cycles with the residual
        own, bound = self.steps.at("mantissa", left), self.steps.at("bound", 1)
        final = multiply(m, residual, own, stages=1, valid=history.stage_valid[left],
                         name="scaled", width=width, addend=addend)
        ready, product = left - 1, C(0)                     # cycles left with ``final``
        for d in range(self._near, 0, -1):
            start = self.config.update_interval * d       # cycles left when c_(i-d) is known
            product = multiply(m, history.before(d, start), self._factor(m, history, d), stages=1,
                               valid=history.stage_valid[start], name=f"near_{d}", width=width)
            then = start - 1
            if d > 1:
                product = delay(m, product, then - ready, name=f"near_{d}")
                less = Signal(signed(width), name=f"less_{d}", reset_less=True)
                m.d.sync += less.eq(final - product)
                final, ready = less, ready - 1
            else:
                final = delay(m, final, ready - then, name="final")
        if not self._near:
            final = delay(m, final, ready - 1, name="final")
        exact = Signal(signed(width), name="exact")
        distance = Signal(signed(width + 1), name="distance")       # from the target
        m.d.comb += exact.eq(final - product)
        more = addend if centre is None else addend - centre.scaled
        m.d.comb += distance.eq(exact - delay(m, more, left - 1, name="distance_addend"))
        return exact, distance, (~distance[-1] & distance.any(), distance > bound,
                                 distance < -bound)

    def _compressed(self, m, history, residual, addend, centre):
        """As :meth:`_subtracted`, for a fast clock: the products are sums of two numbers until
        the last sum, the only one with a carry. What is asked of it has sums of its own.
        """
        width = scaled_width(self.config) + 1
        left = history.dotted - 1       # cycles with the residual, and when c_(i-1) is known
        # -x is ~x + 1: the two 1s of the subtrahend are added here.
        scaled = multiply_carry_save(m, residual, self.steps.at("mantissa", left), valid=None,
                                     name="scaled", width=width, addend=2 * self._near)
        terms = list(scaled)
        if self._near:
            terms += [~part for part in multiply_carry_save(
                m, history.before(1, left), self._factor(m, history, 1), valid=None, name="near",
                width=width)]
        terms = compress(terms, width)
        exact = Signal(signed(width), name="exact", reset_less=True)
        distance = Signal(signed(width), name="distance", reset_less=True)
        less = Signal(signed(width), name="less", reset_less=True)      # by 1
        beyond = Signal(signed(width), name="beyond", reset_less=True)  # less by the bound and 1
        under = Signal(signed(width), name="under", reset_less=True)    # more by the bound
        bound = Signal(signed(width))
        m.d.comb += bound.eq(self.steps.at("bound", left - 2))
        sides = terms if centre is None else compress(
            [*terms, delay(m, centre.scaled, 2, name="centre")], width)
        m.d.sync += [distance.eq(compressed_sum(sides, width)),
                     less.eq(compressed_sum([*sides, C(-1, signed(1))], width)),
                     beyond.eq(compressed_sum(compress([*sides, ~bound], width), width)),
                     under.eq(compressed_sum(compress([*sides, bound], width), width)),
                     exact.eq(compressed_sum([*terms, delay(m, addend, 2,
                                                            name="addend")], width))]
        return exact, distance, (~less[-1], ~beyond[-1], under[-1])

    def _compressed_residual(self, m, history, distances, target, residual):
        """The residual for a fast clock: the products of all far terms become two numbers."""
        width, entry = len(residual), history.entry
        assert not distances or entry - history.dotted == 3 + self.config.stages.solver.products
        far = compress_registered(m, history.terms(self.products, distances, width), width,
                                  valid=None, name="far")
        # -x is ~x + 1: the two 1s are added to what the target leaves.
        less = Signal(width, name="less_target", reset_less=True)
        m.d.sync += less.eq(2 - target)
        # The dot product, which comes last, has the shortest way.
        parts = compress([less, *(~part for part in far)], width)
        m.d.sync += residual.eq(compressed_sum([*parts, self.dot], width))

    def _update(self, m, history, updates, flags, signed_steps, forgotten):
        """c of the row with one cycle left, by the loss; its range is checked. ``flags``: the row
        is active, its label is positive, it is beyond the bound, and below its target by that.
        """
        shifted, rest, beyond = updates
        active, positive, far, below = flags
        step, minus = signed_steps
        squares, squared_hinge, hinge, huber = (
            delay(m, self.loss == loss, 1, name=loss.name.lower())
            for loss in (Loss.LEAST_SQUARES, Loss.SQUARED_HINGE, Loss.HINGE, Loss.HUBER))
        proportional = Signal()         # to the distance
        resting = Signal()              # at a centre
        m.d.comb += [proportional.eq(squares | (squared_hinge & active) | (huber & ~far)),
                     resting.eq(squared_hinge & ~active)]
        up = (hinge & active & ~positive) | (huber & far & ~below)
        down = (hinge & active & positive) | (huber & below)
        # At most one term is not 0. Choices one after the other are more levels of logic.
        update = Signal(signed(UPDATE_WIDTH))
        m.d.comb += update.eq(
            Mux(proportional, shifted, 0) | Mux(resting, rest, 0) | Mux(up, step, 0)
            | Mux(down, minus, 0))
        late = int(self.config.clock.fast)
        counts = history.stage_valid[1] & ~history.stage_idle[1]
        judged = delay(m, proportional & ~forgotten & counts, late, name="judged")
        step_counts = delay(m, (hinge | huber) & counts, late, name="step_counts")
        rest_left = delay(m, resting & beyond & counts, late, name="rest_left")
        m.d.sync += self.overflowed.eq(
            (judged & out_of_range(delay(m, shifted, late, name="shifted"), UPDATE_WIDTH))
            | rest_left
            | (step_counts & self.steps.at("step_too_large", 1 - late)))
        return update
