"""Default integers of 32 bits, as NumPy has them where C's long has 32 bits."""

import numpy as np

# Calls whose integers are default ones, unless they are told otherwise.
DEFAULT = {"arange", "flatnonzero", "nonzero", "argsort", "searchsorted", "lexsort", "bincount",
           "count_nonzero", "digitize", "cumsum"}


class _Narrow:
    """NumPy as on a 32-bit machine, as far as the tests below go."""

    intp = np.int32

    def __getattr__(self, name):
        function = getattr(np, name)
        if name not in {*DEFAULT, "repeat"}:
            return function

        def narrow(*arguments, **options):
            counts = {"bincount": arguments[0], "repeat": arguments[-1]}.get(name)
            if isinstance(counts, np.ndarray) and not np.can_cast(counts.dtype, np.int32):
                raise TypeError(f"Cannot cast array data from {counts.dtype} to int32")
            array = np.asarray(function(*arguments, **options))
            known = options.get("dtype") is not None or array.dtype.kind != "i" or name == "repeat"
            return array if known else array.astype(np.int32)
        return narrow


def narrow_integers(monkeypatch, *modules) -> None:
    """Make the default integers of modules 32 bits wide."""
    for module in modules:
        monkeypatch.setattr(module, "np", _Narrow(), raising=False)
