"""Train dense linear models on FPGAs from data streamed at 1 to 8 bits per value.

Importing the package needs NumPy alone; the estimators need scikit-learn and are imported when
they are first used.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bitstep.estimators import LowPrecisionClassifier, LowPrecisionRegressor

__all__ = ["LowPrecisionClassifier", "LowPrecisionRegressor"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from bitstep import estimators
    except ImportError as error:
        raise ImportError(f"{name} needs scikit-learn ({error}): pip install "
                          '"bitstep[sklearn]"') from error
    return getattr(estimators, name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
