"""Codes that hold several stochastic roundings of a value (section 2.2, "Overhead of Storing
Samples", of the ZipML paper).

All samples of a value are ends of one interval of the grid, and the samples are used alike, so a
code needs the interval and the number of samples that took the upper end. For k samples the paper
counts ``log2(k)`` bits beside those of one sample: 4 + 4 bits for 16 samples on 16 levels (section
5.4). The number that went up has k + 1 values, though, and 4 + 4 bits hold them only because one
interval is always left over: 15 intervals times 17 counts are 255 codes.
"""

import numpy as np

from bitstep.checks import check_integer


def code_bits(*, levels: int, samples: int) -> int:
    """Bits of a code.

    Parameters
    ----------
    levels : int
        Equally spaced levels from -1 to 1, both included; at least 2.
    samples : int
        Independent roundings that a code holds; at least 1.

    Returns
    -------
    int
        The least b with ``(levels - 1) * (samples + 1) <= 2**b``.

    Raises
    ------
    ValueError
        If there are fewer levels or samples.

    Examples
    --------
    >>> code_bits(levels=16, samples=16)
    8
    """
    _check(levels, samples)
    return ((levels - 1) * (samples + 1) - 1).bit_length()


def encode_samples(u: np.ndarray, *, levels: int, samples: int,
                   rng: np.random.Generator) -> np.ndarray:
    """Codes of independent stochastic roundings.

    Parameters
    ----------
    u : ndarray of float, any shape
        Finite values in [-1, 1]; what lies beyond counts as the end.
    levels, samples : int
        See :func:`code_bits`.
    rng : numpy.random.Generator
        Source of the roundings.

    Returns
    -------
    ndarray of int64, same shape
        ``interval * (samples + 1) + up``, the interval counted from -1, ``up`` the number of
        samples at its upper end.

    Raises
    ------
    ValueError
        If there are too few levels or samples, or a value is not finite.
    """
    _check(levels, samples)
    u = np.asarray(u, np.float64)
    if not np.isfinite(u).all():
        raise ValueError("u must be finite; remove NaN and infinity")
    position = (np.clip(u, -1, 1) + 1) * ((levels - 1) / 2)
    interval = np.minimum(position.astype(np.int64), levels - 2)    # u = 1 ends the last one
    return interval * (samples + 1) + rng.binomial(samples, position - interval)


def decode_samples(codes: np.ndarray, *, levels: int, samples: int,
                   rng: np.random.Generator) -> np.ndarray:
    """Samples that codes stand for.

    A code does not say which of its samples went up. Every arrangement of independent, identically
    distributed draws with a given sum is equally likely, so drawing one gives samples that are
    independent again, jointly with the draws of the code.

    Parameters
    ----------
    codes : ndarray of int, any shape
        What :func:`encode_samples` returned.
    levels, samples : int
        As for encoding.
    rng : numpy.random.Generator
        Source of the arrangements; each value gets its own.

    Returns
    -------
    ndarray of float64, shape (samples, *codes.shape)
        Levels, in [-1, 1].

    Raises
    ------
    ValueError
        If there are too few levels or samples, or a code does not exist.
    """
    _check(levels, samples)
    codes = np.asarray(codes)
    count = (levels - 1) * (samples + 1)
    if codes.size and not 0 <= codes.min() <= codes.max() < count:
        raise ValueError(f"codes must be from 0 to {count - 1}, not from {codes.min()} "
                         f"to {codes.max()}")
    interval, left = np.divmod(codes, samples + 1)
    drawn = np.empty((samples, *codes.shape))
    for sample in range(samples):
        up = rng.random(codes.shape) * (samples - sample) < left
        left = left - up
        drawn[sample] = interval + up
    return drawn * (2 / (levels - 1)) - 1


def _check(levels, samples):
    for name, value, least in (("levels", levels, 2), ("samples", samples, 1)):
        check_integer(name, value, least)
