"""Statistics of codecs: means over many keys, held against what a codec states."""

import numpy as np

from bitstep.gradients import Codec, Key


def errors(codec: Codec, vector: np.ndarray, trials: int, side=None, seed=0) -> np.ndarray:
    """decode(encode(v)) - v for many keys: float64, shape (trials, size)."""
    found = np.empty((trials, np.size(vector)))
    for step in range(trials):
        key = Key(seed, step, rank=step % 3, tensor=5)
        decoded = codec.decode(codec.encode(vector, key), key, side)
        found[step] = (decoded.astype(np.float64) - vector).reshape(-1)
    return found


def check_mean(codec: Codec, vector: np.ndarray, found: np.ndarray) -> None:
    """The mean error of all values together, in random directions, is the stated bias within 4
    standard errors.
    """
    bias = codec.bias(vector)
    assert bias is not None
    rng = np.random.default_rng(7)
    for direction in (np.ones(found.shape[1]), *rng.normal(size=(4, found.shape[1]))):
        along = (found - bias.reshape(-1)) @ direction
        noise = along.std(ddof=1) / np.sqrt(along.size)
        assert abs(along.mean()) <= 4 * noise + 1e-6 * np.linalg.norm(vector), along.mean() / noise


def check_variance(codec: Codec, vector: np.ndarray, found: np.ndarray) -> None:
    """The mean squared error is the exact one within 2 %, and within its bound."""
    mean, least = (found**2).sum(axis=1).mean(), 1e-7 * np.sum(vector**2)
    exact = codec.expected_error(vector)
    if exact is not None:
        assert abs(mean - exact) <= 0.02 * exact + least, (mean, exact)
    assert mean <= 1.02 * codec.variance_bound(vector) + least
