"""Numbers of a job and of a pipeline that decide about cycles."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bitstep.pipeline.bit_planes import BitPlaneLayout
from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.device import share_labels
from bitstep.pipeline.job import TrainingJob
from bitstep.pipeline.parts.widths import ceil_div
from bitstep.pipeline.registers import LabelFormat
from bitstep.pipeline.shapes import row_label_bits

WORD_BYTES = 8              # beat of the bus for labels, tables and models
BURST = 16                  # most beats of a burst, which ends where so many are aligned


@functools.lru_cache(maxsize=64)
def _sizes(config: PipelineConfig, n_features: int, n_rows: int, models: int, shared: bool,
           label_format: LabelFormat, weighted: bool) -> dict[str, Any]:
    """Fields of :class:`Shape` that rows have, whatever is done with them; kept, since bit-centred
    training counts some fifty runs of the same rows.
    """
    rows, beats = config.rows, config.rows.beats(n_features)
    per_beat = rows.model_lanes // 2
    # Of packed rows, those of a beat are taken together, with their labels.
    entries = ceil_div(n_rows, rows.rows_per_beat)
    row_bits = rows.label_rows * row_label_bits(
        label_format, 1 if shared else rows.label_streams, weighted)
    return {
        "rows": entries, "beats": beats,
        "label_words": ceil_div(entries * row_bits, 8 * WORD_BYTES),
        "labels_per_word": max(8 * WORD_BYTES // row_bits, 1),
        "words_per_label": max(row_bits // (8 * WORD_BYTES), 1),
        "model_words": beats * per_beat + 1,
        "pairs": (beats - 1) * per_beat + ceil_div(n_features - (beats - 1) * rows.lanes, 2),
        "fine_words": rows.fine_words(n_features) // 4,
        "codebook_words": rows.codebook_words(n_features),
        "check_cycles": rows.check_cycles(n_features),
        "sampled_beats": models if rows.packed else beats,
        "bit_planes": BitPlaneLayout(n_features) if rows.front_end == "planes" else None,
        "packed_rows": n_rows * rows.packed}


@dataclass(frozen=True)
class Shape:
    """Sizes and distances in time of one job on one pipeline. No row is looked at.

    Attributes
    ----------
    config : PipelineConfig
        The pipeline.
    rows, beats, copies, epochs : int
        Rows of an epoch, beats of a row, copies of the rows, epochs of the run.
    lookahead : int
        D, the register LOOKAHEAD.
    batch : int
        Rows of a batch.
    correction_period, proximal_period : int
        As the registers; 0 for none.
    models : int
        Models of the run.
    label_words : int
        64-bit words of an epoch's labels.
    labels_per_word, words_per_label : int
        Rows whose labels are in one; or words of a row's labels, if they take more than one.
    model_words : int
        64-bit words of a model in memory.
    pairs : int
        Pairs of weights that hold features.
    fine_words : int
        64-bit words of a fine row.
    codebook_words : int
        64-bit words of the codebooks; 0 without.
    warm : bool
        The run reads an initial model.
    check_cycles : int
        Cycles in which the run's registers are checked.
    sampled_beats : int
        Beats of words that are corrected together: those of a row, or, of packed rows, models.
    refetching : bool
        The run has a CELL_HALF_LEVELS.
    bit_planes : BitPlaneLayout or None
        Layout of bit-plane rows.
    planes : tuple of int
        Planes that each epoch reads of bit-plane rows; empty for others.
    packed_rows : int
        Rows of an epoch of packed rows, whose ``rows`` are beats; else 0.
    gradient, derivatives : bool
        The run sums the gradient of all rows; it writes derivatives in place of it.
    """

    config: PipelineConfig
    rows: int
    beats: int
    copies: int
    epochs: int
    lookahead: int
    batch: int
    correction_period: int
    proximal_period: int
    models: int
    label_words: int
    labels_per_word: int
    words_per_label: int
    model_words: int
    pairs: int
    fine_words: int
    codebook_words: int
    warm: bool
    check_cycles: int
    sampled_beats: int
    refetching: bool
    bit_planes: BitPlaneLayout | None = None
    planes: tuple[int, ...] = ()
    packed_rows: int = 0
    gradient: bool = False
    derivatives: bool = False

    @classmethod
    def of(cls, job: TrainingJob, config: PipelineConfig, lookahead: int | None,
           others: Sequence[TrainingJob] = (), *, gradient: bool = False,
           derivatives: bool = False) -> "Shape":
        """Return the shape of a job, or of several in one run, on the pipeline ``config``;
        ``lookahead`` is the value of the register, or None for what the driver writes into it.
        With ``gradient`` it is the shape of the run that sums the gradient, with ``derivatives``,
        too, of the one that writes derivatives.
        """
        jobs = (job, *others)
        return cls(
            config=config, copies=len(job.rows), epochs=len(job.epochs),
            lookahead=config.ahead.of_job(job) if lookahead is None else lookahead,
            batch=job.batch, correction_period=0 if gradient else job.correction_period,
            proximal_period=0 if gradient else job.proximal_period, models=len(jobs),
            warm=any(bool(one.model.any() or one.intercept) for one in jobs),
            refetching=job.cell_half_levels > 0,
            planes=tuple(steps.planes for steps in job.epochs if steps.planes),
            gradient=gradient, derivatives=derivatives,
            **_sizes(config, job.n_features, job.n_rows, len(jobs), share_labels(jobs),
                     job.label_format, job.weights is not None))

    @property
    def latency(self) -> int:
        """Cycles from a row's last beat to the first beat that may apply its update."""
        fine = self.gradient and not self.derivatives
        return self.config.latency + (self.config.stages.solver.fine if fine else 0)

    @property
    def all_model_words(self) -> int:
        """64-bit words of the models of the run."""
        return self.models * self.model_words

    @property
    def coefficient_words(self) -> int:
        """64-bit words of the coefficients of a model, with the constants behind them."""
        return self.model_words << int(self.config.stages.has_constants)

    @property
    def written_words(self) -> int:
        """64-bit words of a model, or of a gradient, that is written."""
        return self.model_words << int(self.gradient)

    @property
    def next_model(self) -> int:
        """Cycles between two models that are loaded or written one after the other."""
        return self.config.stages.port.next_model

    @property
    def row_beats(self) -> int:
        """Beats of an epoch."""
        return self.rows * self.beats

    @property
    def registered(self) -> bool:
        """True if streams pass registers and strobes take a cycle (``update_interval`` 4)."""
        return self.config.clock.registered_streams

    @property
    def correction_delay(self) -> int:
        """Cycles from the last slot of a row that samples the model to the first slot that may see
        its corrections; 0 without.
        """
        stage = self.config.stages.corrections
        return stage.delay(self.sampled_beats) if stage and self.correction_period else 0

    @property
    def proximal_cycles(self) -> int:
        """Cycles of a proximal step, from its strobe; 0 without."""
        stage = self.config.stages.proximal
        return stage.cycles(self.pairs, self.beats) if stage else 0

    @property
    def rounding_cycles(self) -> int:
        """Cycles in which the model of a batch is rounded; 0 if dot products meet its words."""
        stage = self.config.stages.rounding
        return stage.cycles(self.beats) if stage else 0


def shape_of(job: TrainingJob, config: PipelineConfig, lookahead: int | None,
             others: Sequence[TrainingJob] = (), *, gradient: bool = False,
             derivatives: bool = False) -> Shape:
    """:meth:`Shape.of`, kept with a single job: bit-centred training counts dozens of runs of jobs
    that differ in their model and steps alone (:meth:`bitstep.pipeline.job.TrainingJob.again`).
    """
    like = lookahead, bool(job.model.any() or job.intercept), gradient, derivatives
    if others or like not in job.shapes or job.shapes[like].config is not config:
        shape = Shape.of(job, config, lookahead, others, gradient=gradient,
                         derivatives=derivatives)
        if others:
            return shape
        job.shapes[like] = shape
    return job.shapes[like]
