"""Rows of a command, quantized, and what is said of their columns."""

import argparse
import sys
from typing import Any

import numpy as np

from bitstep.cli.progress import Bar
from bitstep.data import Dataset
from bitstep.pipeline.config import WOVEN
from bitstep.quantization import QuantizedRows, WovenRows, quantize_rows, weave_rows
from bitstep.quantization.scaling import fit_scaler
from bitstep.training.choices import other_optimum


def rows_of(request: Any, dataset: Dataset, *, fine_rows: bool) -> QuantizedRows | WovenRows:
    """Quantize the rows of a data set.

    Parameters
    ----------
    request : bitstep.cli.request.RowRequest
    fine_rows : bool
        True for a copy with 16 bits a value, for refetching.
    """
    scaler = fit_scaler(dataset.features, request.scaler,
                        None if request.solver == "bit-centred" else warn_of_waste)
    with Bar(dataset.n_rows, "quantizing", " rows") as bar:
        if request.encoding == WOVEN:
            return weave_rows(dataset.features, bus_width=request.bus_width, scaler=scaler,
                              seed=request.seed, progress=bar.to)
        return quantize_rows(
            dataset.features, bits=request.bits, encoding=request.encoding,
            bus_width=request.bus_width, scaler=scaler, copies=request.copies,
            seed=request.seed, fine_rows=fine_rows, levels=request.levels, progress=bar.to)


def warn_of_waste(text: str) -> None:
    """Print a sentence of :meth:`bitstep.quantization.scaling.Columns.waste`."""
    print(f"bitstep: warning: {text}; --scaler quantile clips it", file=sys.stderr)


def warn_of_optimum(arguments: argparse.Namespace, clip: np.ndarray | None,
                     features: np.ndarray | None, deviation: float = 0.0) -> None:
    """Say on standard error if the optimum is another one than that of the rows."""
    if text := other_optimum(getattr(arguments, "solver", "sgd"), clip, features, deviation):
        print(f"bitstep: warning: {text}", file=sys.stderr)
