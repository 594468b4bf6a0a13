"""A training job: everything that a device needs, as integers.

The driver, the simulated board and the golden model start from the same :class:`TrainingJob`, so
what is computed is fixed here; :mod:`bitstep.training.planning` makes a job from a quantized data
set and hyper-parameters.
"""

from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.levels import unpack_labels
from bitstep.pipeline.losses import LOSSES, check_derivatives, has_derivatives, least_shift
from bitstep.pipeline.needs import check_needs
from bitstep.pipeline.parts.formats import BIT_PLANE_BITS
from bitstep.pipeline.parts.widths import (
    BOUND_WIDTH,
    COEFFICIENT_WIDTH,
    MANTISSA_WIDTH,
    MAX_CELL_HALF_LEVELS,
    MAX_LABEL_SHIFT,
    MAX_SHIFT,
    MODEL_WIDTH,
    SHIFT_UNIT,
)
from bitstep.pipeline.registers import LabelFormat, Loss
from bitstep.pipeline.shapes import (
    LABEL_BITS,
    check_bit_planes,
    check_codebooks,
    check_few_bits,
    check_fine_rows,
    check_labels,
    check_proximal,
    check_rows,
    check_weights,
    check_words,
    label_bytes,
)

MODEL_LIMIT = (1 << MODEL_WIDTH - 1) - 1      # largest model word
KEY_WIDTH = 32                                # bits of an epoch's key
WORD_WIDTH = 64                               # bits of a word of the epoch table

# Fields of an entry of the epoch table and their bits, lowest first, as in the memory that the
# pipeline reads (docs/memory-layout.md); those of a leading underscore are 0.
EPOCH_FIELDS = (
    ("mantissa", MANTISSA_WIDTH), ("shift", MAX_SHIFT.bit_length()),
    ("planes", BIT_PLANE_BITS.bit_length()), ("_unused", 6),
    ("correction_mantissa", MANTISSA_WIDTH), ("correction_shift", MAX_SHIFT.bit_length()),
    ("label_shift", MAX_LABEL_SHIFT.bit_length()), ("_reserved", 5),
    ("threshold", MODEL_WIDTH - 1), ("_rest", 1), ("key", KEY_WIDTH))


# Names of an epoch's numbers, the least of each, what it must be below, and both in words.
STEP_RANGES = (
    *((name, 0, 1 << width, f"in [0, 2**{width})") for name, width in (
        ("mantissa", MANTISSA_WIDTH), ("correction_mantissa", MANTISSA_WIDTH),
        ("threshold", MODEL_WIDTH - 1), ("key", KEY_WIDTH))),
    *((name, least, most + 1, f"from {least} to {most}") for name, least, most in (
        ("shift", 1, MAX_SHIFT), ("correction_shift", 1, MAX_SHIFT),
        ("planes", 0, BIT_PLANE_BITS))))


@dataclass(frozen=True)
class EpochSteps:
    """The scale factors of one epoch: ``mantissa * 2 ** -(8 * shift)`` each.

    ``mantissa``, ``shift`` scale a residual into an update; ``correction_mantissa``,
    ``correction_shift`` scale a coefficient times a model word into a correction; ``threshold``
    is what a proximal step takes off the magnitude of every model word; ``key`` is the key of the
    rows' dither (:mod:`bitstep.golden.dither`), any 32 bits; ``planes`` are the bit planes that are
    read of bit-plane rows, 1 to 16, and 0 for others.
    """

    mantissa: int
    shift: int
    correction_mantissa: int = 0
    correction_shift: int = 1
    threshold: int = 0
    key: int = 0
    planes: int = 0

    def __post_init__(self):
        values = self.__dict__
        for name, least, limit, said in STEP_RANGES:
            if not least <= values[name] < limit:
                raise ValueError(f"{name} must be {said}, not {values[name]}")

    def words(self, label_shift: int = 0) -> tuple[int, ...]:
        """The table's entry, two words of 64 bits; of several models with the ``label_shift``."""
        values = {**vars(self), "label_shift": label_shift}
        entry, position = 0, 0
        for name, width in EPOCH_FIELDS:
            entry |= values.get(name, 0) << position
            position += width
        return tuple(entry >> start & (1 << WORD_WIDTH) - 1
                     for start in range(0, position, WORD_WIDTH))

    @staticmethod
    def scale(mantissa: int, shift: int) -> float:
        """The real factor that a mantissa and a shift stand for."""
        return mantissa * 2.0 ** -(SHIFT_UNIT * shift)


