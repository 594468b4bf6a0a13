"""Data of a call, as a device takes them."""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

from bitstep.estimators.parameters import Parameters
from bitstep.pipeline.config import WOVEN
from bitstep.quantization import (
    QuantizedDataset,
    QuantizedRows,
    WovenRows,
    quantize_rows,
    scaler_of_ranges,
    weave_rows,
)
from bitstep.quantization.bounds import Bounds, given_bounds
from bitstep.quantization.scaling import RangeWarning, columns_of, scaler_of_columns
from bitstep.training.choices import RowChoice
from bitstep.training.chunks import Clipped, chunk_seed, clipped
from bitstep.training.objective import check_batch
from bitstep.training.scores.fits import Held, check_verbose, hold_out
from bitstep.training.weights import pass_rows


@dataclass(frozen=True, eq=False)
class Prepared:
    """Data of a call as the device takes them."""

    features: Any               # ndarray, or RowView
    options: dict[str, Any]
    batch: int
    choice: RowChoice
    kept: bool
    columns: Clipped
    labels: Clipped
    rows: QuantizedRows | WovenRows
    outputs: list[QuantizedDataset]
    held: Held | None


class Preparing(Parameters):
    """Quantized rows and labels of a call, within the ranges of the calls before."""

    feature_range_: Any
    clip_range_: np.ndarray | None
    first_rows_: Any
    n_samples_seen_: int

    def _prepare(self, features: Any, targets: np.ndarray, resume: bool) -> Prepared:
        """Quantized rows and labels."""
        if not self.fit_intercept and self.scaler != "maxabs":
            raise ValueError("fit_intercept=False needs scaler='maxabs', which does not shift "
                             f"columns, not {self.scaler!r}")
        options = self._device_options()
        check_batch(self.batch)
        check_verbose(self.verbose)
        features, targets, held = hold_out(features, targets, self, classes=self._is_classifier,
                                           draw_seed=self._seed)
        batch = min(self.batch, len(features))
        choice = self._choice(self._kind(), batch)
        kept = resume and hasattr(self, "feature_range_")   # a model may come without
        columns = self._columns(features, kept, resume)
        labels = self._labels(targets, kept)
        rows = self._quantized(features, columns, choice, options["bus_width"], kept)
        return Prepared(features, options, batch, choice, kept, columns, labels, rows,
                         self._outputs(rows, labels), held)

    def _checked(self, X, y, sample_weight=None) -> tuple[Any, np.ndarray, np.ndarray | None]:
        """Rows of a pass, targets of the outputs, and classes of a first call."""
        raise NotImplementedError

    def _validated(self, X, y, resume: bool, **options) -> tuple[np.ndarray, np.ndarray]:
        checked: Any = validate_data(self, X, y, dtype=[np.float64, np.float32], reset=not resume,
                                     accept_sparse="csr", **options)
        return checked

    def _weighted(self, X, targets, weights, resume, groups=None) -> tuple[Any, np.ndarray]:
        """Rows of a pass with their targets; without a row only where a model stays as it is."""
        features, targets = pass_rows(X, targets, weights, self._seed, groups)
        if not len(targets) and not resume:
            raise ValueError("The weights must leave at least one row to train on, but they add up "
                             f"to {np.sum(weights):g}, and none was drawn; multiply all of them by "
                             "a number")
        return features, targets

    def _columns(self, features: Any, kept: bool, resume: bool) -> Clipped:
        """Features within the ranges in effect."""
        given = given_bounds("feature_range", self.feature_range, features.shape[1])
        clip = None if given else self.clip_range_ if resume else self._own_clip(features)
        return clipped(features, "feature values", symmetric=self.scaler == "maxabs",
                       before=Bounds(*self.feature_range_) if kept else None,
                       rows_before=self.n_samples_seen_ if kept else 0, given=given, clip=clip)

    def _own_clip(self, features: Any) -> np.ndarray | None:
        """The clip of the first rows, or a warning where one would help."""
        return scaler_of_columns(columns_of(features), self.scaler, lambda text: warnings.warn(
            f"{text}; scaler='quantile' clips it", RangeWarning, stacklevel=5)).clip

    def _labels(self, targets: np.ndarray, kept: bool) -> Clipped:
        """Targets of the outputs within the range in effect; those of classes are as they are."""
        return Clipped(targets, Bounds(np.array([-1.0]), np.array([1.0])), 0, "")

    def _quantized(self, features: Any, columns: Clipped, choice: RowChoice,
                   bus_width: int, kept: bool) -> QuantizedRows | WovenRows:
        seed = self._seed()
        if isinstance(self.random_state, (int, np.integer)) and kept and seed >= 0:
            seed = chunk_seed(seed, features, self.first_rows_)
        scaler = scaler_of_ranges(columns.bounds.low, columns.bounds.high, self.scaler)
        if choice.encoding == WOVEN:
            return weave_rows(columns.values, bus_width=bus_width, scaler=scaler, seed=seed)
        return quantize_rows(columns.values, bits=choice.bits, encoding=choice.encoding,
                             bus_width=bus_width, scaler=scaler, copies=self.copies,
                             seed=seed, fine_rows=choice.refetch, levels=choice.levels)

    def _outputs(self, rows: QuantizedRows | WovenRows, labels: Clipped) -> list[QuantizedDataset]:
        """Quantized rows with the labels of each output."""
        raise NotImplementedError
