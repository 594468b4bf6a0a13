"""Rows and levels of QCS for a given compression gain."""

from math import log2

from bitstep_gradients.codecs.qcs import gamma

LEVELS = (0.5, 1, 2, 3, 4, 7, 15, 31)       # 0.5: codec qcs-1bit


def compression_gain(n: int, k: int, levels: float) -> float:
    """Bits of n values in float32 over bits of k numbers of 2 Q + 1 levels, scales not counted
    (equation 11 of the QCS paper).
    """
    return 32 * n / (k * log2(2 * levels + 1))


def best_sketch(n: int, gain: float) -> tuple[float, int, float]:
    """Find the rows and levels of least error at a compression gain.

    Parameters
    ----------
    n : int
        Values a bucket, a power of two.
    gain : float
        Least compression gain, above 0 and at most 32 n.

    Returns
    -------
    gamma : float
        Bound of E|g' - g|^2 / |g|^2.
    k : int
        Rows; ``share`` of the codec is k / n.
    levels : float
        Levels Q, of 0.5 (codec ``qcs-1bit``), 1, 2, 3, 4, 7, 15 and 31.

    Raises
    ------
    ValueError
        For a gain outside its range.
    """
    if not 0 < gain <= 32 * n:
        raise ValueError(f"gain must be a positive number, at most 32 n = {32 * n}, not {gain!r}")
    sketches = []
    for levels in LEVELS:
        k = min(int(compression_gain(n, 1, levels) / gain * (1 + 1e-12)), n)
        if k:
            sketches.append((gamma(n, k, levels), k, levels))
    return min(sketches)
