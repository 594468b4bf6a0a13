"""Functions of the compiled loops, called one by one."""

import functools
from typing import Any

import numba


@functools.cache
def for_python(function: Any) -> Any:
    """A function that kernels alone call, compiled again with what Python needs to call it.

    Parameters
    ----------
    function : dispatcher
        Of :func:`bitstep.compiling.compiled` or :func:`bitstep.compiling.routine`, which end the
        process that calls them.
    """
    return numba.njit(function.py_func)
