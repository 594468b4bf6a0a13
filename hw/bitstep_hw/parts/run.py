"""Numbers of a run and of its epochs: what the shell gives to the pipeline."""

from amaranth import signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import Out

from bitstep.pipeline.bit_planes import PLANES
from bitstep.pipeline.parts.widths import (
    BOUND_WIDTH,
    FEW_BITS,
    LABEL_WIDTH,
    MANTISSA_WIDTH,
    MAX_CELL_HALF_LEVELS,
    MAX_FEATURES,
    MAX_LABEL_SHIFT,
    MAX_LOOKAHEAD,
    MAX_SHIFT,
    MODEL_WIDTH,
)
from bitstep.pipeline.registers import LabelFormat, Loss
from bitstep.pipeline.shapes import WEIGHT_BITS
from bitstep_hw.parts.dither import KEY_WIDTH

INTERCEPT_WIDTH = 17        # bits of the register INTERCEPT_LEVEL


def label_shape(models):
    """Shape of a row's label, or of the labels of several models."""
    label = signed(LABEL_WIDTH)
    return label if models == 1 else data.ArrayLayout(label, models)


def row_shape(config):
    """Shape of what belongs to a row beside its values, or to the rows of a beat that are taken
    together: labels, those of a row side by side; in pipelines with weights of rows
    :func:`weighted_shape`.
    """
    rows = config.rows.label_rows
    return weighted_shape(config.models, rows) if config.row_weights \
        else label_shape(rows * config.models)


def labels_of(config, beside):
    """Labels out of a value of :func:`row_shape`."""
    return beside.labels if config.row_weights else beside


def weighted_shape(models, rows=1):
    """Shape of the labels and weights of rows that are taken together, with the place of the first
    row's dither (:func:`bitstep.golden.steps.row_mantissa`), that of row 0 being 0.
    """
    return data.StructLayout({
        "labels": label_shape(rows * models),
        "weight": WEIGHT_BITS if rows == 1 else data.ArrayLayout(WEIGHT_BITS, rows),
        "place": WEIGHT_BITS})


def reads_derivatives(run):
    """1 if the labels of bit-plane rows are derivatives of the run's loss at a centre
    (:func:`bitstep.pipeline.losses.has_derivatives`).
    """
    return (run.label_format == LabelFormat.INT32) & (
        (run.loss == Loss.SQUARED_HINGE) | (run.loss == Loss.LOGISTIC))


class RunRegisters(wiring.Signature):
    """Registers that the pipeline needs, by the names of docs/registers.md in lower case; constant
    during a run.

    Members
    -------
    rows, beats_per_row, last_lanes : Out
        Shape of the data.
    batch, lookahead, correction_period, proximal_period : Out
        Order of rows, updates, corrections and proximal steps.
    loss, derivative_bound, label_shift, intercept_level, box_limit : Out
        Loss and bound of its derivative, scale of a label, level of the intercept's constant input,
        and box constraint.
    cell_half_levels, lookahead_margin, fine_address : Out
        Refetching: bounds of a row's cells and of updates in flight, and where fine rows are.
    gradient, derivatives, label_format : Out
        The run sums the gradient of all rows, or writes their derivatives in place of it; kind of
        the labels.
    model_bits, update_bits : Out
        Bits of the model that dot products meet, and of an update; 0 for all.
    weighted : Out
        With ``row_weights``: rows have weights.

    Parameters
    ----------
    row_weights : bool
        As of the configuration.
    """

    def __init__(self, *, row_weights=False):
        super().__init__({
            "rows": Out(32), "beats_per_row": Out(range(MAX_FEATURES + 1)), "last_lanes": Out(10),
            "batch": Out(32), "lookahead": Out(range(MAX_LOOKAHEAD + 1)),
            "correction_period": Out(32), "proximal_period": Out(32),
            "loss": Out(Loss), "derivative_bound": Out(BOUND_WIDTH),
            "label_shift": Out(range(MAX_LABEL_SHIFT + 1)),
            "intercept_level": Out(INTERCEPT_WIDTH), "box_limit": Out(MODEL_WIDTH - 1),
            "cell_half_levels": Out(range(MAX_CELL_HALF_LEVELS + 1)), "lookahead_margin": Out(32),
            "fine_address": Out(64), "gradient": Out(1), "derivatives": Out(1),
            "label_format": Out(2), "model_bits": Out(range(FEW_BITS[1] + 1)),
            "update_bits": Out(range(FEW_BITS[1] + 1)),
            **({"weighted": Out(1)} if row_weights else {}),
        })


class EpochSteps(wiring.Signature):
    """An epoch's entry of the epoch table (docs/memory-layout.md); constant during an epoch.

    Members
    -------
    mantissa, shift : Out
        Step of the updates: mantissa 2^(-8 shift).
    correction_mantissa, correction_shift : Out
        Step of the diagonal corrections, likewise.
    threshold : Out
        Soft threshold of a proximal step, in units of a model word.
    key : Out
        Key of the epoch's dither.
    label_shift : Out
        Scale of a label, of one of several models.
    planes : Out
        Bit planes that are read of bit-plane rows; 0 for others.
    """

    def __init__(self):
        super().__init__({
            "mantissa": Out(MANTISSA_WIDTH), "shift": Out(range(MAX_SHIFT + 1)),
            "correction_mantissa": Out(MANTISSA_WIDTH),
            "correction_shift": Out(range(MAX_SHIFT + 1)),
            "threshold": Out(MODEL_WIDTH - 1), "key": Out(KEY_WIDTH),
            "label_shift": Out(range(MAX_LABEL_SHIFT + 1)),
            "planes": Out(range(PLANES + 1)),
        })
