"""Ranges and units of a model: what the integers of a run mean in scaled feature space.

Notation as in docs/number-formats.md: s is the largest level, mu the value of a model word's last
bit in scaled feature space, L a stored label.
"""

import math
from dataclasses import dataclass

import numpy as np

from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.parts.widths import LABEL_WIDTH, MODEL_WIDTH, ceil_div
from bitstep.pipeline.registers import LabelFormat
from bitstep.quantization import QuantizedDataset
from bitstep.training.objective import Objective, Training

RANGE_EPOCHS = 16           # of the largest step, that it has room for; or a power of it
STORED_WIDTHS = {LabelFormat.SIGN: 1, LabelFormat.INT16: 16, LabelFormat.INT32: LABEL_WIDTH}


@dataclass(frozen=True)
class Units:
    """Units of the integers of a run, in scaled feature space.

    Attributes
    ----------
    model_unit : float
        mu, the value of a model word's or intercept word's last bit, in label units.
    label_offset : float
        Added to every prediction.
    """

    model_unit: float
    label_offset: float

    def weights(self, words: np.ndarray) -> np.ndarray:
        """Weights of scaled features from weights, of any shape."""
        return self.model_unit * np.asarray(words, np.float64)

    def intercepts(self, words: np.ndarray) -> np.ndarray:
        """Intercepts in scaled feature space from intercept words, of any shape."""
        return self.label_offset + self.model_unit * np.asarray(words, np.float64)

    def words(self, weights: np.ndarray, intercept: float) -> tuple[np.ndarray, int]:
        """Nearest weights and intercept word.

        Raises
        ------
        ValueError
            If one does not fit a model word.
        """
        values = np.append(np.asarray(weights, np.float64), intercept - self.label_offset)
        words = np.rint(values / self.model_unit)
        limit = 2.0 ** (MODEL_WIDTH - 1)
        if not (np.isfinite(words) & (words >= -limit) & (words < limit)).all():
            raise ValueError(f"The initial model must be below {limit * self.model_unit:.6g} in "
                             f"magnitude, not {np.abs(values).max():.6g}; choose a larger "
                             "model_range")
        return words[:-1].astype(np.int32), int(words[-1])


def automatic_range(data: QuantizedDataset, config: PipelineConfig, objective: Objective,
                    training: Training, *,
                    initial: tuple[np.ndarray, float] | None = None) -> float:
    """The default of ``model_range``: as small as the steps allow, so that updates are fine.

    A feature is at most 1 in magnitude, so an epoch changes a weight by at most its step times its
    batches times the largest mean derivative of a batch. That derivative is taken as 4 labels for
    least squares, Huber and squared hinge, and 2 for hinge and logistic loss, where it is at most
    1. The range is that of 16 epochs with the largest step, or 256, 4,096 ..., if the steps add up
    to more; so a resumed run has the range of one that was not interrupted. It is never more
    than 32 labels (least squares, Huber) or 128 (the other losses), unless a given model is larger.

    Parameters
    ----------
    data, config, objective, training, initial
        See :func:`bitstep.training.planning.plan`.

    Returns
    -------
    float
        A multiple of the largest label.
    """
    rule, steps = objective.rule, np.asarray(training.steps)
    shares, epochs = float((steps / steps.max()).sum()), RANGE_EPOCHS
    while epochs < shares:
        epochs *= RANGE_EPOCHS
    with np.errstate(over="ignore"):        # of a huge step, which is beyond every limit
        reach = float(rule.max_derivative * ceil_div(data.n_rows, int(training.batch)) * epochs
                      * steps.max())
    start = 0.0
    if initial is not None:
        values = np.append(np.asarray(initial[0], np.float64), initial[1] - data.label_offset)
        start = float(np.abs(values).max()) / (data.label_scale * largest_stored(data))
        if start > reach / 2:       # not a model of these steps
            reach += start
    chosen = min(reach, rule.model_range)
    if math.isfinite(start) and start >= chosen:
        chosen = 2 * start
    # Labels that are stored with many bits leave room for less.
    return min(chosen, _room(data, config, objective))


def largest_stored(data: QuantizedDataset) -> int:
    """Largest magnitude of a stored label, or, in a range that was given, of any; at least 1."""
    return data.labels.limit or max(data.labels.largest(data.n_rows), 1)


def label_shift(data: QuantizedDataset, config: PipelineConfig, objective: Objective,
                model_range: float) -> int:
    """Largest label shift that keeps ``model_range`` times the largest label in a model word, and
    labels within the dot products of every pipeline that can run the rows: one for longer rows
    has wider ones, which must not change the model.

    Parameters
    ----------
    data : QuantizedDataset
        Gives the largest stored label.
    config : PipelineConfig
        Gives widths and the largest shift.
    objective : Objective
        Gives the loss; the logistic one needs room for its sigmoid.
    model_range : float
        Largest weight that must fit, as a multiple of the largest label.

    Raises
    ------
    ValueError
        If there is none.
    """
    largest = largest_stored(data)
    room = 2.0 ** (MODEL_WIDTH - 1) * config.rows.level_limit / largest
    if room < model_range:
        raise ValueError(f"model_range must be at most {room:.6g} for labels stored with "
                         f"{largest.bit_length() + 1} bits, not {model_range:.6g}; store them "
                         "with fewer")
    if _room(data, config, objective) < model_range:
        raise ValueError(f"model_range must be at most {_room(data, config, objective):.6g} for "
                         f"the logistic loss, not {model_range:.6g}")
    return min(math.floor(math.log2(room) - math.log2(model_range)), config.rows.max_label_shift,
               config.rows.dot_width_of(data.n_features) - 1 - STORED_WIDTHS[data.label_format])


def _room(data, config, objective):
    """Largest possible ``model_range``."""
    room = 2.0 ** (MODEL_WIDTH - 1) * config.rows.level_limit / largest_stored(data)
    return room * 2.0 ** -objective.rule.least_label_shift
