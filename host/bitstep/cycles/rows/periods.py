"""Periods of the corrections: boundaries, rows without data in too short periods, and waits."""

from bitstep.cycles.shape import Shape


class CorrectionPeriods:
    """Place of the next row in its period, and the correction that is under way.

    A period begins with its boundary, a row with data. The row D after it samples the model unless
    the period is the epoch's last; rows without data count for this, and fill a period of at
    most D rows. The next boundary waits for the correction of what was sampled.

    Attributes
    ----------
    at_boundary : bool
        The next row with data is a boundary.
    fill : bool
        A row without data comes first.
    """

    def __init__(self, shape: Shape):
        self.period, self.lookahead = shape.correction_period, shape.lookahead
        self.delay = shape.correction_delay if self.period else 0
        self.begin(0)

    def begin(self, rows):
        """Begin an epoch."""
        self.rows_left = rows
        self.to_boundary = 0
        self.since = 0              # rows since the boundary, at most D + 1
        self.at_boundary = self.period > 0
        self.fill = False
        self.needed = False         # a period follows this one
        self.corrected = 0          # cycle in which a boundary may follow

    @property
    def ready(self):
        """Cycle from which the next row may begin."""
        return self.corrected if self.meets_boundary else 0

    @property
    def meets_boundary(self):
        """True if the next row with data is a boundary, and adds the correction itself."""
        return self.at_boundary

    def end_of_data_row(self, end):
        """Note the last slot of a row with data."""
        rows_left = self.rows_left
        self.rows_left -= 1
        if not self.period:
            return
        boundary = self.at_boundary
        if boundary:
            self.since = 0
            self.needed = rows_left > self.period
            self.to_boundary = self.period
        self.to_boundary -= 1
        self.at_boundary = self.to_boundary == 0
        self._end_of_row(end)

    def end_of_opening_row(self, end):
        """Note the last slot of the row without data before a boundary in an empty pipeline."""
        if self.rows_left > self.period:
            self.corrected = end + self.delay

    def end_of_idle_row(self, end):
        """Note the last slot of a row without data."""
        if self.period:
            self._end_of_row(end)

    def _end_of_row(self, end):
        if self.since == self.lookahead and self.needed:
            self.corrected = end + self.delay
        self.fill = self.at_boundary and self.since < self.lookahead
        self.since = min(self.since + 1, self.lookahead + 1)

    def come_again(self, rows):
        """Note that the latest rows with data come again."""
        self.rows_left += rows
        if self.period:
            self.to_boundary += rows
            self.at_boundary = self.fill = False

    def state(self, now):
        """State that decides about later rows, without the distance to the next boundary."""
        if not self.period:
            return ()
        return (self.since, self.fill, self.needed, self.at_boundary,
                max(self.corrected - now, 0))

    def shift(self, cycles):
        """Move everything into the future."""
        self.corrected += cycles

    def skip(self, rows):
        """Let rows pass that all lie in this period."""
        self.rows_left -= rows
        if self.period:
            self.to_boundary -= rows

    def skip_periods(self, rows):
        """Let rows of several whole periods pass."""
        self.rows_left -= rows


class DrainedPeriods(CorrectionPeriods):
    """Periods where batches begin with an empty pipeline: a row without data before the boundary
    adds the correction and samples the model.
    """

    @property
    def meets_boundary(self):
        """False: the row without data has added the correction."""
        return False

    def _end_of_row(self, end):
        del end
