"""Model files: a trained model in one file, without pickle, checked when it is loaded."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from bitstep.data.npz import has_arrays
from bitstep.quantization.scaling import check_clip, clipped_features
from bitstep.training.files.checked_file import FileKind
from bitstep.training.losses import decide, outputs

ARRAYS = ("coef", "intercept", "classes")
# First columns without a name, and last ones, as pandas writes the index of a DataFrame.
INDEX_NAMES = ("", "Unnamed: 0", "__index_level_0__")
_SHOWN = 5                  # names that a message lists


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
    feature_names : tuple of str or None
        Names of the features, if the data had some.
    """

    coef: np.ndarray
    intercept: np.ndarray
    classes: np.ndarray
    config: dict[str, Any] = field(default_factory=dict)
    clip: np.ndarray | None = None
    feature_names: tuple[str, ...] | None = None

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
        if self.feature_names is not None and len(self.feature_names) != self.n_features:
            raise ModelFileError(f"A model of {self.n_features} features must have as many names "
                                 f"of features, not {len(self.feature_names)}")
        if self.clip is not None:
            try:
                check_clip(self.clip, self.coef.shape[1])
            except ValueError as error:
                raise ModelFileError(str(error)) from error

    @property
    def n_features(self) -> int:
        """Features of a row."""
        return self.coef.shape[1]

    def columns_in(self, names: Sequence[str] | None) -> np.ndarray | None:
        """Columns of a data set that are the model's features, in the order of the model.

        Parameters
        ----------
        names : sequence of str or None
            Names of the columns, if they have some.

        Returns
        -------
        ndarray of int, shape (n_features,), or None
            None: the columns as they are, since they have the model's names in its order, or one
            of the two has no names.

        Raises
        ------
        ModelFileError
            If the names are others, or in another order and some are there twice.
        """
        if names is None or self.feature_names is None:
            return None
        own, found = plain_names(self.feature_names), plain_names(names)
        if own == found:
            return None
        places = {name: at for at, name in enumerate(found)}
        if set(own) == set(places):
            if len(own) == len(found) == len(places):
                return np.array([places[name] for name in own])
            raise ModelFileError("the columns must have the names of the model's features in the "
                                 "same order, since some names are there twice; the model's are "
                                 f"{_listed(own)}, those of the data {_listed(found)}")
        missing = [name for name in own if name not in places]
        unknown = [name for name in found if name not in own]
        texts = [f"the data lack {_listed(missing)}" * bool(missing),
                 f"the model does not know {_listed(unknown)}" * bool(unknown)]
        index = next((name for name in unknown if name in INDEX_NAMES), None)
        hint = "" if index is None else (f"; {index!r} is a pandas index: write the file without "
                                         "it (index=False)")
        raise ModelFileError("the columns must have the names of the model's features: "
                             + ", and ".join(filter(None, texts)) + hint)

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
        names = {} if self.feature_names is None else {"feature_names": list(self.feature_names)}
        KIND.write(path, {"n_features": self.n_features, "config": self.config, **names},
                   {name: _stored(getattr(self, name))
                    for name in (*ARRAYS, *(["clip"] if self.clip is not None else []))})


def _stored(array: Any) -> np.ndarray:
    """An array as a file holds it: of strings, or of float64."""
    array = np.asarray(array)
    return array if array.dtype.kind == "U" else array.astype(np.float64)


def is_model(path: str | Path) -> bool:
    """True if a file is an .npz with the members of a model file."""
    return has_arrays(path, "header", "checksum", "coef")


def load_model(path: str | Path) -> LinearModel:
    """Read a model file.

    Raises
    ------
    ModelFileError
        If there is none, it is damaged, or another version wrote it.
    """
    header, arrays = KIND.read(path, *ARRAYS)
    return LinearModel(*(arrays[name] for name in ARRAYS), config=header["config"],
                       clip=arrays.get("clip"), feature_names=_names(header))


def plain_names(names: Sequence[str]) -> tuple[str, ...]:
    """Names as files of text have them: without blanks around them."""
    return tuple(name.strip() for name in names)


def _names(header: dict[str, Any]) -> tuple[str, ...] | None:
    """Names of the features of a file, if it has some."""
    if "feature_names" in header:
        return tuple(header["feature_names"])
    # Older files of estimators have them here.
    learned = header["config"].get("estimator", {}).get("learned", {})
    found = learned.get("feature_names_in_")
    return None if found is None else tuple(map(str, found["array"]))


def _listed(names: Sequence[str]) -> str:
    """Names for a message, the first of many."""
    return ", ".join(map(repr, names[:_SHOWN])) + (
        f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
