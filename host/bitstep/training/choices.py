"""Choices of a training: defaults for what a user leaves open, and which choices go together.

Estimators, the command line and races resolve their parameters here.
"""

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bitstep.pipeline.losses import LOSSES
from bitstep.pipeline.parts.formats import FLOAT_BITS, WOVEN, WOVEN_BITS
from bitstep.pipeline.registers import Loss
from bitstep.quantization import ENCODINGS, Grid, QuantizedRows, WovenRows
from bitstep.quantization.encodings import fine_encodings
from bitstep.quantization.level_tables import check_levels
from bitstep.quantization.scaling import clipped_share
from bitstep.training.models import Model
from bitstep.training.objective import Objective, Training
from bitstep.training.planes import resolve_planes
from bitstep.training.schedules import SCHEDULES, automatic_step, centred_step, schedule_steps


class ChoiceError(ValueError):
    """Choices that do not go together.

    Attributes
    ----------
    rule : str
        The rule that is broken, for messages in the words of another interface: ``float`` (bits and
        encoding of floating-point rows), ``bits``, ``corrected``, ``refetch-loss``,
        ``refetch-float``, ``refetch-encoding``, ``refetch-rows``, ``refetch-batch``, ``levels``,
        ``few-bits``, ``woven`` or ``centred``.
    """

    def __init__(self, rule: str, message: str):
        super().__init__(message)
        self.rule = rule


class OptimumWarning(UserWarning):
    """Solver ``bit-centred`` goes to another optimum than that of the rows."""


@dataclass(frozen=True, kw_only=True)
class RowChoice:
    """Rows that a model is trained on.

    Attributes
    ----------
    bits, encoding : int, str
        See :func:`bitstep.quantization.quantize_rows`.
    refetch : bool
        True if rows are fetched again with 16 bits a value.
    levels : {"uniform", "optimal"}
    """

    bits: int
    encoding: str
    refetch: bool
    levels: str = "uniform"


def resolve_rows(model: Model, *, bits: int | None = None, encoding: str | None = None,
                 refetch: bool | None = None, batch: int = 1,
                 has_fine_rows: bool = True, levels: str = "uniform",
                 few_bits: bool = False) -> RowChoice:
    """Fill in what is left open, and check that all goes together.

    Parameters
    ----------
    model : Model
        Gives the defaults and the loss.
    bits, encoding
        None for the model's; 32 bits and encoding ``float`` imply each other.
    refetch : bool or None
        None: wherever loss and encoding allow it, and the rows are there.
    batch : int
        Rows of a batch.
    has_fine_rows : bool
        True if fine rows are there or can be made.
    levels : {"uniform", "optimal"}
        Optimal ones exclude refetching.
    few_bits : bool
        True if the model that dot products meet, or updates, have few bits, which excludes
        refetching, floating-point rows and woven ones.

    Raises
    ------
    ChoiceError
        If choices do not go together.
    """
    if few_bits:
        _check_few_bits(bits, encoding, refetch)
        refetch = False
    if encoding == WOVEN:
        if bits not in (None, WOVEN_BITS) or levels != "uniform" or refetch:
            raise ChoiceError("woven", "Woven rows (planes, or solver 'bit-centred') have bits and "
                              "encoding of their own, levels='uniform' and no refetching; leave "
                              "these parameters out")
        return RowChoice(bits=WOVEN_BITS, encoding=WOVEN, refetch=False)
    if bits is None:
        bits = FLOAT_BITS if encoding == "float" else model.bits
    if encoding is None:
        encoding = "float" if bits == FLOAT_BITS else model.encoding
    try:
        Grid(encoding, bits)
    except ValueError as error:
        apart = encoding in ENCODINGS and (bits == FLOAT_BITS) != (encoding == "float")
        raise ChoiceError("float" if apart else "bits", str(error)) from error
    check_corrected(encoding, model.loss)
    if levels != "uniform":
        try:
            check_levels(levels, encoding, bits)
        except ValueError as error:
            raise ChoiceError("levels", str(error)) from error
        if refetch:
            raise ChoiceError("levels", "refetch=True needs levels='uniform', since refetching "
                              "needs equally spaced levels")
        refetch = False if LOSSES[model.loss].one_sided else refetch
    return RowChoice(bits=bits, encoding=encoding, levels=levels,
                     refetch=_refetches(model, encoding, refetch, batch, has_fine_rows))


def resolve_scaler(scaler: str | None, solver: str = "sgd") -> str:
    """How columns are scaled; None: ``quantile``, or ``minmax`` with solver ``bit-centred``.

    Columns that are clipped have another optimum, and that solver promises the one of the rows.
    """
    if scaler is not None:
        return scaler
    return "minmax" if solver == "bit-centred" else "quantile"


def other_optimum(solver: str, clip: np.ndarray | None, features: Any = None,
                  deviation: float = 0.0) -> str | None:
    """A sentence if solver ``bit-centred`` goes to another optimum than that of the rows that a
    user has; None for others.

    Parameters
    ----------
    solver : str
    clip : ndarray of float64, shape (2, n_features), or None
        Of the scaler.
    features : ndarray of float or RowView, shape (n_rows, n_features), or None
        Rows as they were before they were clipped; None if only codes are there.
    deviation : float
        Of copies from weights (:class:`bitstep.training.copies.Pass`).
    """
    if solver != "bit-centred" or (clip is None and not deviation):
        return None
    parts = []
    if clip is not None:
        count = int(np.isfinite(clip).any(axis=0).sum())
        share = "" if features is None else \
            f" ({100 * clipped_share(features, clip):.2g} % of all values)"
        parts.append(f"scaler 'quantile' clips {count} of {clip.shape[1]} columns{share}, 'minmax' "
                     "none")
    if deviation:
        parts.append(f"copies of rows deviate from their weights by {100 * deviation:.2g} %, so no "
                     "bound of the gap is given (ratios of small whole numbers are exact)")
    return f"Solver 'bit-centred' ends at the optimum of other rows: {', and '.join(parts)}"


