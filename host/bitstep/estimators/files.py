"""Estimators in model files: the files of ``bitstep train --out``, with what an estimator adds."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from bitstep.options.models import Model
from bitstep.pipeline.parts.formats import BIT_PLANES
from bitstep.pipeline.results import COUNTER_NAMES
from bitstep.training.choices import RowChoice
from bitstep.training.files.model_file import LinearModel, ModelFileError, load_model
from bitstep.training.schedules import SCHEDULES

# Parameters that files of the command line hold, by the same names.
PARAMETERS = ("bits", "encoding", "levels", "batch", "l2", "l1", "box", "copies", "scaler",
              "shuffle", "fit_intercept", "model_bits", "update_bits")
# Learned attributes that the file has a place of its own for.
ARRAYS = ("coef_", "intercept_", "classes_", "clip_range_", "feature_names_in_")
CLASSES = {"regression": "LowPrecisionRegressor", "classification": "LowPrecisionClassifier"}


def estimator_model(estimator: Any, kind: Model, rows: RowChoice) -> LinearModel:
    """The model of a fitted estimator, as a file holds it.

    Parameters
    ----------
    estimator : estimator
    kind : Model
        Its loss and task.
    rows : RowChoice
        Rows that it was trained on.

    Raises
    ------
    ModelFileError
        If its classes are neither numbers nor strings, which is all that a file holds.
    """
    classes = np.asarray(getattr(estimator, "classes_", np.zeros(0)))
    numbers = classes.dtype.kind in "iufb"
    # Python compares integers with numbers of floating point exactly.
    other = [one for one in classes.tolist()
             if not (one == float(one) if numbers else _is_name(one))]
    if other:
        raise ModelFileError("The classes must be strings, or numbers that fit 64-bit floating "
                             f"point, to be saved in a model file, not {other[0]!r}; number them")
    stored = classes.astype(np.float64 if numbers else str)
    learned = {name: value for name, value in vars(estimator).items()
               if name.endswith("_") and not name.startswith("_") and name not in ARRAYS}
    config = {
        "model": kind.name, "loss": kind.sklearn_loss, "epochs": estimator.n_iter_,
        "step": estimator.step_,
        **{name: _stored(getattr(estimator, name)) for name in PARAMETERS},
        "bits": rows.bits, "encoding": rows.encoding, "refetch": rows.refetch,
        "scaler": rows.scaler, "solver": estimator.solver_, "l2": estimator.l2_,
        "batch": estimator.batch_,
        **({"multinomial": bool(getattr(estimator, "multinomial_", False))}
           if kind.task == "classification" else {}),
        "estimator": {
            "parameters": {name: _stored(value) for name, value in estimator.get_params().items()
                           if _is_plain(value)},
            "learned": {name: _stored(value) for name, value in learned.items()},
            "class_type": classes.dtype.str if classes.dtype.kind == "U" else classes.dtype.name,
            "rows": [rows.bits, rows.encoding, rows.refetch, rows.levels, rows.scaler]}}
    names = getattr(estimator, "feature_names_in_", None)
    return LinearModel(np.atleast_2d(estimator.coef_), np.atleast_1d(estimator.intercept_), stored,
                       config, estimator.clip_range_,
                       None if names is None else tuple(map(str, names)))


def restore(estimator: Any, path: str | Path, task: str) -> tuple[LinearModel, RowChoice]:
    """Give an estimator the parameters and learned attributes of a model file, but not the model.

    Parameters
    ----------
    estimator : estimator
        A new one. Of a file of the command line its ``history_`` is empty and its ``counters_`` are
        None, since such a file holds neither.
    path : path
    task : {"regression", "classification"}
        Kind of the estimator.

    Returns
    -------
    model : LinearModel
    rows : RowChoice
        Rows that it was trained on.

    Raises
    ------
    ModelFileError
        If the file is none, damaged, or a model of another kind.
    """
    model = load_model(path)
    found, config = "classification" if len(model.classes) else "regression", model.config
    if found != task:
        raise ModelFileError(f"{path}: this is the model of a {found} ({config.get('model')}), "
                             f"not of a {task}; load it with {CLASSES[found]}.load")
    own = config.get("estimator")
    parameters = own["parameters"] if own else _parameters(config, model.classes)
    known = estimator.get_params()
    estimator.set_params(**{name: _restored(value) for name, value in parameters.items()
                            if name in known})
    learned = own["learned"] if own else {
        "n_iter_": config.get("epochs", 0), "step_": parameters.get("step"), "history_": [],
        "counters_": dict.fromkeys(COUNTER_NAMES), "n_features_in_": model.n_features}
    for name, value in learned.items():
        setattr(estimator, name, _restored(value))
    if model.feature_names is not None:
        estimator.feature_names_in_ = np.array(model.feature_names, object)
    if task == "classification":
        estimator.multinomial_ = bool(config.get("multinomial", False))
        estimator.classes_ = model.classes.astype(own["class_type"]) if own else model.classes
    rows: Any = own["rows"] if own else [config.get(name) for name in (
        "bits", "encoding", "refetch", "levels", "scaler")]
    # Older files have no scaler here, and neither l2, solver nor batch.
    scaler = rows[4] if len(rows) > 4 else config.get("scaler", "minmax")
    if not hasattr(estimator, "solver_"):
        estimator.solver_ = config.get("solver") or parameters.get("solver", "sgd")
        estimator.l2_ = float(config.get("l2") or 0.0)
    if not hasattr(estimator, "batch_"):
        estimator.batch_ = int(config.get("batch") or 1)
    return model, RowChoice(bits=rows[0], encoding=rows[1], refetch=bool(rows[2]),
                            levels=rows[3] or "uniform", scaler=scaler)


def _is_name(label: Any) -> bool:
    """True for a string that an array of strings keeps whole."""
    return isinstance(label, str) and not label.endswith("\0")


def _parameters(config, classes):
    """Parameters of an estimator from the options of a training."""
    found = {name: config[name] for name in PARAMETERS if name in config}
    if found.get("shuffle") is None:            # of a quantized file, which does not say
        found.pop("shuffle", None)
    if config.get("schedule") in SCHEDULES:     # of a file of steps, the name alone is there
        found |= {name: config[name] for name in ("schedule", "step") if name in config}
    for name in ("loss", "epochs", "refetch", "epsilon"):
        if config.get(name):
            found[name] = config[name]
    weight = config.get("class_weight")
    if isinstance(weight, dict):            # of JSON, which has names only
        weight = {name if classes.dtype.kind == "U" else float(name): value
                  for name, value in weight.items()}
    if weight is not None:
        found["class_weight"] = weight
    found["solver"] = config.get("solver") or "sgd"
    if config.get("encoding") == BIT_PLANES:         # whose bits and encoding are no parameters
        del found["bits"], found["encoding"]
        found |= {name: config[name] for name in ("planes", "tol")}
    return found


def _is_plain(value: Any) -> bool:
    """True for what JSON can hold, once it is stored."""
    if isinstance(value, (list, tuple)):
        return all(_is_plain(item) for item in value)
    if isinstance(value, dict):
        return all(_is_plain(part) for item in value.items() for part in item)
    return value is None or isinstance(value, (bool, int, float, str, os.PathLike)) \
        or hasattr(value, "__array__")


def _stored(value: Any) -> Any:
    """A value as JSON holds it."""
    if isinstance(value, np.generic):
        return value.item()
    if hasattr(value, "__array__"):         # a column of a data frame, too
        array = np.asarray(value)
        return {"array": array.tolist(), "type": array.dtype.name}
    if isinstance(value, os.PathLike):      # of a schedule
        return os.fspath(value)
    if isinstance(value, tuple):
        return {"tuple": [_stored(item) for item in value]}
    if isinstance(value, list):
        return [_stored(item) for item in value]
    if isinstance(value, Mapping):          # counters are no dict before somebody looks at them
        if not all(isinstance(name, str) for name in value):    # as JSON's names must be
            return {"items": [[_stored(part) for part in item] for item in value.items()]}
        return {name: _stored(item) for name, item in value.items()}
    return value


def _restored(value: Any) -> Any:
    """The value that :func:`_stored` made JSON of."""
    if isinstance(value, dict):
        if set(value) == {"array", "type"}:
            return np.array(value["array"], value["type"])
        if set(value) == {"tuple"}:
            return tuple(_restored(item) for item in value["tuple"])
        if set(value) == {"items"} and isinstance(value["items"], list):
            return {_restored(name): _restored(item) for name, item in value["items"]}
        return {name: _restored(item) for name, item in value.items()}
    return [_restored(item) for item in value] if isinstance(value, list) else value
