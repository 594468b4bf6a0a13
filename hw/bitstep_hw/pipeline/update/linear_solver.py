"""The scalar recursion: from a row's dot product to its update."""

from amaranth import C, Cat, Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from bitstep.golden.dither import DITHER_WIDTH
from bitstep.golden.steps import UNIT_FRACTION
from bitstep.pipeline.config import (
    LABEL_WIDTH,
    MANTISSA_WIDTH,
    MAX_LABEL_SHIFT,
    MAX_SHIFT,
    SHIFT_UNIT,
    SLACK_WIDTH,
    UPDATE_WIDTH,
    solver_stages,
)
from bitstep.pipeline.registers import Loss
from bitstep_hw.parts.arithmetic import (
    compress,
    compress_registered,
    compressed_sum,
    delay,
    enable_of,
    multiply,
    multiply_carry_save,
    out_of_range,
    partial_products,
)
from bitstep_hw.pipeline.update.unit_update import UNIT_WIDTH
from bitstep_hw.pipeline.update.update_history import UpdateHistory


class Solver(wiring.Component):
    """c_i = floor(mantissa (z_i - y_i) / 2^(8 shift) + dither), z_i corrected for the rows on
    their way.

    With Z the dot product with the model D + 1 rows ago and G_d the products with the rows
    before, z_i = Z - sum over d of c_(i-d) G_d. The last few terms decide the rate, so for them
    the mantissa is multiplied into G_d beforehand and c_(i-1) meets one product, one subtraction
    and one shift: ``recursion`` cycles. Time is counted backwards, in places
    (:class:`bitstep_hw.pipeline.update.update_history.UpdateHistory`).

    The dither is added with the residual's product, so it is not part of what decides the rate.
    The last step also sees on which side of its target a row is, exactly: rows beyond the hinge
    give c = 0, and the hinge loss takes K, rounded by the dither, for every other row.

    Latency is ``solver_stages(recursion)`` cycles from ``dot``, throughput a row every
    ``recursion`` cycles. Golden model: :func:`bitstep.golden.steps.update_rule`.

    Members
    -------
    clear : In(1)
        Forgets every c; between epochs.
    valid : In(1), idle_row : In(1)
        A row enters, ``solver_lead`` cycles before its dot product; a row that only fills a slot
        has c = 0.
    products : In(signed(gram_width)).array(lookahead), label : In(signed(32))
        Of the row that enters.
    dot : In(signed(dot_width))
        Dot product of the row that entered ``solver_lead`` cycles before.
    dither : In(16), take : Out(1)
        With the dot product: random bits of the row, and the strobe that they are taken.
    undecided : In(1), reach : In
        With ``refetch``. One cycle after the dot product: the row must be fetched again, so its c
        is 0 here; counts if ``probe``. With the dot product: by how much twice the dot product of
        the row at full precision may differ, with the model of the dot product.
    refetching : In(1), slack : In
        Whether rows are fetched again in this run; by how much the updates on their way may change
        ``reach``; constant during an epoch.
    probe, squash : In(1)
        The words in the store are the model that the row meets; no row counts, and no dither is
        taken.
    mantissa, shift, label_shift, loss, unit, unit_too_large : In
        Constant during an epoch; ``unit`` is K of
        :class:`bitstep_hw.pipeline.update.unit_update.UnitUpdate`, with 16 fraction bits.
    o_valid : Out(1), o : Out(signed(32)), saturated : Out(1)
        c of a row, and whether it did not fit (1 cycle after ``o`` with ``recursion`` 4).
    o_decided, o_undecided, o_retry, o_positive : Out(1), o_unit : Out(31)
        With ``refetch``, of the row of ``o``: its c is right; it must be fetched again; it may be
        on either side as far as look-ahead can tell; it has label +1; K, rounded by its dither.
    """

    def __init__(self, *, config):
        self.config = config
        super().__init__({
            "clear": In(1),
            "valid": In(1),
            "idle_row": In(1),
            "products": In(signed(config.gram_width)).array(config.lookahead),
            "label": In(signed(LABEL_WIDTH)),
            "dot": In(signed(config.dot_width)),
            "dither": In(DITHER_WIDTH), "take": Out(1),
            "undecided": In(1), "reach": In(config.reach_width), "slack": In(SLACK_WIDTH),
            "refetching": In(1), "probe": In(1), "squash": In(1),
            "loss": In(Loss),
            "unit": In(UNIT_WIDTH),
            "unit_too_large": In(1),
            "mantissa": In(MANTISSA_WIDTH),
            "shift": In(range(MAX_SHIFT + 1)),
            "label_shift": In(range(MAX_LABEL_SHIFT + 1)),
            "o_valid": Out(1),
            "o": Out(signed(UPDATE_WIDTH)),
            "o_decided": Out(1), "o_undecided": Out(1), "o_retry": Out(1), "o_positive": Out(1),
            "o_unit": Out(UPDATE_WIDTH - 1),
            "saturated": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        config = self.config
        recursion = config.recursion
        multiply_stages = 1 if recursion == 2 else 2        # of c times G, near terms
        near = self._near
        # Constant during an epoch, and wanted in many places: for a fast clock a register more.
        self._mantissa, self._shift = (
            delay(m, getattr(self, name), 1 if config.fast_clock else 0, name=name)
            for name in ("mantissa", "shift"))

        history = UpdateHistory(m, config, valid=self.valid, idle_row=self.idle_row,
                                clear=self.clear)
        at, entry = history.at, history.entry
        dotted = solver_stages(recursion)                   # place of the dot product
        # Far terms, subtracted before the mantissa is multiplied in.
        distances = range(near + 1, config.lookahead + 1)
        # For a fast clock a cycle earlier, since it is subtracted from something first.
        label = delay(m, self.label, entry - dotted - (2 if config.fast_clock else 1), name="label")
        target = Signal(signed(LABEL_WIDTH + config.max_label_shift), reset_less=True)
        m.d.sync += target.eq(label << self.label_shift)
        residual = Signal(signed(config.dot_width + 2), reset_less=True)
        if config.fast_clock:
            self._compressed_residual(m, history, distances, target, residual)
        else:
            far = [self._far_term(m, history, d) for d in distances]
            with m.If(at[dotted]):
                m.d.sync += residual.eq(self.dot - target - sum(far))

        # Near terms: mantissa * G_d first, then times c.
        m.d.comb += self.take.eq(at[dotted] & ~history.idle[dotted])
        if config.refetch:
            with m.If(self.squash):
                m.d.comb += self.take.eq(0)
        difference = self._compressed if config.fast_clock else self._subtracted
        exact, distance, above = difference(m, history, residual, self._dithered(m),
                                            multiply_stages)
        positive = delay(m, ~self.label[-1], entry - 1, name="positive")
        active = Mux(positive, distance[-1], above)
        forgotten = C(0)
        if config.refetch:
            reach = self._reach(m, at[dotted])
            enable = enable_of(config, at[dotted - 1])
            away = multiply(m, reach, self._mantissa, stages=multiply_stages, valid=enable,
                            name="away", width=len(reach) + MANTISSA_WIDTH + 1)
            away = delay(m, away, dotted - 2 - multiply_stages, name="away")
            undecided = delay(m, self.undecided, dotted - 2, name="undecided")
            forgotten = self._undecided(m, distance << 1, away, undecided, positive, history)
        self._finish(m, exact, active, positive, forgotten, self._row_unit(m, dotted), history)
        return m

    @property
    def _near(self):
        """Rows before whose products meet the mantissa beforehand."""
        return min(self.config.lookahead, 2 if self.config.recursion == 2 else 1)

    @property
    def _exact_width(self):
        return self.config.dot_width + 2 + MANTISSA_WIDTH + 1

    def _factor(self, m, history, d):
        """Mantissa times G_d, at the place where c_(i-d) is known."""
        config, entry = self.config, history.entry
        start = config.recursion * d
        stages = min(2, entry - start) if config.recursion > 2 else 1
        factor = multiply(m, self.products[d - 1], self._mantissa, stages=stages,
                          valid=enable_of(config, history.at[entry]), name=f"factor_{d}",
                          width=config.gram_width + MANTISSA_WIDTH)
        return delay(m, factor, entry - start - stages, name=f"factor_{d}")

    def _dithered(self, m):
        """What the row's dither adds to the exact product, beside the residual: d + 1/2 with d 16
        bits behind the point at ``8 shift``.
        """
        addend = Signal(MAX_SHIFT * SHIFT_UNIT, reset_less=True)
        doubled = Cat(C(1, 1), self.dither)
        with m.Switch(self._shift):
            for shift in range(1, MAX_SHIFT + 1):
                with m.Case(shift):
                    m.d.sync += addend.eq(doubled << SHIFT_UNIT * shift >> DITHER_WIDTH + 1)
        return addend

    def _row_unit(self, m, dotted):
        """K of the row at place 1, rounded by its dither."""
        fraction = self.unit[:UNIT_FRACTION]
        up = Signal(reset_less=True)
        m.d.sync += up.eq((fraction + self.dither)[UNIT_FRACTION])
        unit = Signal(UPDATE_WIDTH - 1, name="row_unit", reset_less=True)
        m.d.sync += unit.eq(self.unit[UNIT_FRACTION:] + delay(m, up, dotted - 3, name="up"))
        return unit

    def _subtracted(self, m, history, residual, addend, multiply_stages):
        """The mantissa times z - y, rounded and not, and whether it is positive, at place 1: near
        terms one after the other.
        """
        recursion, width = self.config.recursion, self._exact_width
        final_stages = recursion - multiply_stages          # subtract, shift, round
        place = solver_stages(recursion) - 1                # of the residual
        final = multiply(m, residual, self._mantissa, stages=multiply_stages,
                         valid=history.at[place], name="scaled", width=width,
                         addend=delay(m, addend, multiply_stages - 1, name="addend"))
        ready, product = place - multiply_stages, C(0)      # place of ``final``
        for d in range(self._near, 0, -1):
            start = recursion * d                           # place where c_(i-d) is known
            product = multiply(m, history.before(d, start), self._factor(m, history, d),
                               stages=multiply_stages, valid=history.at[start], name=f"near_{d}",
                               width=width)
            at_place = start - multiply_stages
            if d > 1:
                product = delay(m, product, at_place - ready, name=f"near_{d}")
                less = Signal(signed(width), name=f"less_{d}", reset_less=True)
                m.d.sync += less.eq(final - product)
                final, ready = less, ready - 1
            else:
                final = delay(m, final, ready - at_place, name="final")
        if not self._near:
            final = delay(m, final, ready - final_stages, name="final")
        exact = Signal(signed(width), name="exact")
        distance = Signal(signed(width + 1), name="distance")       # from the target
        m.d.comb += exact.eq(final - product)
        exact = delay(m, exact, final_stages - 1, name="exact")
        m.d.comb += distance.eq(exact - delay(m, addend, place - 1, name="distance_addend"))
        return exact, distance, ~distance[-1] & distance.any()

    def _compressed(self, m, history, residual, addend, multiply_stages):
        """As :meth:`_subtracted`, for a fast clock: the products are sums of two numbers until
        the last sum, the only one with a carry. What is asked of it has sums of its own.
        """
        assert (self.config.recursion, multiply_stages) == (4, 2)
        width = self._exact_width + 1
        start = self.config.recursion                       # place where c_(i-1) is known
        place = solver_stages(start) - 1                    # of the residual
        # -x is ~x + 1: the two 1s of the subtrahend are added here.
        scaled = multiply_carry_save(m, residual, self._mantissa, valid=None,
                                     name="scaled", width=width, addend=2 * self._near)
        terms = [delay(m, part, place - start, name=f"scaled_{number}")
                 for number, part in enumerate(scaled)]
        if self._near:
            terms += [~part for part in multiply_carry_save(
                m, history.before(1, start), self._factor(m, history, 1),
                valid=None, name="near", width=width)]
        terms = compress(terms, width)
        exact = Signal(signed(width), name="exact", reset_less=True)
        distance = Signal(signed(width), name="distance", reset_less=True)
        less = Signal(signed(width), name="less", reset_less=True)      # by 1
        m.d.sync += [distance.eq(compressed_sum(terms, width)),
                     less.eq(compressed_sum([*terms, C(-1, signed(1))], width)),
                     exact.eq(compressed_sum([*terms, delay(m, addend, place - start + 2,
                                                            name="addend")], width))]
        return exact, distance, ~less[-1]

    def _compressed_residual(self, m, history, distances, target, residual):
        """The dot product less the target and the far terms, for a fast clock: the products of all
        far terms become two numbers.
        """
        width, entry = len(residual), history.entry
        assert entry - solver_stages(self.config.recursion) == 3
        terms = []
        for d in distances:
            # The choice among the updates takes a cycle of its own.
            update = delay(m, history.before(d, entry), 1, name=f"far_{d}_update")
            product = delay(m, self.products[d - 1], 1, name=f"far_{d}_product")
            terms += partial_products(m, update, product, name=f"far_{d}")
        far = compress_registered(m, terms, width, valid=None, name="far")
        # -x is ~x + 1: the two 1s are added to what the target leaves.
        less = Signal(width, name="less_target", reset_less=True)
        m.d.sync += less.eq(2 - target)
        # What comes last, the dot product, has the shortest way.
        parts = compress([less, *(~part for part in far)], width)
        m.d.sync += residual.eq(compressed_sum([*parts, self.dot], width))

    def _far_term(self, m, history, d):
        """c_(i-d) times G_d, ready with the dot product, a cycle after the row entered."""
        product, valid = self.products[d - 1], history.at[history.entry]
        update = history.before(d, history.entry)
        return multiply(m, update, product, stages=1, valid=valid, name=f"far_{d}",
                        width=len(update) + len(product))

    def _reach(self, m, valid):
        """By how much twice the dot product may differ, all counted; beside the residual."""
        total = Signal(max(len(self.reach), len(self.slack)) + 1, reset_less=True)
        with m.If(valid):
            m.d.sync += total.eq(self.reach + self.slack)
        return total

    def _undecided(self, m, distance, away, undecided, positive, history):
        """Whether the row at place 1 has no update of its own, and what is to be done with it.

        ``distance`` is twice that from the target and ``away`` how far the row at full precision
        may be from its codes, both times the mantissa.
        """
        counts = history.at[1] & ~history.idle[1] & ~self.squash
        open_row = self.refetching & (distance <= away) & (distance >= -away)
        retry = counts & ~self.probe & open_row
        refetch = counts & self.probe & undecided
        m.d.sync += [
            self.o_retry.eq(retry), self.o_undecided.eq(refetch), self.o_positive.eq(positive),
            self.o_decided.eq(counts & ~retry & ~refetch),
        ]
        return retry | refetch | self.squash

    def _finish(self, m, exact, active, positive, forgotten, unit, history):
        """Shift, check the range, and hand c on."""
        at, idle = history.at, history.idle
        shifted = Signal(signed(len(exact) - SHIFT_UNIT))
        with m.Switch(self._shift):
            for shift in range(1, MAX_SHIFT + 1):
                with m.Case(shift):
                    m.d.comb += shifted.eq(exact >> SHIFT_UNIT * shift)
        update = Signal(signed(UPDATE_WIDTH))
        judged, unit_counts = Signal(), Signal()        # whose range matters
        with m.Switch(self.loss):
            with m.Case(Loss.LEAST_SQUARES, Loss.SQUARED_HINGE):
                counts = (self.loss == Loss.LEAST_SQUARES) | active
                m.d.comb += [update.eq(Mux(counts, shifted, 0)),
                             judged.eq(counts & ~forgotten)]
            with m.Default():
                m.d.comb += [update.eq(Mux(active, Mux(positive, -unit, unit), 0)),
                             unit_counts.eq(1)]
        late = 1 if self.config.fast_clock else 0
        judged = delay(m, judged & at[1] & ~idle[1], late, name="judged")
        unit_counts = delay(m, unit_counts & at[1] & ~idle[1], late, name="unit_counts")
        m.d.sync += self.saturated.eq(
            (judged & out_of_range(delay(m, shifted, late, name="shifted"), UPDATE_WIDTH))
            | (unit_counts & self.unit_too_large))
        if self.config.refetch:
            m.d.sync += self.o_unit.eq(unit)
        history.push(Mux(forgotten, 0, update))
        m.d.comb += [self.o_valid.eq(at[0]), self.o.eq(history.newest)]
