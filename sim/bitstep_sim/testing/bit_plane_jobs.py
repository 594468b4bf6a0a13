"""Random jobs on bit-plane rows."""

import numpy as np

from bitstep.golden.dither import epoch_key
from bitstep.pipeline.bit_planes import to_bit_planes
from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.job import MODEL_LIMIT, EpochSteps, TrainingJob
from bitstep.pipeline.losses import DERIVATIVE_FRACTION, LOSSES
from bitstep.pipeline.memory import pack_labels
from bitstep.pipeline.parts.widths import COEFFICIENT_WIDTH, MAX_SHIFT, SHIFT_UNIT
from bitstep.pipeline.registers import LabelFormat, Loss
from bitstep.training.stepping import MIN_MANTISSA, step_mantissa
from bitstep_sim.testing.random_jobs import bound_of, random_weights

# The least scale of a step that its registers hold, with a mantissa of full precision.
_LEAST_SCALE = MIN_MANTISSA * 2.0 ** -(SHIFT_UNIT * MAX_SHIFT)
_LABELS = {LabelFormat.SIGN: (1, 36), LabelFormat.INT16: (1000, 26),
           LabelFormat.INT32: (1 << 20, 16)}        # magnitude and shift


def random_bit_plane_job(config: PipelineConfig, *, n_features: int, n_rows: int, seed: int = 0,
                     planes: tuple[int, ...] = (4,), speed: float = 0.5, copies: int = 1,
                     weighted: bool = False, **options) -> TrainingJob:
    """Draw a job on bit-plane rows with every code; its epochs have the planes asked for.

    Parameters
    ----------
    config : PipelineConfig
    n_features, n_rows, seed : int
    planes : tuple of int
        Planes of each epoch.
    speed : float
        Step, relative to the largest that converges.
    copies : int
        Copies of the rows.
    weighted : bool
        Rows have weights.
    **options
        Fields of the job: ``batch``, ``correction_period``, ``loss``, ``label_format``,
        ``proximal_period``, ``intercept_level`` and others. With ``label_format`` INT32 and a loss
        of signs labels are derivatives at a centre.
    """
    rng = np.random.default_rng(seed)
    loss, batch = options.get("loss", Loss.LEAST_SQUARES), options.get("batch", 1)
    kind = options.pop("label_format", LabelFormat.SIGN if LOSSES[loss].signs
                       else LabelFormat.INT16)
    magnitude, shift = _LABELS[kind]
    labels = rng.choice([-1, 1], n_rows) if kind == LabelFormat.SIGN \
        else rng.integers(-magnitude, magnitude + 1, n_rows)
    if LOSSES[loss].signs and kind == LabelFormat.INT32:
        shift, labels = _LABELS[LabelFormat.SIGN][1], _derivatives(rng, n_rows, loss)
    limit, proximal = 1 << COEFFICIENT_WIDTH - 1, options.get("proximal_period", 0)
    entries = []
    for number, one in enumerate(planes):
        step = speed / (n_features + 1) / batch / (number + 1)
        scale = max(step * 4.0 ** -one, _LEAST_SCALE)
        entries.append(EpochSteps(
            *step_mantissa(scale, 1.0), correction_mantissa=1000 // (number + 1),
            correction_shift=4, threshold=900 * bool(proximal), planes=one,
            key=epoch_key(seed & 0xFFFF_FFFF, number)))
    rows = tuple(to_bit_planes(rng.integers(0, 1 << 16, (n_rows, n_features), np.uint16))
                 for _ in range(copies))
    choices = {"intercept_level": config.rows.intercept_limit, "batch": 1, "correction_period": 0,
               "model": rng.integers(-1 << 18, 1 << 18, n_features).astype(np.int32),
               "intercept": -777, "box_limit": 1 << 19 if proximal else MODEL_LIMIT,
               "derivative_bound": bound_of(loss, labels),
               "weights": random_weights(n_rows, seed) if weighted else None} | options
    return TrainingJob(
        config=config, n_features=n_features, rows=rows, bit_plane_rows=n_rows,
        labels=pack_labels(labels, kind), label_format=kind, label_shift=shift,
        coefficients=rng.integers(-limit, limit, n_features).astype(np.int32),
        epochs=tuple(entries), **choices)


def _derivatives(rng, n_rows, loss):
    """Labels that hold y and the derivative of a loss at a centre; a third of these are 0."""
    positive = rng.integers(0, 2, n_rows)
    largest = 1 << DERIVATIVE_FRACTION + (0 if LOSSES[loss].bounded else 2)
    sizes = rng.integers(0, largest + 1, n_rows) * (rng.random(n_rows) < 0.7)
    return 2 * np.where(positive, -sizes, sizes) + positive
