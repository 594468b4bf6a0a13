"""Look-ahead: how many rows enter before the update of a row is there, and what that asks of
memories.
"""

import functools
from typing import Any

from bitstep.pipeline.parts.widths import ceil_div


class LookAhead:
    """Rows that look ahead in one pipeline.

    Parameters
    ----------
    config : PipelineConfig
    """

    def __init__(self, config: Any):
        self.config = config

    def of_rows(self, beats: int) -> int:
        """Rows before it that a row of ``beats`` beats takes into account."""
        return min(self.config.lookahead, self.config.stages.required_lookahead(beats))

    def of_result(self, beats: int) -> int:
        """Look-ahead that the rounding of floating-point rows depends on: 0 where every update
        reaches the words before the next batch.
        """
        return 0 if self.config.carries_on else self.of_rows(beats)

    def of_job(self, job: Any) -> int:
        """Register LOOKAHEAD of a run of a :class:`bitstep.pipeline.job.TrainingJob`."""
        if self.config.rows.floating and not self.config.carries_on:
            return job.lookahead
        return self.of_run(job.beats, job.batch)

    def of_run(self, beats: int, batch: int) -> int:
        """Look-ahead of a run whose results do not depend on it: where batches begin with an empty
        pipeline, no more rows can be in it than a batch has. Where rows go on after a batch, as
        many rows without data lie between two: fewer than the latency asks for would wait for each
        other, and of small batches of long rows each row had better wait for the one before.
        """
        config, lookahead = self.config, self.of_rows(beats)
        if config.carries_on:
            between = self.idle_rows(lookahead, beats) * beats
            alone = batch * (config.latency - 1) <= between or \
                (batch == 1 and not config.batch_lookahead)
            return 0 if alone else lookahead
        return min(lookahead, batch - 1) if config.drains else lookahead

    def idle_rows(self, lookahead: int, beats: int) -> int:
        """Rows without data between two batches, where rows go on after a batch: as many as
        LOOKAHEAD, ``lookahead``, less those that ``batch_lookahead`` saves. The update of a row
        must be there when it meets the products with it.
        """
        return min(lookahead, max(self._least_idle_rows(beats),
                                  lookahead - self.config.batch_lookahead))

    def _least_idle_rows(self, beats):
        return ceil_div(self.config.stages.solver.entered, beats) - 1

    def most_between(self, n_features: int | None) -> int:
        """Rows of a batch that can enter before the updates before it are there, at most: of rows
        of ``n_features``, or, for None, of any length.
        """
        return max(max(0, self.of_rows(beats) - self._least_idle_rows(beats))
                   for beats in self.lengths(n_features))

    def allows(self, lookahead: int, beats: int) -> bool:
        """True if rows of ``beats`` beats may use a look-ahead in this pipeline."""
        return lookahead <= self.config.lookahead and beats <= self.line_depth(lookahead + 1)

    def keeps(self, other: "LookAhead", beats: int) -> bool:
        """True if rows of ``beats`` beats give here what they give with the look-ahead that
        ``other`` has for them. Only floating-point results depend on it.
        """
        wanted = other.of_result(beats)
        return not self.config.rows.floating or (
            wanted == 0 if self.config.carries_on else self.allows(wanted, beats))

    def lengths(self, n_features: int | None) -> range:
        """Beats of rows of ``n_features``; for None of rows of any length that need a look-ahead
        of their own.
        """
        rows = self.config.rows
        if n_features is not None:
            beats = rows.beats(n_features)
            return range(beats, beats + 1)
        # Beyond the latency, longer rows need no more than one row.
        return range(1, min(rows.max_beats, self.config.latency) + 1)

    # Memories

    def line_depth(self, line: int) -> int:
        """Beats that delay line ``line`` (1 is the nearest row) must hold.

        Line d feeds the correlation with row i - d and, one further, the update; only rows short
        enough to need it use it, so all but the first two are short.
        """
        return self._line_depths[line - 1]

    @property
    def beats_in_flight(self) -> int:
        """Beats of the rows from one whose update is applied to the one that it is applied to, at
        most.
        """
        return max(line * depth for line, depth in enumerate(self._line_depths, start=1))

    def beats_back(self, place: int) -> int:
        """Beats from a row that looks ahead from its batch back to the ``place``-th row before the
        rows without data (1 is the nearest), at most.
        """
        at_most = 0
        for lookahead in range(place, self.config.lookahead + 1):
            longest = self.line_depth(lookahead + 1)
            # Rows that are longer need no rows between batches, so the longest are furthest apart.
            for beats in {*range(1, min(longest, self.config.stages.solver.entered) + 1), longest}:
                idle_rows = self.idle_rows(lookahead, beats)
                if idle_rows + place <= lookahead:
                    at_most = max(at_most, (idle_rows + place) * beats)
        return at_most

    @functools.cached_property
    def _line_depths(self) -> tuple[int, ...]:
        needed = [self.of_rows(beats) for beats in range(1, self.config.rows.max_beats + 1)]
        return tuple(
            max((beats for beats, d in enumerate(needed, start=1) if d >= line - 1), default=1)
            for line in range(1, self.config.lookahead + 2))
