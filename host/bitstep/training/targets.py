"""Targets of the outputs of a model."""

import numpy as np


def class_targets(labels: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Targets of every output: of classes +1 and -1.

    Parameters
    ----------
    labels : ndarray, shape (n_rows,)
        Elements of ``classes``; of a regression any numbers.
    classes : ndarray, shape (n_classes,)
        Empty for a regression, whose labels are the targets of its output.

    Returns
    -------
    ndarray of float64, shape (n_rows, n_outputs)
        One output for two classes (+1 is ``classes[1]``), one for each class if there are more.
    """
    if not len(classes):
        return labels[:, None]
    positive = classes[1:] if len(classes) == 2 else classes
    return np.where(labels[:, None] == positive, 1.0, -1.0)
