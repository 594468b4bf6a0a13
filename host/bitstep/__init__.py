"""Train dense linear models on FPGAs from data streamed at 1 to 8 bits per value.

Importing the package needs NumPy alone. What it exports is imported when it is first used; the
estimators need scikit-learn.
"""

import importlib
import importlib.metadata
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bitstep.devices import open_device
    from bitstep.estimators import LowPrecisionClassifier, LowPrecisionRegressor
    from bitstep.pipeline.config import PipelineConfig
    from bitstep.quantization import quantize
    from bitstep.search import LowPrecisionSearchCV
    from bitstep.training.train import train_model

__all__ = ["LowPrecisionClassifier", "LowPrecisionRegressor", "LowPrecisionSearchCV",
           "PipelineConfig", "open_device", "quantize", "train_model"]

_MODULES = {"PipelineConfig": "pipeline.config", "open_device": "devices",
            "quantize": "quantization", "train_model": "training.train"}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        try:
            return importlib.metadata.version("bitstep")
        except importlib.metadata.PackageNotFoundError as error:
            raise AttributeError("bitstep has no __version__ where it is not installed: pip "
                                 "install -e . where pyproject.toml is") from error
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name in _MODULES:
        return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
    try:
        from bitstep import estimators, search
    except ImportError as error:
        raise ImportError(f"{name} needs scikit-learn ({error}): pip install "
                          '"bitstep[sklearn]"') from error
    return getattr(search if name == "LowPrecisionSearchCV" else estimators, name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__, "__version__"])
