"""Compiled loops of codecs and payloads, where numba is installed.

The NumPy code is the specification, and all that runs where numba is not installed.
"""

from functools import cache
from typing import Any


@cache
def find_kernels() -> Any:
    """The module of all kernels, imported on the first call; None without numba."""
    try:
        from bitstep_gradients.kernels import compiled_loops
    except ImportError:
        return None
    return compiled_loops
