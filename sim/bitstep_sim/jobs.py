"""Random training jobs, for tests and benches."""

import numpy as np

from bitstep.config import COEFFICIENT_WIDTH, MANTISSA_WIDTH, MAX_SHIFT, SHIFT_UNIT, PipelineConfig
from bitstep.job import EpochSteps, TrainingJob
from bitstep.quantization.packing import pack_codes, pack_labels
from bitstep.registers import LabelFormat

# A label's magnitude and shift: about 2^19 in the units of a dot product, whatever the format.
_LABELS = {LabelFormat.SIGN: (1, 18), LabelFormat.INT16: (2000, 8), LabelFormat.INT32: (1 << 19, 0)}


def random_codes(config: PipelineConfig, shape: tuple[int, ...],
                 rng: np.random.Generator) -> np.ndarray:
    """Codes of every level that a quantizer uses."""
    if config.family == "double" or config.bits == 1:
        return rng.integers(0, 1 << config.bits, shape, dtype=np.uint8)
    levels = rng.integers(-config.level_limit, config.level_limit + 1, shape)
    return (levels % (1 << config.bits)).astype(np.uint8)


def random_labels(label_format: LabelFormat, n_rows: int, rng: np.random.Generator) -> np.ndarray:
    """Labels as integers."""
    if label_format == LabelFormat.SIGN:
        return 2 * rng.integers(0, 2, n_rows) - 1
    magnitude, _ = _LABELS[label_format]
    return rng.integers(-magnitude, magnitude + 1, n_rows)


def scaled_step(factor: float, *, mantissa_bits: int) -> tuple[int, int]:
    """Mantissa, of at least ``mantissa_bits`` bits if that is possible, and shift of a factor."""
    shift = 1
    while factor * 2 ** (SHIFT_UNIT * shift) < 1 << mantissa_bits and shift < MAX_SHIFT:
        shift += 1
    return min(round(factor * 2 ** (SHIFT_UNIT * shift)), (1 << MANTISSA_WIDTH) - 1), shift


def random_job(config: PipelineConfig, *, n_features: int, n_rows: int, seed: int = 0,
               epochs: int = 2, batch: int = 1, correction_period: int = 0,
               label_format: LabelFormat = LabelFormat.INT16, copies: int = 1,
               intercept: bool = True, warm: bool = False, speed: float = 0.5) -> TrainingJob:
    """A job with every level, small labels, and different steps in each epoch.

    Parameters
    ----------
    warm : bool
        Whether the model starts from random words.
    speed : float
        Step, relative to the largest that converges; far above 1 the model leaves its range.
    """
    rng = np.random.default_rng(seed)
    largest = 1 / (n_features + 1) / config.level_limit ** 2 / batch
    steps = []
    for epoch in range(epochs):
        mantissa, shift = scaled_step(speed * largest / (epoch + 1),
                                      mantissa_bits=(9, 2)[epoch % 2])
        steps.append(EpochSteps(mantissa, shift, 1000 // (epoch + 1), 4))
    limit = 1 << COEFFICIENT_WIDTH - 1
    start = rng.integers(-1 << 20, 1 << 20, n_features + 1) * warm
    codes = [random_codes(config, (n_rows, n_features), rng) for _ in range(copies)]
    return TrainingJob(
        config=config, n_features=n_features,
        rows=tuple(pack_codes(copy, config.bits, config.bus_width) for copy in codes),
        labels=pack_labels(random_labels(label_format, n_rows, rng), label_format),
        label_format=label_format, label_shift=_LABELS[label_format][1],
        intercept_level=config.level_limit * intercept, batch=batch,
        correction_period=correction_period,
        coefficients=rng.integers(-limit, limit, n_features).astype(np.int32),
        epochs=tuple(steps), model=start[1:].astype(np.int32),
        intercept=int(start[0]) * intercept)
