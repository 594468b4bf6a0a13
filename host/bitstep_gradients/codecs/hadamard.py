"""Fast Hadamard transform in integers."""

import numpy as np

from bitstep_gradients import kernels

PIECE = 2**16           # values that are transformed at a time: half a megabyte stays in the cache


def hadamard(values: np.ndarray) -> np.ndarray:
    """Multiply every row by the Hadamard matrix of Sylvester's construction.

    Parameters
    ----------
    values : ndarray of int64, shape (rows, n)
        n is a power of two. The sum of the magnitudes of a row is below 2**63.

    Returns
    -------
    products : ndarray of int64, shape (rows, n)
    """
    loops = kernels.find_kernels()
    if loops:
        products = values.copy()
        loops.transform_rows(products)
        return products
    rows, n = values.shape
    products, at_a_time = np.empty_like(values), max(PIECE // n, 1)
    for start in range(0, rows, at_a_time):
        # One row beside the other, so that even sums of neighbours run over many values.
        piece, width = values[start:start + at_a_time].T.copy(), 1
        while width < n:
            pairs = piece.reshape(n // (2 * width), 2, width, -1)
            first, second = pairs[:, 0], pairs[:, 1]
            differences = first - second
            first += second
            second[...] = differences
            width *= 2
        products[start:start + at_a_time] = piece.T
    return products
