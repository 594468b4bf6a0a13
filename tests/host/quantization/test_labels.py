"""Stored labels that a file cannot have."""

import numpy as np
import pytest

from bitstep.pipeline.memory import pack_labels
from bitstep.pipeline.registers import LabelFormat
from bitstep.quantization import LabelStream

SIGN, INT16, INT32 = LabelFormat.SIGN, LabelFormat.INT16, LabelFormat.INT32
TWO, THREE = np.array([0.0, 1.0]), np.array([0.0, 1.0, 4.0])
SCALES = "label_offset must be finite and label_scale finite and positive, not "


def stream(label_format=INT32, scale=0.5, offset=-3.0, classes=None, numbers=(0, 1, 1)):
    return LabelStream(pack_labels(np.array(numbers), label_format), label_format, scale, offset,
                       classes)


def test_labels_of_a_regression_and_of_classes():
    assert stream().task == "regression"
    for label_format, classes, numbers in ((SIGN, TWO, (1, -1, 1)), (INT16, THREE, (0, 2, 1))):
        labels = stream(label_format, classes=classes, numbers=numbers)
        assert labels.task == "classification"
        assert labels.integers(3).tolist() == list(numbers)


@pytest.mark.parametrize("options, message", [
    *(({"offset": offset}, f"{SCALES}{offset} and 0.5") for offset in (np.inf, -np.inf, np.nan)),
    *(({"scale": scale}, f"{SCALES}-3.0 and {scale}") for scale in (0.0, -1.0, np.inf, np.nan)),
    ({"label_format": SIGN, "numbers": (1, -1, 1)}, "1-bit labels must have classes"),
    *(({"label_format": INT16, "classes": np.array(classes)}, "must be 2 to 256 increasing")
      for classes in ([1.0], [1.0, 1.0], [2.0, 1.0], [[1.0, 2.0]], [1.0, np.nan, 2.0],
                      np.arange(257.0))),
    ({"classes": TWO}, "labels of 2 classes must be SIGN, not INT32"),
    ({"classes": THREE}, "labels of 3 classes must be INT16, not INT32"),
    *(({"label_format": INT16, "classes": THREE, "numbers": numbers},
       f"labels of 3 classes must be numbers from 0 to 2, not {low} to {high}")
      for numbers, low, high in (((0, 3, 1), 0, 3), ((0, -1, 2), -1, 2)))])
def test_what_labels_cannot_be(options, message):
    with pytest.raises(ValueError, match=message):
        stream(**options)
