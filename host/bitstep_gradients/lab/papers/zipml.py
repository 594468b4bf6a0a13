"""The ZipML paper, where it speaks of gradients and samples."""

from math import log2, sqrt

import numpy as np

from bitstep_gradients.codecs.uniform import Qsgd
from bitstep_gradients.lab.papers.claims import Claim, number

CONCLUSION = "Three of the four statements are wrong as printed."


def claims() -> list[Claim]:
    """Claims of the paper."""
    codec, size = Qsgd(levels=2), 100
    probabilities = codec.probabilities(np.ones(size))
    values = size * (1 - probabilities[codec.levels])
    limit = codec.levels**2 + sqrt(size)
    return [
        *(Claim(f"{samples} samples of a value cost log2 k bits more", f"{log2(samples):.0f}",
                f"{log2(samples + 1):.3f}", "no: log2(k + 1)") for samples in (2, 16)),
        Claim("Lemma 6: at most s^2 + sqrt(n) values are not 0: n = 100 equal values, s = 2",
              f"<= {limit:.0f}", f"{values:.2f}",
              f"no: at most s^2 + s sqrt(n) = {codec.levels**2 + codec.levels * sqrt(size):.0f}"),
        number("optimal levels of 3 bits are like uniform ones of 5: bits saved", "1.7", 5 / 3,
               note="the text has 1.6, too"),
    ]
