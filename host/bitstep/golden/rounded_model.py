"""The model of few bits that dot products meet: every word rounded up or down at random.

The paper's Q3 (ZipML, appendix E), with one power of two as the scale of all words and updates that
go into the words of 32 bits. Rounding at random is right on average, so a least-squares gradient
with the rounded model is, too.
"""

import numpy as np

from bitstep.golden.dither import round_dithered
from bitstep.golden.threefry import threefry

STREAM = 2                  # second word of the key; the rows' dither has 0
FEATURES_PER_WORD = 64                  # features that share 16 random bits
TURN = 40503                # from one feature to the next: 2**16 over the golden ratio
DITHERS = 1 << 16           # dithers that there are
WORDS_PER_BLOCK = 4


def model_exponent(model: np.ndarray, bits: int) -> int:
    """The least e, from 0 on, with ``|word| <= (2**(bits - 1) - 1) * 2**e`` for every word.

    Parameters
    ----------
    model : ndarray of int64
        At least one word.
    bits : int
        At least 2.
    """
    largest, limit, exponent = int(np.abs(model).max()), (1 << bits - 1) - 1, 0
    while largest > limit << exponent:
        exponent += 1
    return exponent


def word_dithers(key: int, batch: int, n_features: int) -> np.ndarray:
    """Dithers of the model's weights.

    Parameters
    ----------
    key : int
        Key of the epoch.
    batch : int
        Number of the batch in its epoch, from 0.
    n_features : int

    Returns
    -------
    ndarray of int64, shape (n_features,)
        Each from 0 to 2**16 - 1.
    """
    features = np.arange(n_features)
    blocks = threefry((key, STREAM), (features // (FEATURES_PER_WORD * WORDS_PER_BLOCK), batch))
    group = features // FEATURES_PER_WORD % WORDS_PER_BLOCK
    words = np.where(group < 2, *blocks).astype(np.int64) >> 16 * (group % 2)
    return (words + TURN * (features % FEATURES_PER_WORD)) % DITHERS


def rounded_model(model: np.ndarray, bits: int, key: int, batch: int) -> np.ndarray:
    """Every word rounded, up or down at random, to an integer of few bits times a power of two.

    Parameters
    ----------
    model : ndarray of int64, shape (n_features,)
    bits : int
        Bits of the integers, sign included, 2 to 16.
    key, batch : int
        See :func:`word_dithers`.

    Returns
    -------
    ndarray of int64, shape (n_features,)
    """
    exponent = model_exponent(model, bits)
    if exponent == 0:
        return model.copy()
    return round_dithered(model, exponent, word_dithers(key, batch, len(model))) << exponent