def _check_few_bits(bits, encoding, refetch):
    if refetch or bits == FLOAT_BITS or encoding in ("float", WOVEN):
        raise ChoiceError("few-bits", "model_bits and update_bits are for rows of 1 to 8 bits "
                          "without planes and without refetch; leave them out, or choose other "
                          "rows")


def check_corrected(encoding: str, loss: Loss) -> None:
    """Raise ChoiceError if an encoding is corrected for another loss."""
    if encoding != WOVEN and ENCODINGS[encoding].corrected and not LOSSES[loss].quadratic:
        raise ChoiceError("corrected", f"encoding={encoding!r} is corrected for the squared loss "
                          f"alone, not for {LOSSES[loss].name!r}; choose encoding='nearest', "
                          "'stochastic' or 'double', or loss='squared_error'")


def _refetches(model, encoding, asked, batch, has_fine_rows):
    loss = LOSSES[model.loss]
    if not loss.one_sided:
        if asked:
            raise ChoiceError("refetch-loss", "refetch=True needs loss='hinge', whose update "
                              f"depends on one side of a bound only, not {loss.name!r}")
        return False
    if not ENCODINGS[encoding].cell:
        if asked:
            rule = "refetch-float" if encoding == "float" else "refetch-encoding"
            raise ChoiceError(rule, f"refetch=True needs encoding {fine_encodings('or')}, "
                              f"whose codes bound the value, not {encoding!r}")
        return False
    if asked is False or (asked is None and not has_fine_rows):
        return False
    if not has_fine_rows:
        raise ChoiceError("refetch-rows", "Refetching needs fine rows, and the data "
                          "have none; quantize with fine_rows=True")
    if batch != 1:
        raise ChoiceError("refetch-batch", "Refetching needs batch=1, because every row is decided "
                          f"with the model before it, not {batch}; refetch=False uses the codes "
                          "alone")
    return True


def resolve_training(rows: QuantizedRows | WovenRows, objective: Objective, *, epochs: int,
                     step: float | str | None = "auto",
                     schedule: str | os.PathLike | Sequence[float] = "inverse", batch: int = 1,
                     fit_intercept: bool = True, planes: Any = None, solver: str = "sgd",
                     **options: Any) -> Training:
    """Steps for rows and an objective.

    Parameters
    ----------
    epochs, schedule
        See :func:`bitstep.training.schedules.schedule_steps`.
    step : float, "auto" or None
        First step of a named schedule; ``"auto"``:
        :func:`bitstep.training.schedules.automatic_step`. A list of steps has none.
    planes : int, sequence of int, "auto" or None
        See :func:`bitstep.training.planes.resolve_planes`; None for rows of fixed bits.
    solver : {"sgd", "bit-centred"}
    batch, fit_intercept, options
        See :class:`bitstep.training.objective.Training`.

    Raises
    ------
    ValueError
        If a parameter is out of range.
    """
    if solver == "bit-centred":
        check_centred(objective, batch, schedule, options.get("model_range"))
        schedule = "constant"
        if not isinstance(rows, WovenRows):
            raise ValueError("Solver 'bit-centred' needs woven rows (`bitstep quantize --woven`, "
                             f"bitstep.quantization.weave_rows), not encoding {rows.encoding!r}")
        step = centred_step(rows, objective.loss, objective.l2) if step == "auto" else step
    if isinstance(step, str):
        if step != "auto":
            raise ValueError(f"step must be 'auto' or a positive number, not {step!r}")
        named = isinstance(schedule, str) and schedule in SCHEDULES
        step = automatic_step(rows, batch, fit_intercept, loss=objective.loss) if named else None
    steps: np.ndarray = schedule_steps(schedule, step=step, epochs=epochs)
    if planes is not None:
        planes = resolve_planes(planes, len(steps), solver)
    return Training(steps=steps, batch=batch, fit_intercept=fit_intercept, planes=planes,
                    solver=solver, **options)


def _centred_wrong(objective: Objective) -> str:
    """Parts of an objective that solver ``bit-centred`` cannot train."""
    wrong = [] if math.isfinite(objective.rule.curvature) else [f"loss={objective.rule.name!r}"]
    wrong += [f"l1={objective.l1:g}"] if objective.l1 else []
    wrong += [f"box={objective.box:g}"] if objective.box is not None else []
    return " and ".join(wrong)


def check_centred(objective: Objective, batch: int, schedule: Any,
                  model_range: float | None = None) -> None:
    """Raise ChoiceError unless solver ``bit-centred`` can train an objective so."""
    if not math.isfinite(objective.rule.curvature) or objective.proximal:
        raise ChoiceError("centred", "solver='bit-centred' is for smooth losses (squared_error, "
                          "squared_hinge and log_loss) with l2 alone, not for "
                          f"{_centred_wrong(objective)}; choose solver='sgd'")
    if batch != 1 or not (isinstance(schedule, str) and schedule in ("inverse", "constant")):
        wrong = [] if batch == 1 else [f"batch={batch}"]
        wrong += [] if isinstance(schedule, str) and schedule in ("inverse", "constant") else [
            f"schedule={schedule!r}" if isinstance(schedule, str) else "a list of steps"]
        raise ChoiceError("centred", "solver='bit-centred' has batches of one row and one step for "
                          f"all outer steps, not {' and '.join(wrong)}; leave that out")
    if model_range is not None:
        raise ChoiceError("centred", "solver='bit-centred' chooses the range of its numbers in "
                          f"each pass, not model_range={model_range!r}; leave that out")
