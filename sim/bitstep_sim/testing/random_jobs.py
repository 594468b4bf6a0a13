"""Random training jobs, for tests and benches."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from bitstep.golden.dither import epoch_key
from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.job import MODEL_LIMIT, EpochSteps, TrainingJob
from bitstep.pipeline.levels import decode, look_up
from bitstep.pipeline.losses import LOSSES
from bitstep.pipeline.memory import pack_codes, pack_floats, pack_labels
from bitstep.pipeline.parts.widths import COEFFICIENT_WIDTH, MANTISSA_WIDTH, MAX_SHIFT, SHIFT_UNIT
from bitstep.pipeline.registers import LabelFormat, Loss

# A label's magnitude and least shift: about 2^19 in units of a dot product, whatever the format.
_LABELS = {LabelFormat.SIGN: (1, 18), LabelFormat.INT16: (2000, 8), LabelFormat.INT32: (1 << 19, 0)}
_FLOAT_LABEL_SHIFT = 24     # more for floating-point rows: a dot product has 22 fraction bits
_UPDATE_BITS = 10           # about what an update has at least
_FLOAT_CORNERS = np.array([
    0x0000_0000, 0x8000_0000, 0x3F80_0000, 0xBF80_0000,     # 0, -0, 1, -1
    0x0000_0001, 0x807F_FFFF,                               # the ends of the subnormal numbers
    0x0080_0000, 0x8080_0000,                               # 2^-126, the least normal number
    0x0DA2_4260, 0x3F7F_FFFF, 0xBDFF_FFFF, 0x3380_0000,     # 1e-30, all mantissa bits, 2^-24
], np.uint32).view(np.float32)


def random_codes(config: PipelineConfig, shape: tuple[int, ...],
                 rng: np.random.Generator) -> np.ndarray:
    """Codes of every level that a quantizer uses."""
    if config.row_format == "two_levels" or config.bits == 1 or config.codebooks:
        return rng.integers(0, 1 << config.bits, shape, dtype=np.uint8)
    levels = rng.integers(-config.rows.level_limit, config.rows.level_limit + 1, shape)
    return _codes(levels, config.bits)


def random_tables(config: PipelineConfig, n_features: int,
                  rng: np.random.Generator) -> np.ndarray:
    """Codebooks in any order: int8, shape (n_features, 2 ** bits); both ends are there."""
    limit = config.rows.level_limit
    tables = rng.integers(-limit, limit + 1, (n_features, 1 << config.bits))
    tables[:, :2] = limit, -limit
    return rng.permuted(tables, axis=1).astype(np.int8)


def random_floats(shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """float32 in [-1, 1]; one in eight is a corner: a zero, an end, a tiny or a full mantissa."""
    values = rng.uniform(-1, 1, shape).astype(np.float32)
    return np.where(rng.random(shape) < 1 / 8, rng.choice(_FLOAT_CORNERS, shape), values)


def random_labels(label_format: LabelFormat, n_rows: int, rng: np.random.Generator) -> np.ndarray:
    """Labels as integers."""
    if label_format == LabelFormat.SIGN:
        return 2 * rng.integers(0, 2, n_rows) - 1
    magnitude, _ = _LABELS[label_format]
    return rng.integers(-magnitude, magnitude + 1, n_rows)


def random_fine_rows(config: PipelineConfig, levels: np.ndarray, cell_half_levels: int,
                rng: np.random.Generator) -> np.ndarray:
    """Fine rows that the levels may have been drawn from.

    Parameters
    ----------
    levels : ndarray of int64, shape (n_rows, n_features)
    cell_half_levels : int
        Half levels that a value may be away from its level.

    Returns
    -------
    ndarray of int16, shape (n_rows, n_features)
        One value in eight is at an end of its cell.
    """
    half = 1 << config.rows.fine_fraction - 1
    reach = cell_half_levels * half
    away = rng.integers(-reach, reach + 1, levels.shape)
    at_end = rng.random(levels.shape) < 1 / 8
    values = 2 * half * levels + np.where(at_end, np.where(away > 0, reach, -reach), away)
    limit = 2 * half * config.rows.level_limit
    return np.clip(values, -limit, limit).astype(np.int16)


def scaled_step(factor: float, *, mantissa_bits: int) -> tuple[int, int]:
    """Mantissa, of at least ``mantissa_bits`` bits if that is possible, and shift of a factor."""
    shift = 1
    while factor * 2 ** (SHIFT_UNIT * shift) < 1 << mantissa_bits and shift < MAX_SHIFT:
        shift += 1
    return min(round(factor * 2 ** (SHIFT_UNIT * shift)), (1 << MANTISSA_WIDTH) - 1), shift


@dataclass(frozen=True, kw_only=True)
class JobOptions:
    """Options of :func:`random_job`.

    Attributes
    ----------
    seed, epochs, batch, correction_period, copies
        As of :class:`~bitstep.pipeline.job.TrainingJob`.
    label_format : LabelFormat
        For losses of numbers; those of classes have signs, of a random model with one label in
        ten turned around, so that rows become inactive. The bound of the Huber loss is the median
        of the labels' magnitudes.
    intercept : bool
    warm : bool
        Start the model from random words.
    speed : float
        Step, relative to the largest that converges; far above 1 the model leaves its range.
    loss : Loss
    proximal_period : int
        Rows between proximal steps, whose threshold and limit both bite.
    cell_half_levels : int
        Half levels of a cell; half of the rows then agree with the random model in most
        features, since no other row is surely inactive with a few bits.
    model_bits, update_bits
        As of :class:`~bitstep.pipeline.job.TrainingJob`.
    weighted : bool
        Rows have weights (:func:`random_weights`); the pipeline must have ``row_weights``.
    """

    seed: int = 0
    epochs: int = 2
    batch: int = 1
    correction_period: int = 0
    label_format: LabelFormat = LabelFormat.INT16
    copies: int = 1
    intercept: bool = True
    warm: bool = False
    speed: float = 0.5
    loss: Loss = Loss.LEAST_SQUARES
    proximal_period: int = 0
    cell_half_levels: int = 0
    model_bits: int = 0
    update_bits: int = 0
    weighted: bool = False


def random_job(config: PipelineConfig, *, n_features: int, n_rows: int, **options) -> TrainingJob:
    """Draw a job with every level, small labels, and different steps in each epoch.

    Parameters
    ----------
    config : PipelineConfig
    n_features, n_rows : int
    **options
        The fields of :class:`JobOptions`.
    """
    given = JobOptions(**options)
    rng = np.random.default_rng(given.seed)
    extra = _extra_label_shift(config, n_features)
    # The largest step that converges, and a word's change by one row whose residual is a label.
    limits = config.rows.level_limit * config.rows.gradient_limit
    largest = 1 / (n_features + 1) / limits / given.batch
    change = given.speed * largest * config.rows.gradient_limit * 2.0 ** (19 + extra)
    start = rng.integers(-1 << 20, 1 << 20, n_features + 1) * given.warm
    tables = random_tables(config, n_features, rng) if config.codebooks else None
    rows, values = _random_rows(config, (n_rows, n_features), given.copies, tables, rng)
    if not LOSSES[given.loss].signs:
        label_format = given.label_format
        labels = random_labels(label_format, n_rows, rng)
    else:
        label_format = LabelFormat.SIGN
        hidden = rng.uniform(-1, 1, n_features)
        labels = np.where(values @ hidden < 0, -1, 1) * rng.choice([1, -1], n_rows, p=[0.9, 0.1])
    fine_rows = None
    if given.cell_half_levels:
        rows, fine_rows = _refetched_rows(config, values, labels[:, None] * np.sign(hidden),
                                     given.cell_half_levels, given.copies, rng)
    limit = 1 << COEFFICIENT_WIDTH - 1
    return TrainingJob(
        config=config, n_features=n_features, rows=rows,
        labels=pack_labels(labels, label_format),
        label_format=label_format, label_shift=_LABELS[label_format][1] + extra,
        intercept_level=config.rows.intercept_limit * given.intercept, batch=given.batch,
        correction_period=given.correction_period,
        coefficients=rng.integers(-limit, limit, n_features).astype(np.int32),
        epochs=_steps(given, given.speed * largest, change), model=start[1:].astype(np.int32),
        intercept=int(start[0]) * given.intercept, loss=given.loss,
        proximal_period=given.proximal_period,
        box_limit=max(2, round(change)) if given.proximal_period else MODEL_LIMIT,
        fine_rows=fine_rows, cell_half_levels=given.cell_half_levels, codebooks=tables,
        model_bits=given.model_bits, update_bits=given.update_bits,
        derivative_bound=bound_of(given.loss, labels),
        weights=random_weights(n_rows, given.seed) if given.weighted else None)


def random_weights(n_rows: int, seed: int) -> np.ndarray:
    """Weights of rows of every size; a fifth are 0, 1, or the largest."""
    rng = np.random.default_rng([seed, 16])
    found = np.exp2(rng.uniform(0, 16, n_rows)).astype(np.uint16)
    ends = rng.random(n_rows) < 1 / 5
    return np.where(ends, rng.choice([0, 1, 65535], n_rows), found).astype(np.uint16)


def bound_of(loss: Loss, labels: np.ndarray) -> int:
    """A bound for the derivative of the Huber loss, which clips about half of them; 0 of others."""
    return max(1, int(np.median(np.abs(labels)))) if LOSSES[loss].clipped else 0


def random_jobs(config: PipelineConfig, count: int, *, seed: int = 0, warm: bool = False,
                shared_labels: bool = False, speeds: Sequence[float] = (), **options,
                ) -> list[TrainingJob]:
    """Draw jobs on the same rows that one run of a pipeline for several models trains.

    Labels, their scale, steps, coefficients and first models differ; every other model starts from
    zero.

    Parameters
    ----------
    config : PipelineConfig
    count : int
    seed : int
    warm : bool
        Some models start from random words.
    shared_labels : bool
        The jobs have the labels of the first.
    speeds : sequence of float
        Step of each, relative to the largest that converges; the last is that of the rest.
    **options
        See :func:`random_job`.
    """
    speeds = list(speeds) or [0.5]
    drawn = [random_job(config, seed=seed + number, warm=warm and number % 2 == 0,
                        speed=speeds[min(number, len(speeds) - 1)], **options)
             for number in range(count)]
    first = drawn[0]
    return [replace(
        job, rows=first.rows, codebooks=first.codebooks, box_limit=first.box_limit,
        derivative_bound=first.derivative_bound, weights=first.weights,
        labels=first.labels if shared_labels else job.labels,
        label_shift=first.label_shift - number % 3 * (first.label_shift > 8),
        epochs=tuple(replace(mine, key=other.key)
                     for mine, other in zip(job.epochs, first.epochs, strict=True)))
        for number, job in enumerate(drawn)]


def _steps(given, first, change):
    """Steps that fall with the epochs, of two precisions in turn."""
    steps = []
    for epoch in range(given.epochs):
        mantissa, shift = scaled_step(first / (epoch + 1), mantissa_bits=(9, 2)[epoch % 2])
        threshold = max(1, round(change * given.proximal_period ** 0.5 / 16))
        steps.append(EpochSteps(mantissa, shift, 1000 // (epoch + 1), 4,
                                threshold * bool(given.proximal_period),
                                epoch_key(given.seed & 0xFFFF_FFFF, epoch)))
    return tuple(steps)


def _extra_label_shift(config, n_features):
    """Bits of shift beyond :data:`_LABELS`, so that updates are more than rounding."""
    if config.row_format == "float32":
        return _FLOAT_LABEL_SHIFT
    return max(0, (n_features * config.rows.level_limit ** 2).bit_length() + _UPDATE_BITS - 19)


def _codes(levels, bits):
    """Codes of levels of row format ``one_level``."""
    return ((levels + 1 >> 1) if bits == 1 else levels % (1 << bits)).astype(np.uint8)


def _random_rows(config, shape, copies, tables, rng):
    """Stored copies, and what the first one stands for in the dot product."""
    if config.row_format == "float32":
        floats = [random_floats(shape, rng) for _ in range(copies)]
        return tuple(pack_floats(copy, config.bus_width) for copy in floats), floats[0]
    codes = [random_codes(config, shape, rng) for _ in range(copies)]
    if tables is not None:
        dots = look_up(codes[0], tables)
    else:
        dots, _ = decode(codes[0], bits=config.bits, row_format=config.row_format)
    return tuple(pack_codes(copy, config.bits, config.bus_width) for copy in codes), dots


def _refetched_rows(config, levels, signs, cell_half_levels, copies, rng):
    """Stored copies of rows, and the fine rows that all of them are drawn from."""
    limit, fraction = config.rows.level_limit, config.rows.fine_fraction
    clear = (rng.random((len(levels), 1)) < 0.5) & (rng.random(levels.shape) < 0.9)
    levels = np.where(clear, limit * signs.astype(np.int64), levels)
    fine_rows = random_fine_rows(config, levels, cell_half_levels, rng)
    rows = [levels]
    for _ in range(copies - 1):
        pitch = 2 if config.bits == 1 else 1
        other = np.clip(levels + pitch * rng.integers(-1, 2, levels.shape), -limit, limit)
        in_cell = abs(fine_rows - (other << fraction)) <= cell_half_levels << fraction - 1
        rows.append(np.where(in_cell, other, levels))
    return tuple(pack_codes(_codes(copy, config.bits), config.bits, config.bus_width)
                 for copy in rows), fine_rows
