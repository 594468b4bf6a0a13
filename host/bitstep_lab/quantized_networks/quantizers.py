"""Weights rounded to few levels of each tensor: uniform ones, or those of the least variance."""

from dataclasses import dataclass

import numpy as np

from bitstep.checks import check_choice, check_integer
from bitstep.levels import optimal_levels

PLACES = ("uniform", "optimal")
ROUNDINGS = ("stochastic", "nearest")
BINS = 256              # of the histogram that optimal levels are found from


@dataclass(frozen=True)
class Quantizer:
    """Rounding of the weights of a tensor to a few levels, which are found anew at every step.

    Parameters
    ----------
    levels : {"uniform", "optimal"}
        ``uniform``: equally spaced from minus to plus the largest magnitude, as the multi-bit
        quantizer of XNOR-Net has them. ``optimal``: of the least variance of stochastic rounding
        (:func:`bitstep.levels.optimal_levels`, from a histogram).
    rounding : {"stochastic", "nearest"}
    n_levels : int
        At least 2.

    Raises
    ------
    ValueError
        If a parameter is out of range.
    """

    levels: str
    rounding: str
    n_levels: int = 5

    def __post_init__(self):
        check_choice("levels", self.levels, PLACES)
        check_choice("rounding", self.rounding, ROUNDINGS)
        check_integer("n_levels", self.n_levels, 2)

    def places(self, weights: np.ndarray) -> np.ndarray:
        """Levels for some weights, rising, around all of them."""
        if self.levels == "uniform":
            top = float(np.abs(weights).max())
            return np.linspace(-top, top, self.n_levels)
        return optimal_levels(weights, self.n_levels, method="histogram", bins=BINS)

    def __call__(self, weights: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Rounded weights.

        Parameters
        ----------
        weights : ndarray of float, any shape
            At least one value, finite.
        rng : numpy.random.Generator
            Source of stochastic rounding.

        Returns
        -------
        ndarray of float32, same shape
        """
        levels = self.places(weights)
        if len(levels) == 1:
            return np.full(weights.shape, levels[0], np.float32)
        lower = np.clip(np.searchsorted(levels, weights, side="right") - 1, 0, len(levels) - 2)
        low, high = levels[lower], levels[lower + 1]
        with np.errstate(invalid="ignore"):     # uniform levels of zeros are all 0
            share = np.where(high > low, (weights - low) / (high - low), 0.0)
        bound = rng.random(weights.shape) if self.rounding == "stochastic" else 0.5
        return np.where(share > bound, high, low).astype(np.float32)
