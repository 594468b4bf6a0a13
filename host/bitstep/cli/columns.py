"""What a command says of the columns, weights and classes of its rows."""

import sys
from collections.abc import Sequence

import numpy as np

from bitstep.training.choices import other_optimum
from bitstep.writing import first_of

MANY_CLASSES = 20, 0.5      # names, and their share of the rows, that may be values of a regression


def warn_of_waste(text: str) -> None:
    """Print a sentence of :meth:`bitstep.quantization.scaling.Columns.waste`."""
    print(f"bitstep: warning: {text}; --scaler quantile clips it", file=sys.stderr)


def warn_of_optimum(solver: str, clip: np.ndarray | None,
                    features: np.ndarray | None, weights: str | None = None) -> None:
    """Say on standard error if the optimum is another one than that of the rows."""
    if text := other_optimum(solver, clip, features, weights):
        print(f"bitstep: warning: {text}", file=sys.stderr)


def warn_of_many_classes(names: Sequence[str], n_rows: int) -> None:
    """Say on standard error that there are more than :data:`MANY_CLASSES`."""
    least, share = MANY_CLASSES
    if len(names) > max(least, share * n_rows):
        print(f"bitstep: warning: {n_rows} rows have {len(names)} different labels "
              f"({first_of(list(map(repr, names)), 3)}), each the name of a class, since they are "
              "no numbers; the labels of a regression must be numbers", file=sys.stderr)
