"""Levels of stochastic rounding with the least variance, for given points."""

from bitstep.levels.adaquant import adaquant_levels
from bitstep.levels.optimal import METHODS, level_cost, optimal_levels

__all__ = ["METHODS", "adaquant_levels", "level_cost", "optimal_levels"]
