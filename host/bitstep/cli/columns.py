"""What a command says of the columns and weights of its rows."""

import sys

import numpy as np

from bitstep.training.choices import other_optimum


def warn_of_waste(text: str) -> None:
    """Print a sentence of :meth:`bitstep.quantization.scaling.Columns.waste`."""
    print(f"bitstep: warning: {text}; --scaler quantile clips it", file=sys.stderr)


def warn_of_optimum(solver: str, clip: np.ndarray | None,
                    features: np.ndarray | None, weights: str | None = None) -> None:
    """Say on standard error if the optimum is another one than that of the rows."""
    if text := other_optimum(solver, clip, features, weights):
        print(f"bitstep: warning: {text}", file=sys.stderr)
