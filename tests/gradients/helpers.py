"""Statistics of codecs: means over many keys, held against what a codec states."""

import numpy as np

from bitstep_gradients import Codec, Key

CORNERS = (np.zeros(0), np.zeros(7), np.full(9, 3e38), np.array([3.4e38, -3.4e38, 1]),
           np.full(5, 1e-44), np.full(9, 2.0**-64), np.ones((2, 0)), np.array(-2.5),
           np.array([[1.5]]), np.linspace(-1, 1, 9).astype(np.float16), np.ones((40, 30)))


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


def check_corner(codec: Codec, vector: np.ndarray, side=None) -> None:
    """A corner vector comes back finite, in its shape, in a message of the stated length."""
    key = Key(11, 3, 1, 4)
    message = codec.encode(vector, key, side)
    decoded = codec.decode(message, key, side)
    assert decoded.shape == vector.shape
    assert decoded.dtype == np.float32
    assert np.isfinite(decoded).all()
    bias = codec.bias(vector)
    assert bias is not None
    assert bias.shape == vector.shape
    assert np.isfinite(bias).all()
    assert np.isfinite(codec.variance_bound(vector))
    if side is None:
        assert 8 * len(message) == codec.expected_bits(vector)
