"""One epoch on rows of integer levels: the specification of the integer pipelines."""

import numpy as np

from bitstep.golden.rounded_model import rounded_model
from bitstep.golden.rounding import fits, round_shift
from bitstep.golden.steps import Overflowed, correction, proximal_step, update_rules
from bitstep.pipeline.parts.widths import MODEL_WIDTH
from bitstep.pipeline.registers import Overflow


class IntegerEpoch:
    """Model and intercept during one pass over the rows."""

    def __init__(self, job, steps, model, intercept):
        self.job, self.steps = job, steps
        self.model, self.intercept = model.copy(), intercept
        self.coefficients = job.coefficients.astype(np.int64)
        self.refetched_rows = 0
        # No |model word| is larger; finding it anew each row is slow.
        self.bound = 1 << MODEL_WIDTH - 1

    def run(self, rows):
        """Take every row, as (dot levels, gradient levels, label in units of a dot product,
        dither).
        """
        job = self.job
        level, period, batch = job.intercept_level, job.correction_period, job.batch
        rule_of = update_rules(job, self.steps)
        pending, constant = None, self.constant()
        seen, seen_intercept = self.model, self.intercept
        for row, (dot_row, gradient_row, target, dither) in enumerate(rows):
            if period and row % period == 0:
                if pending is not None:
                    self.model += pending
                    self.check()
                    self.move_intercept(constant)
                pending = self.next_correction(row)
            update_of = rule_of(row)
            if row % batch == 0:
                seen, seen_intercept = self.seen_model(row // batch), self.intercept
            dot = int(dot_row.dot(seen)) + level * seen_intercept
            if job.cell_half_levels and self.undecided(dot_row, dot, target):
                self.refetch(row, target, dither, update_of)
            else:
                update = update_of(dot, target, dither)
                if update:
                    self.subtract(update * gradient_row, update)
            if job.proximal_period and (
                    (row + 1) % job.proximal_period == 0 or row + 1 == job.n_rows):
                self.model = proximal_step(self.model, self.steps.threshold, job.box_limit)

    def seen_model(self, number):
        """Model that a batch's dot products meet."""
        if self.job.model_bits:
            return rounded_model(self.model, self.job.model_bits, self.steps.key, number)
        return self.model.copy() if self.job.batch > 1 else self.model

    def subtract(self, change, update):
        """Take an update's change from the model and its part from the intercept."""
        self.model -= change
        self.bound += abs(update) * self.job.config.rows.level_limit
        if self.bound >= 1 << MODEL_WIDTH - 1:
            self.check()
        self.move_intercept(-update * self.job.intercept_level)

    def move_intercept(self, change):
        """Add to the intercept, which must fit its word."""
        self.intercept += change
        if not fits(self.intercept, MODEL_WIDTH):
            raise Overflowed(Overflow.MODEL)

    def check(self):
        """Every model word must fit its width."""
        if not fits(self.model, MODEL_WIDTH):
            raise Overflowed(Overflow.MODEL)
        self.bound = int(np.abs(self.model).max())

    def next_correction(self, row):
        """Correction that the next boundary adds; None if there is none, since what is never added
        cannot leave its range.
        """
        if row + self.job.correction_period >= self.job.n_rows:
            return None
        exact = correction(self.model, self.coefficients, self.steps, self.job.constants)
        if any(not fits(value, MODEL_WIDTH) for value in [*exact, self.constant()]):
            raise Overflowed(Overflow.CORRECTION)
        return exact.astype(np.int64)

    def constant(self):
        """What a boundary adds to the intercept, which no coefficient corrects."""
        none = np.zeros(1, np.int64)
        return int(correction(none, none, self.steps, none + self.job.constant_intercept)[0])

    def undecided(self, levels, dot, target):
        """True if the fine row may be on either side of the hinge.

        A value lies within ``cell_half_levels`` half levels of its level q and within the ends of
        the grid, so twice its product with x lies between twice q x and that plus or minus
        ``cell_half_levels |x|``, where the end of the grid does not forbid it.
        """
        limit, size = self.job.config.rows.level_limit, np.abs(self.model)
        outwards = np.where(self.model > 0, levels, -levels)    # limit: q x is the largest there is
        high = 2 * dot + self.job.cell_half_levels * int(size[outwards != limit].sum())
        low = 2 * dot - self.job.cell_half_levels * int(size[outwards != -limit].sum())
        if target > 0:      # active below the target
            return low < 2 * target <= high
        return low <= 2 * target < high

    def refetch(self, row, target, dither, update_of):
        """Decide and apply a fine row, on the model that its codes met."""
        fraction, level = self.job.config.rows.fine_fraction, self.job.intercept_level
        self.refetched_rows += 1
        values = self.job.fine_rows[row].astype(np.int64)
        dot = int(values.dot(self.model)) + (level * self.intercept << fraction)
        # The side of the hinge is what matters, and a shift of both sides keeps it.
        update = update_of(dot, target << fraction, dither)
        if update:
            self.subtract(round_shift(update * values, fraction), update)
