"""The ALQ paper: its tables' arithmetic, and equation 16."""

from math import erf, pi, sqrt

import numpy as np

from bitstep_lab.gradients.papers.claims import Claim, number

UPDATES = 3
HOURS = {"32": 95, "16": 46}

CONCLUSION = "Shares of time agree; the sentence about 10 minutes and equation 16 do not hold."


def claims() -> list[Claim]:
    """Claims of the paper."""
    return [*_overhead(), *_density()]


def _overhead():
    """Table 7 has seconds of one update; three updates make its shares."""
    for name, seconds, printed in (("ALQ, 3 bits, bucket 8192", 474, ("0.42", "0.85")),
                                   ("ALQ-N, 8 bits, bucket 64", 5604, ("4.92", "10.01"))):
        for bits, share in zip(HOURS, printed, strict=True):
            found = 100 * UPDATES * seconds / (3600 * HOURS[bits])
            yield number(f"Table 7: {name}: three updates by a training in {bits} bits, "
                         f"{HOURS[bits]} h", share, found, unit=" %",
                         note="46 h is rounded" if bits == "16" else "")
    minutes = UPDATES * 474 / 60
    yield Claim("ALQ's adaptation costs at most 10 minutes in total", "<= 10 min",
                f"{minutes:.1f} min", "no: by Table 7")


def _density():
    """Truncated normal distribution on (0, 1), by the trapezoidal rule."""
    mean, sigma = 0.1, 0.25
    places = np.linspace(0, 1, 100_001)
    density = np.exp(-((places - mean) / sigma)**2 / 2) / (sigma * sqrt(2 * pi))
    inside = (erf((1 - mean) / sigma / sqrt(2)) + erf(mean / sigma / sqrt(2))) / 2
    heights = density / (sigma * inside)
    total = float(np.sum(heights[1:] + heights[:-1]) * (places[1] - places[0]) / 2)
    yield Claim("Eq. 16: the density's integral, sigma = .25", "1", f"{total:.3f}",
                "no: the factor 1 / sigma is one too many")
    yield Claim("the same without the factor", "1", f"{total * sigma:.3f}",
                "yes" if abs(total * sigma - 1) < 1e-6 else "no")
