"""Exact training over many machines: bit-centred training on the workers of a Dask cluster.

Rows stay on the workers, as bit planes; what crosses the network are two vectors of a number for
each feature, for each partition and outer step. See docs/dask.md.
"""

try:
    from bitstep.dask.estimators import LowPrecisionClassifier, LowPrecisionRegressor
except ImportError as error:
    if (error.name or "").split(".")[0] not in ("dask", "distributed", "sklearn"):
        raise
    raise ImportError(f"bitstep.dask needs dask, distributed and scikit-learn ({error}): pip "
                      'install "bitstep[dask]"') from error

__all__ = ["LowPrecisionClassifier", "LowPrecisionRegressor"]
