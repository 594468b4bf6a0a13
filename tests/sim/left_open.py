"""Rows that a pipeline with refetching leaves open, from the formula of the cycle model."""

from collections import deque

import numpy as np

from bitstep.cycles import OpenRows
from bitstep.cycles.refetching import ACTIVE, BY_CODES, INACTIVE
from bitstep.golden.dither import dithers
from bitstep.golden.integer import IntegerEpoch
from bitstep.golden.steps import (
    MAX_DERIVATIVE_STEP,
    STEP_FRACTION,
    derivative_step,
    proximal_step,
    row_mantissa,
    update_rules,
)
from bitstep.pipeline.levels import decode, unpack_codes, unpack_labels


class StoreEpoch(IntegerEpoch):
    """An epoch of the golden model beside the words that a pipeline has in its store."""

    def __init__(self, job, steps, model, intercept, lookahead):
        super().__init__(job, steps, model, intercept)
        self.lookahead = lookahead
        self.store = model.copy()
        # Updates that the store has not met yet, of the latest rows with and without data.
        self.waiting = deque()
        self.since = 0
        slack = job.cell_half_levels * lookahead * job.n_features * job.config.rows.level_limit
        step = derivative_step(job, steps)
        self.slack = ((step >> STEP_FRACTION) + 1) * slack
        self.all_open = step >= MAX_DERIVATIVE_STEP
        self.rule_of = update_rules(job, steps)
        self.rows, self.outcomes = [], []

    def pass_row(self):
        """Let a row, with or without data, carry the update that is due."""
        if len(self.waiting) > self.lookahead:
            self.store = self.store - self.waiting.popleft()

    def flush(self):
        """Let rows without data pass until the store has every update."""
        for _ in range(self.lookahead + 1):
            self.pass_row()
            self.waiting.append(0)
        self.since += self.lookahead + 1

    def is_open(self, row, dot, target):
        """True if the row is replayed."""
        margin = self.job.cell_half_levels * int(np.abs(self.store).sum()) + self.slack
        steps, weights = self.steps, self.job.weights
        mantissa = steps.mantissa if weights is None else \
            row_mantissa(steps.mantissa, int(weights[row]), row, steps.key)
        return abs(2 * (dot - target)) <= margin or not mantissa or self.all_open

    def take(self, row, values, pending):
        """Take a row through the pipeline; as golden, with the order of a store."""
        job = self.job
        dot_row, gradient_row, target, dither = values
        update_of = self.rule_of(row)
        dot = int(dot_row.dot(self.model)) + job.intercept_level * self.intercept
        self.pass_row()
        change, outcome = 0, None
        if self.lookahead and self.is_open(row, dot, target):
            outcome = BY_CODES
            self.flush()
            assert (self.store == self.model).all()
            self.pass_row()
        if self.undecided(dot_row, dot, target):
            assert outcome is not None or not self.lookahead
            before = self.model.copy(), self.intercept
            self.refetch(row, target, dither, update_of)
            exact = job.fine_rows[row].astype(np.int64)
            z = int(exact.dot(before[0])) + (job.intercept_level * before[1]
                                             << job.config.rows.fine_fraction)
            side = target << job.config.rows.fine_fraction
            outcome = ACTIVE if (z < side if target > 0 else z > side) else INACTIVE
            self.store = self.store + self.model - before[0]
        else:
            update = update_of(dot, target, dither)
            change = update * gradient_row
            self.subtract(change, update)
        self.waiting.append(change)
        self.since += 1
        if outcome is not None:
            self.rows.append(row)
            self.outcomes.append(outcome)

    def run(self, rows):
        """As golden's, row after row."""
        job, pending = self.job, None
        period = job.correction_period
        for row, values in enumerate(rows):
            if period and row % period == 0:
                for _ in range(self.lookahead + 1 - self.since if row else 0):
                    self.pass_row()
                    self.waiting.append(0)
                if pending is not None:
                    self.model += pending
                    self.store = self.store + pending
                pending = self.next_correction(row)
                self.since = 0
            self.take(row, values, pending)
            if job.proximal_period and (
                    (row + 1) % job.proximal_period == 0 or row + 1 == job.n_rows):
                self.flush()
                assert (self.store == self.model).all()
                self.model = proximal_step(self.model, self.steps.threshold, job.box_limit)
                self.store = self.model.copy()


def open_rows(job, lookahead):
    """Entries of ``open_rows`` for every epoch of a job that stays in range."""
    labels = unpack_labels(job.labels, job.label_format, job.n_rows) << job.label_shift
    model, intercept, result = job.model.astype(np.int64), int(job.intercept), []
    for number, steps in enumerate(job.epochs):
        codes = unpack_codes(job.rows[number % len(job.rows)], job.config.rows, job.n_features)
        values = decode(codes, bits=job.config.bits, row_format=job.config.row_format)
        epoch = StoreEpoch(job, steps, model, intercept, lookahead)
        epoch.run(zip(*values, labels.tolist(), dithers(steps.key, job.n_rows).tolist(),
                      strict=True))
        model, intercept = epoch.model, epoch.intercept
        result.append(OpenRows(np.array(epoch.rows, int), np.array(epoch.outcomes, int)))
    return result
