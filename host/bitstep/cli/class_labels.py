"""Classes of a model, as the labels of a file name them."""

import math
from typing import Any

import numpy as np

from bitstep.cli.options import class_text
from bitstep.data.columns.labels import is_number
from bitstep.training.files.model_file import LinearModel, ModelFileError


class ClassLabels:
    """Match labels of a file to the classes of a model.

    An estimator keeps labels as given: with spaces around them, digits as text, True and False.
    Readers of files strip spaces and turn what reads as a number into one.

    Parameters
    ----------
    model : LinearModel
        Of a classification.

    Attributes
    ----------
    texts : dict
        Each class as a line of text has it; True and False as 1 and 0, as a model file has them.
    """

    def __init__(self, model: LinearModel):
        own = model.config.get("estimator") or {}
        truths = own.get("class_type") == "bool"
        self._classes, self._numbers = model.classes, {}
        self._alike: tuple[str, str] | None = None
        classes = model.classes.tolist()
        self.texts = {one: class_text(one) for one in classes}
        for number, one in enumerate(classes):
            for label in {one, str(bool(one))} if truths else _labels_of(one):
                other = self._numbers.setdefault(label, number)
                if other != number:
                    self._alike = (self.texts[classes[other]], self.texts[one])

    def numbers(self, labels: np.ndarray) -> np.ndarray:
        """Numbers of the classes that labels of a file mean, -1 for labels of none.

        Parameters
        ----------
        labels : ndarray of float64 or str, shape (n_rows,)

        Returns
        -------
        ndarray of int64, shape (n_rows,)

        Raises
        ------
        ModelFileError
            If two classes of the model are the same label in a file.
        """
        if self._alike is not None:
            raise ModelFileError(
                f"The model tells classes {self._alike[0]!r} and {self._alike[1]!r} apart, which "
                "are the same label in a file: spaces around text do not count, and digits are a "
                "number. Use the model in Python (LowPrecisionClassifier.load), or predict without "
                "labels (--no-label)")
        different, rows = np.unique(labels, return_inverse=True)
        found = np.array([self._numbers.get(one, -1) for one in different.tolist()], np.int64)
        return found[rows]

    def places(self, predictions: np.ndarray) -> np.ndarray:
        """Numbers of the classes that were predicted.

        Parameters
        ----------
        predictions : ndarray, shape (n_rows,)
            Classes of the model.

        Returns
        -------
        ndarray of int64, shape (n_rows,)
        """
        order = np.argsort(self._classes)
        return order[np.searchsorted(self._classes, predictions, sorter=order)]


def _labels_of(value: Any) -> set[Any]:
    """What a file may have for a class."""
    if not isinstance(value, str):
        return {value}
    number = is_number(value)
    return {value.strip()} | ({number} if number is not None and math.isfinite(number) else set())
