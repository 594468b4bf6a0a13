"""The QCS paper: Theorem 2, 1-bit dithering, weighted error feedback, compression gains."""

from math import log2

import numpy as np

from bitstep.gradients.control.feedback import best_weight, residual_bound
from bitstep_lab.gradients.papers.claims import Claim, bound, number

GAMMA = 3.0

CONCLUSION = "The theory holds but for the 1-bit form and k = 1, which need corrections."


def gain(n: int, k: int, levels: int) -> float:
    """Compression gain of k of n values of 2 Q + 1 levels (eq. 11), scales not counted."""
    return 32 * n / (k * log2(2 * levels + 1))


def claims() -> list[Claim]:
    """Claims of the paper."""
    return [*_one_bit(), *_feedback(), *_gains()]


def _one_bit():
    value, scale = 0.3, 2.0
    dithers = (np.arange(100_000) + 0.5) / 100_000 - 0.5
    signs = np.where(value / scale + dithers > 0, 1, -1)
    printed = np.mean(scale * (signs - dithers))
    yield Claim("Eqs. 5 and 6, 1 bit: mean of what is received for v = .3", "0.30",
                f"{printed:.2f}", "no: twice the value")
    half = scale * (signs / 2 - dithers)
    yield Claim("the same with q / 2: mean", "0.30", f"{half.mean():.2f}",
                "yes" if abs(half.mean() - value) < 1e-4 else "no")
    yield Claim("and variance, scale^2 / 12", f"{scale**2 / 12:.3f}", f"{half.var():.3f}",
                "yes" if abs(half.var() - scale**2 / 12) < 1e-3 else "no")


def _feedback():
    best = best_weight(GAMMA)
    least = residual_bound(GAMMA, best)
    yield number("Eq. 17: gamma (gamma + 1), gamma = 3, beta = 1 / (gamma + 1)", "12", least)
    mmse = residual_bound(GAMMA, unbiased=False)
    yield bound("Remark 3: eta of MMSE-QCS at beta = 1 is below 4 gamma (gamma + 1) = 48", "< 48",
                mmse, 48)
    yield bound("Remark 2: that of unbiased QCS is smaller", f"< {mmse:.2f}", least, mmse)


def _gains():
    yield number("Compression gain of k = n, Q = 1", "21", gain(64, 64, 1))
    yield Claim("the '40 % fewer bits' of gain 32 against it", "about 40 %",
                f"{100 * (1 - gain(64, 64, 1) / 32):.1f} %", "nearly")
