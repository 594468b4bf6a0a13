"""The DQSG paper: Tables 1 and 2, Lemmas 2 and 3, nested quantization."""

from math import log2, sqrt

import numpy as np

from bitstep_gradients import Key, make_codec
from bitstep_gradients.lab.papers.claims import Claim, number
from bitstep_gradients.lab.papers.networks import (
    CIFARNET,
    FC_300_100,
    LENET,
    Shapes,
    count,
    one_bit_centres,
)

NETWORKS = {"FC-300-100": (FC_300_100, ("8531.5", "422.8", "342.6")),
            "LeNet": (LENET, ("53227.8", "2636.7", "1897.8")),
            "CifarNet": (CIFARNET, ("34185.5", "1690", "1251"))}
ENTROPIES = {"DQSGD": 299.7, "one-bit": 1889}       # Table 2, LeNet
SIZE = 20_001
Numbers = float | np.ndarray

CONCLUSION = ("Sizes agree but for two rows of CifarNet. A nested worker saves more than printed, "
              "all workers together less, and the variances compared are not equal.")


def raw_kilobits(shapes: Shapes, levels: int) -> float:
    """Thousands of bits without headers: log2(2 M + 1) a value, and a scale of 32 for a tensor."""
    return (count(shapes) * log2(2 * levels + 1) + 32 * len(shapes)) / 1000


def claims() -> list[Claim]:
    """Claims of the paper."""
    return [*_sizes(), *_lemmas(), *_nested()]


def _sizes():
    for name, (shapes, (plain, dqsg, one_bit)) in NETWORKS.items():
        n = count(shapes)
        text = f"Table 1, Kbit: {name} of {n:,} parameters"
        yield number(f"{text}, baseline", plain, 32 * n / 1000)
        yield number(f"{text}, DQSGD and QSGD, M = 1", dqsg, raw_kilobits(shapes, 1))
        yield number(f"{text}, one-bit, two centres a row", one_bit,
                     (n + 32 * one_bit_centres(shapes)) / 1000)
    yield number("FC-300-100, DQSGD, M = 2, Kbit", "619.2", raw_kilobits(FC_300_100, 2))
    ratio = ENTROPIES["one-bit"] / ENTROPIES["DQSGD"]
    yield number("Table 2, LeNet: entropy of one-bit by DQSGD's", "6", ratio)


def _lemmas():
    vector = np.linspace(-1, 1, SIZE, dtype=np.float32)
    for levels in (1, 2):
        plain, dithered = (make_codec(name, levels=levels).expected_error(vector)
                           for name in ("qsgd-linf", "dqsg"))
        assert plain is not None
        assert dithered is not None
        yield Claim(f"Lemma 2, uniform values, M = {levels}: variance of stochastic rounding, "
                    "1 / (6 M^2)", f"{1 / (6 * levels**2):.4f}", f"{plain / SIZE:.4f}",
                    _near(plain / SIZE, 1 / (6 * levels**2)))
        yield Claim("the same with the dither subtracted, half of it",
                    f"{1 / (12 * levels**2):.4f}", f"{dithered / SIZE:.4f}",
                    _near(dithered / SIZE, 1 / (12 * levels**2)))
    codec, vector = make_codec("dqsg", levels=2), np.random.default_rng(0).normal(size=4096)
    bound = vector.size * (np.abs(vector).max() / 2)**2 / 12
    found = np.mean([np.sum((codec.decode(codec.encode(vector, key), key) - vector)**2)
                     for key in (Key(1, step) for step in range(50))])
    yield Claim("Lemma 3: error by |g|inf^2 n / (12 M^2), a bound; 4,096 Gaussian values, M = 2",
                "<= 1", f"{found / bound:.3f}", "yes: it is equal")


def nested(value: Numbers, dither: Numbers, side: Numbers, fine: float, coarse: float,
           alpha: float = 1.0) -> tuple[Numbers, Numbers]:
    """Index that is sent, a multiple of ``fine``, and value that is received (Theorem 6).

    The codec ``ndqsg`` does the same in integers; this is the paper's formula.
    """
    sent = _nearest(alpha * value + dither, fine)
    sent -= _nearest(sent, coarse)
    rest = sent - dither - alpha * side
    return sent / fine, side + alpha * (rest - _nearest(rest, coarse))


def _nearest(value, step):
    return step * np.floor(value / step + 0.5)


def _nested():
    index, received = nested(-4.2, 0.3, -3.4, 1, 3)
    agrees = np.isclose(index, -1) and np.isclose(received, -4.3)
    yield Claim("Fig. 3: x = -4.2, u = .3, y = -3.4, steps 1 and 3: index, received value",
                "-1, -4.3", f"{index:.0f}, {received:.1f}", "yes" if agrees else "no")
    rng, fine, sigma = np.random.default_rng(3), 1 / 3, 0.1
    values, dithers = rng.normal(size=400_000), rng.uniform(-fine / 2, fine / 2, 400_000)
    sides = values + rng.normal(size=400_000) * sigma
    for text, square in (("alpha = 1", 1.0), ("the paper's other alpha, sqrt(1 - D1^2 / (12 s^2))",
                                              1 - fine**2 / (12 * sigma**2)),
                         ("the alpha of least variance, sqrt(1 - D1^2 / (24 s^2))",
                          1 - fine**2 / (24 * sigma**2))):
        found = np.mean((nested(values, dithers, sides, fine, 1.0, sqrt(square))[1] - values)**2)
        exact = square * fine**2 / 12 + (1 - square)**2 * sigma**2
        yield Claim(f"Eq. 9, D1 = 1/3, D2 = 1, s = .1: variance with {text}", f"{exact:.5f}",
                    f"{found:.5f}", _near(found, exact))
    least = raw_kilobits(FC_300_100, 1)
    saved = 1 - least / raw_kilobits(FC_300_100, 2)
    yield Claim("NDQSG needs > 30 % less than DQSG: 422.8 instead of 619.2 Kbit, FC-300-100",
                "> 30 %", f"{100 * saved:.1f} %",
                f"yes for a nested worker; {100 * saved / 2:.1f} % for all, as half of them nest")
    yield Claim("DQSG with M = 2 and NDQSG with (1/3, 1) have equal variance: their ratio", "1",
                f"{(1 / 48) / (fine**2 / 12):.2f}", "no: M = 3 is equal")
    more = 1 - least / raw_kilobits(FC_300_100, 3)
    yield Claim("the same saving against M = 3, of equal variance", "> 30 %",
                f"{100 * more:.1f} %", f"yes for a nested worker; {100 * more / 2:.1f} % for all")


def _near(found, exact):
    return "yes" if abs(found / exact - 1) < 0.02 else "no"
