"""Bit planes of bit-plane rows that the epochs of a training read, as they are asked for."""

from typing import Any

import numpy as np

from bitstep.checks import is_integer
from bitstep.pipeline.parts.formats import BIT_PLANE_BITS, BIT_PLANES


def check_planes(encoding: str, planes: Any, n_epochs: int) -> None:
    """Raise ValueError unless there is a number of planes for every epoch on bit-plane rows, and
    none on others.
    """
    if (encoding == BIT_PLANES) != (planes is not None):
        raise ValueError("Bit planes are for bit-plane rows (`bitstep quantize --bit-planes`, "
                         "bitstep.quantization.quantize_bit_planes), which need them: found planes "
                         f"{planes!r} for encoding {encoding!r}")
    if planes is not None and not (len(planes) == n_epochs and all(
            is_integer(one, 1, BIT_PLANE_BITS) for one in planes)):
        raise ValueError(f"planes must be {n_epochs} integers from 1 to {BIT_PLANE_BITS}, one an "
                         f"epoch, not {planes!r}")


def resolve_planes(asked: Any, n_epochs: int,
                   automatic: tuple[int, ...] | str) -> tuple[int, ...] | str | None:
    """Planes of every epoch.

    Parameters
    ----------
    asked : int, sequence of int, "auto" or None
        Of a sequence the last element counts for all epochs beyond it; None of rows of fixed bits.
    n_epochs : int
    automatic : tuple of int or str
        What ``"auto"`` is with a solver: its ``automatic_planes``.

    Raises
    ------
    ValueError
        If there is no such schedule.
    """
    if asked is None:
        return None
    if isinstance(asked, str):
        if asked != "auto":
            raise ValueError(f"planes must be 'auto', an integer from 1 to {BIT_PLANE_BITS}, or a "
                             f"list of them, not {asked!r}")
        return automatic
    given = [asked] if np.ndim(asked) == 0 else list(asked)
    if not given or not all(is_integer(one, 1, BIT_PLANE_BITS) for one in given):
        raise ValueError(f"planes must be 'auto', an integer from 1 to {BIT_PLANE_BITS}, or a list "
                         f"of them, not {asked!r}")
    found = [int(one) for one in given[:n_epochs]]
    return tuple(found + found[-1:] * (n_epochs - len(found)))
