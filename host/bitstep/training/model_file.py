"""Model files: a trained model in one file, without pickle, checked when it is loaded."""

import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from bitstep.quantization.scaling import check_clip, clipped_features
from bitstep.training.checked_file import FileKind
from bitstep.training.losses import decide, outputs

ARRAYS = ("coef", "intercept", "classes")


class ModelFileError(ValueError):
    """A file is no model file, is damaged, or does not fit what it is used with."""


KIND = FileKind("bitstep-model", 2, "a model file", "`bitstep train --out`", "train it again",
                ModelFileError)


@dataclass(frozen=True)
class LinearModel:
    """A trained model in the units of its features.

    Attributes
    ----------
    coef : ndarray of float64, shape (n_outputs, n_features)
    intercept : ndarray of float64, shape (n_outputs,)
    classes : ndarray of float64 or str, shape (n_classes,)
        Labels of a classification; empty for a regression, which has an output for each target.
        Two classes have one output, whose positive values mean ``classes[1]``; more have one
        output each.
    config : dict
        How it was trained: ``model``, ``loss``, ``encoding``, ``epochs``, ``pipeline`` and others;
        the report's ``config`` (docs/report.md).
    clip : ndarray of float64, shape (2, n_features), or None
        Lowest and highest value of each feature that counts as such, see
        :class:`bitstep.quantization.Scaler`.
    """

    coef: np.ndarray
    intercept: np.ndarray
    classes: np.ndarray
    config: dict[str, Any] = field(default_factory=dict)
    clip: np.ndarray | None = None

    def __post_init__(self):
        n_outputs = len(self.coef)
        expected = max(n_outputs, 1) if not len(self.classes) else \
            1 if len(self.classes) == 2 else len(self.classes)
        if self.coef.ndim != 2 or self.intercept.shape != (n_outputs,) or self.classes.ndim != 1 \
                or n_outputs != expected:
            raise ModelFileError(
                f"A model of {len(self.classes)} classes must have {expected} outputs, each with "
                f"coefficients and an intercept, not shapes {self.coef.shape} and "
                f"{self.intercept.shape}")
        if self.clip is not None:
            try:
                check_clip(self.clip, self.coef.shape[1])
            except ValueError as error:
                raise ModelFileError(str(error)) from error

    @property
    def n_features(self) -> int:
        """Features of a row."""
        return self.coef.shape[1]

    def predict(self, features: np.ndarray) -> np.ndarray:
        """Predicted labels or values.

        Parameters
        ----------
        features : ndarray of float, shape (n_rows, n_features)

        Returns
        -------
        ndarray of float64, shape (n_rows,), or (n_rows, n_outputs) of several targets; of classes
        their type

        Raises
        ------
        ModelFileError
            If the number of features differs.
        """
        if features.shape[1] != self.n_features:
            raise ModelFileError(f"The model was trained on {self.n_features} features, the data "
                                 f"have {features.shape[1]}: use the data set it was trained for")
        features = clipped_features(features, self.clip)
        values = outputs(features, self.coef[None], self.intercept[None])[:, 0]
        if len(self.classes):
            return self.classes[decide(values)]
        return values[:, 0] if values.shape[1] == 1 else values

    def save(self, path: str | Path) -> None:
        """Write a model file (NumPy's .npz; whole, or not at all)."""
        KIND.write(path, {"n_features": self.n_features, "config": self.config},
                   {name: _stored(getattr(self, name))
                    for name in (*ARRAYS, *(["clip"] if self.clip is not None else []))})


def _stored(array: Any) -> np.ndarray:
    """An array as a file holds it: of strings, or of float64."""
    array = np.asarray(array)
    return array if array.dtype.kind == "U" else array.astype(np.float64)


def is_model(path: str | Path) -> bool:
    """True if a file is an .npz with the members of a model file."""
    if not Path(path).is_file():    # a pipe would be waited for, and emptied
        return False
    try:
        with zipfile.ZipFile(path) as file:
            return {"header.npy", "checksum.npy", "coef.npy"} <= set(file.namelist())
    except (OSError, zipfile.BadZipFile):
        return False


def load_model(path: str | Path) -> LinearModel:
    """Read a model file.

    Raises
    ------
    ModelFileError
        If there is none, it is damaged, or another version wrote it.
    """
    header, arrays = KIND.read(path, *ARRAYS)
    return LinearModel(*(arrays[name] for name in ARRAYS), config=header["config"],
                       clip=arrays.get("clip"))
