"""The QCS paper: Theorem 2, 1-bit dithering, weighted error feedback, compression gains."""

from dataclasses import replace

import numpy as np

from bitstep_gradients import ErrorFeedback, Key, make_codec
from bitstep_gradients.codecs.gains import compression_gain
from bitstep_gradients.codecs.qcs import Qcs, QcsMmse, gamma
from bitstep_gradients.control.feedback import best_weight, residual_bound
from bitstep_gradients.lab.papers.claims import Claim, bound, number
from bitstep_gradients.lab.sketches import THEOREM, relative_errors

GAMMA = 3.0

CONCLUSION = "The theory holds but for the 1-bit form and k = 1, which need corrections."


def claims() -> list[Claim]:
    """Claims of the paper."""
    return [*_theorem(), *_one_bit(), *_feedback(), *_gains()]


def _theorem():
    """Largest error ratio of three kinds of vectors, in 400 buckets each."""
    for n, k, levels in THEOREM:
        kinds = (np.random.default_rng(1).normal(size=n), np.eye(n)[0], np.ones(n))
        found = max(relative_errors(Qcs(share=k / n, levels=levels, bucket_size=n),
                                    np.tile(kind, 100), 4).mean() for kind in kinds)
        limit = gamma(n, k, levels) if k > 1 else n - 1.0
        text = f"n, k, Q = {n}, {k}, {levels}"
        claim = bound(f"Theorem 2, {text}: error ratio at most gamma", f"<= {limit:.4g}", found,
                      limit, places=3)
        if k == 1:
            claim = replace(claim, agrees=f"{claim.agrees}: n - 1 + n / (12 Q^2) = "
                            f"{gamma(n, k, levels):.1f}")
        yield claim
    mmse = relative_errors(QcsMmse(share=0.5, bucket_size=64), np.tile(np.eye(64)[0], 100), 4)
    limit = gamma(64, 32, 1) / (1 + gamma(64, 32, 1))
    yield bound("Lemma 3, MMSE-QCS, n, k, Q = 64, 32, 1: error ratio at most gamma / (1 + gamma)",
                f"<= {limit:.3f}", float(mmse.mean()), limit, places=3)


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


def _residual(weight):
    """E|r|^2 / E|g|^2 of Gaussian gradients under random-k of a quarter: gamma = 3 exactly."""
    feedback = ErrorFeedback(make_codec("random-k", share=0.25), weight=weight)
    rng, found = np.random.default_rng(8), []
    for step in range(300):
        feedback.encode(rng.normal(size=4096), Key(3, step))
        residual = feedback.residual(0)
        if step >= 60 and residual is not None:
            found.append(np.sum(residual.astype(np.float64)**2) / residual.size)
    return float(np.mean(found))


def _feedback():
    for weight in (0.25, 0.1):
        eta, found = residual_bound(GAMMA, weight), _residual(weight)
        yield Claim(f"Lemma 4, gamma = 3, beta = {weight}: eta", f"{eta:.2f}", f"{found:.2f}",
                    "yes" if abs(found / eta - 1) < 0.02 else "no")
    best = best_weight(GAMMA)
    least = residual_bound(GAMMA, best)
    yield number("Eq. 17: gamma (gamma + 1), gamma = 3, beta = 1 / (gamma + 1)", "12", least)
    mmse = residual_bound(GAMMA, unbiased=False)
    yield bound("Remark 3: eta of MMSE-QCS at beta = 1 is below 4 gamma (gamma + 1) = 48", "< 48",
                mmse, 48)
    yield bound("Remark 2: that of unbiased QCS is smaller", f"< {mmse:.2f}", least, mmse)


def _gains():
    yield number("Compression gain of k = n, Q = 1", "21", compression_gain(64, 64, 1))
    yield Claim("the '40 % fewer bits' of gain 32 against it", "about 40 %",
                f"{100 * (1 - compression_gain(64, 64, 1) / 32):.1f} %", "nearly")
