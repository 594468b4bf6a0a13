"""Data of a call, as a device takes them."""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn import config_context
from sklearn.utils.validation import validate_data

from bitstep.data.dataset import check_unmasked, shuffled
from bitstep.data.views import RowView
from bitstep.estimators.parameters import Parameters
from bitstep.quantization import (
    BitPlaneRows,
    QuantizedDataset,
    QuantizedRows,
    scaler_of_ranges,
)
from bitstep.quantization.bounds import Bounds, given_bounds
from bitstep.quantization.scaling import (
    RangeWarning,
    clipped_features,
    columns_of,
    scaler_of_columns,
    warn_of_zeros,
)
from bitstep.training.choices import (
    OptimumWarning,
    Resolved,
    RowChoice,
    one_vs_rest,
    other_optimum,
    resolve,
)
from bitstep.training.chunks import Clipped, chunk_seed, clipped
from bitstep.training.copies import Pass, WeightWarning, go_along, pass_rows
from bitstep.training.losses import decide
from bitstep.training.scores.fits import hold_out


@dataclass(frozen=True, eq=False)
class Prepared:
    """Data of a call as the device takes them."""

    features: Any               # ndarray, or RowView
    options: dict[str, Any]
    resolved: Resolved
    kept: bool
    columns: Clipped
    labels: Clipped
    rows: QuantizedRows | BitPlaneRows
    outputs: list[QuantizedDataset]
    held: Pass | None
    weights: np.ndarray | None
    rows_meant: int             # that those to train on stand for
    other_weights: str | None   # see Pass

    @property
    def size(self) -> tuple[int, int]:
        """Rows, and weights of the models of all outputs."""
        return self.rows.n_rows, self.rows.n_features * len(self.outputs)

    @property
    def choice(self) -> RowChoice:
        """What the rows are."""
        return self.resolved.rows