@dataclass(frozen=True, kw_only=True)
class TrainingJob:
    """One run of ``len(epochs)`` epochs of sequential mini-batch SGD, in integers.

    Parameters
    ----------
    config : PipelineConfig
        Bus width, bits and row format are part of the meaning; the rest only of the hardware.
    n_features : int
        Features of a row, 1 to ``config.rows.capacity``.
    rows : tuple of ndarray of uint8, each of shape (n_rows, beats * beat_bytes)
        Stored codes; epoch e reads ``rows[e % len(rows)]``.
    labels : ndarray of uint8
        Stored labels, a whole number of 8-byte words; of bit-plane rows none to count all as 0.
    label_format, label_shift : LabelFormat, int
        A stored label L counts as ``L << label_shift`` in the units of a dot product, unless it
        is a derivative (:func:`bitstep.pipeline.losses.has_derivatives`).
    intercept_level : int
        Level of the intercept's constant input, 0 for no intercept.
    batch : int
        Rows of a batch; the last batch of an epoch may be shorter.
    correction_period : int
        Rows between diagonal corrections, a multiple of ``batch``; 0 for none.
    coefficients : ndarray of int32, shape (n_features,)
        Correction coefficients, 18 bits signed.
    epochs : tuple of EpochSteps
        One entry an epoch.
    model : ndarray of int32, shape (n_features,)
        Model before the first epoch.
    intercept : int
        Intercept before the first epoch, 32 bits signed.
    loss : Loss
        What is minimised; all but least squares need labels of format SIGN.
    proximal_period : int
        Rows between proximal steps (soft threshold and box), a multiple of ``batch``; 0 for none.
    box_limit : int
        Largest magnitude of a model word after a proximal step; 31 bits.
    fine_rows : ndarray of int16, shape (n_rows, n_features), or None
        The rows with 16 bits a value, in units of ``2 ** -config.rows.fine_fraction`` of a level.
    cell_half_levels : int
        Largest difference of a value of ``fine_rows`` to the level of its code, in half levels, 1
        to 4; 0: no row is fetched again.
    codebooks : ndarray of int8, shape (n_features, 2 ** config.bits), or None
        Level of each feature's codes, from -127 to 127; needed by a pipeline with codebooks.
    bit_plane_rows : int
        Number of bit-plane rows, whose last block may be padded; 0 for others. ``rows`` and
        ``labels`` may be those of more rows, of which the first are meant.
    constants, constant_intercept : ndarray of int32, shape (n_features,), or None; int
        Added to every correction and, at the same boundaries, to the intercept; for bit-plane rows.
    model_bits, update_bits : int
        Bits of the model's weights that dot products meet, and of the updates, 2 to 16; 0: all
        (:mod:`bitstep.golden.rounded_model`, :func:`bitstep.golden.dither.round_floating`).
    derivative_bound : int
        Of the Huber loss, its largest derivative in units of a stored label, 26 bits, at least 1;
        0 for the other losses.
    weights : ndarray of uint16, shape (n_rows,), or None
        Weights of the rows: w stands for the factor w / 2**16 of a row's updates
        (:func:`bitstep.golden.steps.row_mantissa`). None: each has the factor 1.

    Raises
    ------
    ValueError
        If the parts do not fit each other.
    """

    config: PipelineConfig
    n_features: int
    rows: tuple[np.ndarray, ...]
    labels: np.ndarray
    label_format: LabelFormat
    label_shift: int
    intercept_level: int
    batch: int
    correction_period: int
    coefficients: np.ndarray
    epochs: tuple[EpochSteps, ...]
    model: np.ndarray
    intercept: int = 0
    loss: Loss = Loss.LEAST_SQUARES
    proximal_period: int = 0
    box_limit: int = MODEL_LIMIT
    fine_rows: np.ndarray | None = None
    cell_half_levels: int = 0
    codebooks: np.ndarray | None = None
    bit_plane_rows: int = 0
    constants: np.ndarray | None = None
    constant_intercept: int = 0
    model_bits: int = 0
    update_bits: int = 0
    derivative_bound: int = 0
    weights: np.ndarray | None = None

    @property
    def weighted(self) -> int:
        """1 if rows have weights, else 0: the register WEIGHTED."""
        return int(self.weights is not None)

    @property
    def few_bits(self) -> bool:
        """True if the model that dot products meet, or updates, are rounded to few bits."""
        return bool(self.model_bits or self.update_bits)

    @property
    def n_rows(self) -> int:
        """Rows of an epoch."""
        return self.bit_plane_rows or self.rows[0].shape[0]

    @property
    def stored_rows(self) -> int:
        """Rows that the stored blocks have room for."""
        return len(self.rows[0]) * self.config.rows.block_rows(self.n_features)

    def stored_labels(self, first: int, n_rows: int) -> np.ndarray:
        """Labels of rows from ``first`` on, a multiple of 8, as they are stored, int64."""
        if not self.labels.size:
            return np.zeros(n_rows, np.int64)
        part = self.labels[first * LABEL_BITS[self.label_format] // 8:]
        return unpack_labels(part, self.label_format, n_rows)

    def targets(self, first: int, n_rows: int) -> np.ndarray:
        """:meth:`stored_labels` in units of a dot product; derivatives as they are stored."""
        stored = self.stored_labels(first, n_rows)
        return stored if has_derivatives(self) else stored << self.label_shift

    def at(self, steps: EpochSteps) -> "TrainingJob":
        """The job as an epoch has it: labels and intercept in units of its planes' levels."""
        left = self.config.rows.planes - steps.planes
        if not left:
            return self
        then = copy(self)           # which is no job: at another epoch's planes it would not fit
        object.__setattr__(then, "label_shift", self.label_shift - left)
        object.__setattr__(then, "intercept_level", self.intercept_level >> left)
        return then

    def again(self, model: np.ndarray, intercept: int, epochs: tuple[EpochSteps, ...]
              ) -> "TrainingJob":
        """The job with another model and other steps, but epochs of the same planes, and no other
        check than theirs: the check of all parts takes longer than a pass over few rows.

        Raises
        ------
        ValueError
            If the model does not fit, or the planes are others.
        """
        self._check_model(model, intercept)
        if [one.planes for one in epochs] != [one.planes for one in self.epochs]:
            raise ValueError("A job that goes on must have epochs of the same planes")
        shapes, then = self.shapes, copy(self)
        vars(then).update(model=model, intercept=intercept, epochs=epochs, shapes=shapes)
        return then

    @cached_property
    def shapes(self) -> dict[Any, Any]:
        """What the cycle model keeps of runs of the job, and of those made of it by :meth:`again`
        (:func:`bitstep.cycles.shape.shape_of`).
        """
        return {}

    @property
    def beats(self) -> int:
        """Beats of a row."""
        return self.config.rows.beats(self.n_features)

    @property
    def lookahead(self) -> int:
        """Rows by which the model of a dot product trails; it matters to ``float32`` rows alone."""
        return self.config.ahead.of_result(self.beats)

    def __post_init__(self):
        config = self.config
        for name, kind in (("loss", Loss), ("label_format", LabelFormat)):
            value = getattr(self, name)
            try:
                object.__setattr__(self, name, kind(value))
            except ValueError:
                raise ValueError(f"{name} must be a member of {kind.__name__}, not {value!r}"
                                 ) from None
        if not 1 <= self.n_features <= config.rows.capacity:
            raise ValueError(
                f"The data must have 1 to {config.rows.capacity} features for this pipeline, not "
                f"{self.n_features}; build one with a larger max_features")
        check_rows(self.rows, config.rows, self.n_features)
        if self.n_rows * self.beats >= 1 << 32:
            raise ValueError(f"The rows ({self.n_rows}) times the beats of a row ({self.beats}) "
                             f"must be below 2**32, not {self.n_rows * self.beats}; train on fewer "
                             "rows or on a wider bus")
        self._check_labels()
        check_weights(self.weights, self.n_rows)
        if not 0 <= self.label_shift <= config.rows.max_label_shift:
            raise ValueError(f"label_shift must be from 0 to {config.rows.max_label_shift}, "
                             f"not {self.label_shift}")
        bits = 1 if has_derivatives(self) else LABEL_BITS[self.label_format]
        if bits + self.label_shift >= config.rows.dot_width:
            raise ValueError(f"label_shift must leave labels within {config.rows.dot_width} bits, "
                             f"not {self.label_shift}")
        if not 0 <= self.intercept_level <= config.rows.intercept_limit:
            raise ValueError(f"intercept_level must be from 0 to {config.rows.intercept_limit}, "
                             f"not {self.intercept_level}")
        if not 1 <= self.batch < 1 << 32:
            raise ValueError(f"batch must be from 1 to 2**32 - 1, not {self.batch}")
        check_needs(self)
        if not 0 <= self.correction_period < 1 << 32 or self.correction_period % self.batch:
            raise ValueError(f"correction_period must be a multiple of the batch ({self.batch}) "
                             f"below 2**32, not {self.correction_period}")
        if config.rows.floating and 0 < self.correction_period <= self.lookahead:
            raise ValueError(f"correction_period must be more than the look-ahead "
                             f"({self.lookahead}) for row format 'float32', not "
                             f"{self.correction_period}")
        check_words("coefficients", self.coefficients, self.n_features, COEFFICIENT_WIDTH)
        self._check_model(self.model, self.intercept)
        if not self.epochs:
            raise ValueError("A training job needs at least one epoch")
        self._check_loss()
        check_proximal(self)
        self._check_fine()
        check_few_bits(self)
        check_derivatives(self)
        check_bit_planes(self, least_shift(self))
        check_codebooks(self.codebooks, config.rows, self.n_features)

    def _check_model(self, model: np.ndarray, intercept: int):
        check_words("model", model, self.n_features, MODEL_WIDTH)
        if not -(1 << MODEL_WIDTH - 1) <= intercept < 1 << MODEL_WIDTH - 1:
            raise ValueError(f"intercept must fit {MODEL_WIDTH} bits, not {intercept}")

    def _check_labels(self):
        labels = self.labels
        if self.config.rows.planes and not labels.size:
            return
        # They may be those of all rows in the blocks, of which the first are meant.
        if labels.size <= label_bytes(self.stored_rows, self.label_format):
            labels = labels[:label_bytes(self.n_rows, self.label_format)]
        check_labels(labels, self.label_format, self.n_rows)

    def _check_loss(self):
        rule = LOSSES[self.loss]
        if self.config.loss_family != rule.loss_family:
            raise ValueError(f"A loss {self.loss.name} needs a pipeline with loss family "
                             f"{rule.loss_family!r}, not {self.config.loss_family!r}")
        if rule.signs and self.label_format != LabelFormat.SIGN and not has_derivatives(self):
            raise ValueError(f"A loss {self.loss.name} needs labels of format SIGN, "
                             f"not {self.label_format.name}")
        if self.label_shift < rule.least_label_shift:
            raise ValueError(f"label_shift must be at least {rule.least_label_shift} for the "
                             f"logistic loss, not {self.label_shift}")

        low, high = (1, (1 << BOUND_WIDTH) - 1) if rule.clipped else (0, 0)
        if not low <= self.derivative_bound <= high:
            raise ValueError(f"derivative_bound must be from {low} to {high} for the loss "
                             f"{self.loss.name}, not {self.derivative_bound}")

    def _check_fine(self):
        if not self.cell_half_levels:
            return
        if not 1 <= self.cell_half_levels <= MAX_CELL_HALF_LEVELS:
            raise ValueError(f"cell_half_levels must be from 0 to {MAX_CELL_HALF_LEVELS}, "
                             f"not {self.cell_half_levels}")
        if not LOSSES[self.loss].one_sided or self.batch != 1:
            raise ValueError("Refetching is for the hinge loss and a batch of 1, not for "
                             f"{self.loss.name} and {self.batch}")
        check_fine_rows(self.fine_rows, self.n_rows, self.n_features)
