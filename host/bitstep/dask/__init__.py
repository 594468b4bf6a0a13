"""Exact training over many machines: bit-centred training on the workers of a Dask cluster.

Rows stay on the workers, as bit planes; what crosses the network are two vectors of a number for
each feature, for each partition and outer step. See docs/dask.md.

What it exports is imported when it is first used: a worker needs dask, distributed and NumPy alone,
and dask.array where collections of it are trained on.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bitstep.dask.estimators import LowPrecisionClassifier, LowPrecisionRegressor

__all__ = ["LowPrecisionClassifier", "LowPrecisionRegressor"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from bitstep.dask import estimators
    except ImportError as error:
        if (error.name or "").split(".")[0] not in ("dask", "distributed", "sklearn"):
            raise
        raise ImportError(f"bitstep.dask needs dask, distributed and scikit-learn ({error}): pip "
                          'install "bitstep[dask]"') from error
    return getattr(estimators, name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