class Preparing(Parameters):
    """Quantized rows and labels of a call, within the ranges of the calls before."""

    feature_range_: Any
    clip_range_: np.ndarray | None
    first_rows_: Any
    n_samples_seen_: int

    def _prepare(self, given: Pass, resume: bool, **facts: Any) -> Prepared:
        """Quantized rows and labels; ``facts`` are those of :meth:`_resolved`."""
        options = self._device_options()
        kind = self._device_kind(options)
        resolved = self._resolved(given, **facts)
        held = None
        if resolved.held_fraction is not None:
            given, held = hold_out(given, resolved.held_fraction, self._seed(),
                                   decide(given.targets) if self._is_classifier else None)
        features, targets, weights = given[:3]
        kept = resume and hasattr(self, "feature_range_")   # a model may come without
        columns = self._columns(features, kept, resume, resolved)
        labels = self._labels(targets, kept)
        if other := other_optimum(resolved.solver, columns.clip, features, given.other_weights):
            warnings.warn(other, OptimumWarning, stacklevel=5)
        if other := one_vs_rest(resolved, targets.shape[1], kind, kind.name):
            warnings.warn(other, OptimumWarning, stacklevel=5)
        rows = self._quantized(features, columns, weights, resolved.rows, kept)
        if held is not None:
            held = held._replace(features=clipped_features(
                held.features[0:len(held.targets)], columns.clip))
        return Prepared(features, options, resolved, kept, columns, labels, rows,
                        self._outputs(rows, labels), held, weights,
                        round(len(features) * given.stands_for), given.other_weights)

    def _resolved(self, given: Pass, **facts: Any) -> Resolved:
        """The parameters, with all that was left open, for rows on the device."""
        resolved = self._resolved_for(given.features.shape[1], **facts)
        return resolved.of_outputs(given.targets.shape[1],
                                   self._device_kind(self._device_options()))

    def _resolved_for(self, n_features: int, **facts: Any) -> Resolved:
        """The same, while outputs and device are not known."""
        return resolve(self._request(n_features=n_features, **facts))

    def _checked(self, X, y, sample_weight=None) -> tuple[Pass, np.ndarray | None]:
        """Rows of a pass with the targets of the outputs, and classes of a first call."""
        raise NotImplementedError

    def _validated(self, X, y, resume: bool, **options) -> tuple[np.ndarray, np.ndarray]:
        self._check()       # before anything is done with the data
        check_unmasked("X", X)
        check_unmasked("y", y)
        with config_context(assume_finite=False):   # what is not finite has no code
            checked: Any = validate_data(self, X, y, dtype=[np.float64, np.float32],
                                         reset=not resume, accept_sparse="csr", **options)
        return checked

    def _pass(self, X, targets, weights, chunk: bool, groups=None, meant=None) -> Pass:
        """Rows of a pass; without a row only of a chunk, where a model stays as it is. ``groups``
        and ``meant`` are those of :func:`bitstep.training.copies.pass_rows`.

        Rows with a weight are shuffled before their copies are spread, as the command line does it;
        those of a chunk are not shuffled.
        """
        if self.shuffle and not chunk:
            rows = np.arange(len(targets)) if weights is None else np.flatnonzero(weights)
            order = rows[shuffled(len(rows), max(0, self._seed()))]
            X, targets = RowView(X, order), targets[order]
            weights, groups, meant = (part if part is None else part[order]
                                      for part in (weights, groups, meant))
        found = pass_rows(X, targets, weights, self._seed, groups, chunk=chunk, meant=meant,
                          along=weights is not None and self._weights_go_along())
        if weights is not None and not len(found.targets) and not hasattr(self, "coef_"):
            raise ValueError("The weights must leave at least one row to train on, but they add up "
                             f"to {np.sum(weights):g}, and none was drawn; multiply all of them by "
                             "a number")
        if found.note:
            warnings.warn(found.note, WeightWarning, stacklevel=5)
        return found

    def _weights_go_along(self) -> bool:
        """See :func:`bitstep.training.copies.go_along`."""
        options = self._device_options()
        device = options["opened"] if "opened" in options else options["name"]
        return go_along(device)

    def _columns(self, features: Any, kept: bool, resume: bool, resolved: Resolved) -> Clipped:
        """Features within the ranges in effect."""
        given = given_bounds("feature_range", self.feature_range, features.shape[1])
        clip = None if given else self.clip_range_ if resume \
            else self._own_clip(features, resolved)
        return clipped(features, "feature values", symmetric=resolved.rows.scaler == "maxabs",
                       before=Bounds(*self.feature_range_) if kept else None,
                       rows_before=self.n_samples_seen_ if kept else 0, given=given, clip=clip)

    def _own_clip(self, features: Any, resolved: Resolved) -> np.ndarray | None:
        """The clip of the first rows, or a warning where one would help."""
        def waste(text: str) -> None:
            warnings.warn(f"{text}; scaler='quantile' clips it", RangeWarning, stacklevel=6)
        # The optimum of this solver is that of rows as they are.
        if resolved.exact and resolved.rows.scaler != "quantile":
            warn_of_zeros(features)
            return None
        return scaler_of_columns(columns_of(features), resolved.rows.scaler, waste).clip

    def _labels(self, targets: np.ndarray, kept: bool) -> Clipped:
        """Targets of the outputs within the range in effect; those of classes are as they are."""
        return Clipped(targets, Bounds(np.array([-1.0]), np.array([1.0])), 0, "")

    def _quantized(self, features: Any, columns: Clipped, weights: np.ndarray | None,
                   choice: RowChoice, kept: bool) -> QuantizedRows | BitPlaneRows:
        seed = self._seed()
        if isinstance(self.random_state, (int, np.integer)) and kept and seed >= 0:
            seed = chunk_seed(seed, features, self.first_rows_)
        scaler = scaler_of_ranges(columns.bounds.low, columns.bounds.high, choice.scaler)
        return choice.quantize(columns.values, scaler, seed=seed, weights=weights)

    def _outputs(self, rows: QuantizedRows | BitPlaneRows,
                 labels: Clipped) -> list[QuantizedDataset]:
        """Quantized rows with the labels of each output."""
        raise NotImplementedError
