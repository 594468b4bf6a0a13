"""Updates of a beat's rows, by the losses that are piecewise linear."""

from amaranth import C, Cat, Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from bitstep.golden.dither import DITHER_WIDTH
from bitstep.golden.steps import STEP_FRACTION
from bitstep.pipeline.parts.widths import MANTISSA_WIDTH, MAX_SHIFT, UPDATE_WIDTH
from bitstep.pipeline.registers import Loss
from bitstep_hw.parts.arithmetic import delay, out_of_range
from bitstep_hw.pipeline.update.derivative_step import STEP_WIDTH
from bitstep_hw.pipeline.update.step_shift import placed_dither, shifted_by


class RowSolvers(wiring.Component):
    """Updates c = floor(mantissa (z - y) / 2^(8 shift) + dither) of all rows of a beat, those of
    rows beyond the hinge 0, and those of the hinge loss, and of the Huber loss beyond its bound, K,
    rounded by the dither.

    A slot a cycle; the updates come 2 cycles after the distances. Golden model:
    :func:`bitstep.golden.steps.update_rule`.

    Parameters
    ----------
    config : PipelineConfig
        Gives ``dot_width``, ``rows_per_beat`` and ``row_weights``.

    Members
    -------
    valid : In(1), rows : In(rows_per_beat)
        There is a slot, and these rows take part in it.
    distances : In(signed(dot_width + 1)).array(rows_per_beat)
        z - y.
    positive : In(rows_per_beat)
        Rows whose label is not negative.
    dithers : In(16 rows_per_beat)
        One cycle before all of the above.
    mantissa, shift : In
        Step of the model; ``shift`` one cycle before the slot, too.
    derivative_step : In(47), step_too_large : In(1)
        K with 16 fraction bits, and that it is too large; with the slot. With ``row_weights`` these
        and ``mantissa`` are each row's own, arrays of ``rows_per_beat``.
    bound : In(dot_width + 1)
        Of the Huber loss: the largest distance that is not clipped; with the slot.
    loss : In(Loss)
        Constant during an epoch.
    o : Out(signed(32)).array(rows_per_beat)
        Updates; 0 of rows that take no part.
    overflowed : Out(1)
        With ``o``: an update left its range.
    """

    def __init__(self, *, config):
        self.config = config
        rows = config.rows.rows_per_beat

        def scaling(width):
            return In(width).array(rows) if config.row_weights else In(width)

        super().__init__({
            "valid": In(1), "rows": In(rows),
            "distances": In(signed(config.rows.dot_width + 1)).array(rows), "positive": In(rows),
            "dithers": In(rows * DITHER_WIDTH),
            "mantissa": scaling(MANTISSA_WIDTH), "shift": In(range(MAX_SHIFT + 1)),
            "derivative_step": scaling(STEP_WIDTH), "step_too_large": scaling(1), "loss": In(Loss),
            "bound": In(config.rows.dot_width + 1),
            "o": Out(signed(UPDATE_WIDTH)).array(rows), "overflowed": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        wrong = Signal(self.config.rows.rows_per_beat)
        valid = delay(m, self.valid, 1, name="valid")
        taking = delay(m, Mux(self.valid, self.rows, 0), 1, name="taking")
        shift = delay(m, self.shift, 2, name="shift")
        steps, step_too_large = self._late_steps(m, taking)
        for row in range(self.config.rows.rows_per_beat):
            self._solve(m, row, taking[row], shift, steps[row], wrong)
        m.d.sync += self.overflowed.eq(valid & (
            (wrong & taking).any()
            | (((self.loss == Loss.HINGE) | (self.loss == Loss.HUBER)) & step_too_large
               & taking.any())))
        return m

    def _late_steps(self, m, taking):
        """Whole numbers of K, of each row, a cycle late; a flag that that of a row which takes part
        is too large, or, without weights, that of the model.
        """
        if not self.config.row_weights:
            step = delay(m, self.derivative_step[STEP_FRACTION:], 1, name="step")
            too_large = delay(m, self.step_too_large, 1, name="step_too_large")
            return [step] * self.config.rows.rows_per_beat, too_large
        steps = [delay(m, step[STEP_FRACTION:], 1, name=f"step_{row}")
                 for row, step in enumerate(self.derivative_step)]
        too_large = delay(m, Cat(*self.step_too_large), 1, name="step_too_large")
        return steps, (too_large & taking).any()

    def _of_row(self, numbers, row):
        """That of a row among what rows are scaled by."""
        return numbers[row] if self.config.row_weights else numbers

    def _solve(self, m, row, takes, shift, step, wrong):
        """Update of a row."""
        dither = self.dithers.word_select(row, DITHER_WIDTH)
        addend = placed_dither(m, Cat(C(1, 1), dither), self.shift, name=f"addend_{row}")
        distance = self.distances[row]
        width = max(len(distance) + MANTISSA_WIDTH, len(addend)) + 2
        exact = Signal(signed(width), name=f"exact_{row}", reset_less=True)
        active, positive, up, above, below = (
            Signal(name=f"{name}_{row}", reset_less=True)
            for name in ("active", "positive", "up", "above", "below"))
        late_dither = delay(m, dither, 1, name=f"dither_{row}")
        with m.If(self.valid):
            m.d.sync += [
                exact.eq(distance * self._of_row(self.mantissa, row) + addend),
                positive.eq(self.positive[row]),
                active.eq(Mux(self.positive[row], distance[-1], ~distance[-1] & distance.any())),
                above.eq(distance > self.bound), below.eq(distance < -self.bound),
                up.eq((self._of_row(self.derivative_step, row)[:STEP_FRACTION]
                       + late_dither)[STEP_FRACTION]),
            ]
        shifted = shifted_by(m, exact, shift, name=f"shifted_{row}")
        rounded = (step + up)[:UPDATE_WIDTH - 1]
        with m.If(self.loss == Loss.HINGE):
            m.d.sync += self.o[row].eq(
                Mux(takes & active, Mux(positive, -rounded, rounded), 0))
        with m.Else():
            far = (self.loss == Loss.HUBER) & (above | below)
            counts = takes & ((self.loss != Loss.SQUARED_HINGE) | active)
            m.d.comb += wrong[row].eq(counts & ~far & out_of_range(shifted, UPDATE_WIDTH))
            m.d.sync += self.o[row].eq(
                Mux(counts, Mux(far, Mux(below, -rounded, rounded), shifted), 0))
