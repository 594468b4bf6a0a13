"""Fig. 2 of the QCS paper: steps with which a linear regression converges.

z = W x has 64 inputs and 50 outputs; inputs are normal with eigenvalues of their correlation from 1
to 4, and batches have 32 rows. Each codec quantizes the 50 x 64 gradient of one worker, in buckets
of 64 values. A run converges if its squared distance falls to a hundredth in 500 steps.
"""

import numpy as np

from bitstep_gradients import Key, make_codec
from bitstep_gradients.codecs.base import Codec
from bitstep_gradients.lab.papers.claims import Claim

INPUTS, OUTPUTS, BATCH, N_STEPS, RUNS = 64, 50, 32, 500, 10
STEPS = (0.005, 0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.14, 0.2, 0.28)
SMALL, LARGE = 0.05, 0.1                # those of the paper's sentence
GOAL, LOST = 0.01, 100.0                # of the squared distance at first
# Gains of about 20 by 32 / bits a value, and of 32 for the last one ("fewer bits").
CODECS = {"float32": ("none", {}),
          "QCS, gain 20": ("qcs", {"share": 0.68, "levels": 2, "bucket_size": 64}),
          "QSGD, gain 20": ("qsgd-linf", {"levels": 1, "bucket_size": 64}),
          "random-k, gain 21": ("random-k", {"share": 1 / 21, "bucket_size": 64}),
          "QCS, gain 32": ("qcs", {"share": 0.43, "levels": 2, "bucket_size": 64})}


def steps_to_goal(codec: Codec, step: float, seed: int) -> float:
    """Steps until the squared distance is a hundredth; infinite if it never is.

    Parameters
    ----------
    codec : Codec
    step : float
        Step size.
    seed : int
        Of the data and the random words.
    """
    rng = np.random.default_rng(seed)
    axes, _ = np.linalg.qr(rng.normal(size=(INPUTS, INPUTS)))
    mixing = axes * np.sqrt(np.linspace(1, 4, INPUTS))
    distance = rng.normal(size=(OUTPUTS, INPUTS))
    first = float(np.sum(distance**2))
    for number in range(1, N_STEPS + 1):
        rows = mixing @ rng.normal(size=(INPUTS, BATCH))
        gradient = distance @ rows @ rows.T / BATCH
        key = Key(seed, number)
        distance = distance - step * codec.decode(codec.encode(gradient, key), key)
        left = float(np.sum(distance**2)) / first
        if left <= GOAL:
            return number
        if left > LOST:
            break
    return np.inf


def curves() -> dict[str, np.ndarray]:
    """Steps to the goal of every codec: float64, shape (step sizes, runs)."""
    return {title: np.array([[steps_to_goal(make_codec(name, **options), step, seed)
                              for seed in range(RUNS)] for step in STEPS])
            for title, (name, options) in CODECS.items()}


def table(found: dict[str, np.ndarray]) -> str:
    """Share of the runs that converge, and median steps, in Markdown."""
    lines = [["codec", *(f"{step:g}" for step in STEPS)], ["---"] * (len(STEPS) + 1)]
    for title, numbers in found.items():
        cells = [title]
        for row in numbers:
            share = np.isfinite(row).mean()
            cells.append(f"{np.median(row):.0f}" if share == 1 else f"{100 * share:.0f} % of runs"
                         if share else "-")
        lines.append(cells)
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def claims(found: dict[str, np.ndarray]) -> list[Claim]:
    """Claims of the figure.

    Parameters
    ----------
    found : dict
        Of :func:`curves`.
    """
    whole = {title: max((step for step, row in zip(STEPS, numbers, strict=True)
                         if np.isfinite(row).all()), default=0.0)
             for title, numbers in found.items()}
    plain, ours, other, sparse, _ = whole.values()
    text = ", ".join(f"{title} {step:g}" for title, step in whole.items())
    slow = float(np.median(found["QSGD, gain 20"][STEPS.index(SMALL)]))
    lean = float(np.median(found["QCS, gain 32"][STEPS.index(SMALL)]))
    fast = float(np.median(found["QCS, gain 20"][STEPS.index(LARGE)]))
    return [
        Claim("Fig. 2a: largest step size with which all runs converge: compression lowers it",
              "lower", text, _yes(max(list(whole.values())[1:]) < plain)),
        Claim("Fig. 2a: that of QCS is above those of QSGD and sparsification", "above",
              f"{ours:g}; {other:g}, {sparse:g}", _yes(ours > max(other, sparse))),
        Claim("Fig. 2b: QCS with 40 % fewer bits, step .05, is faster than QSGD, too", "faster",
              f"{lean:g}; {slow:g} steps", _yes(lean < slow)),
        Claim("Fig. 2: QCS with the step .10 takes half of QSGD's time with .05", "1 / 2",
              f"{fast:g} and {slow:g} steps", _yes(fast <= 0.6 * slow))]


def _yes(holds):
    return "yes" if holds else "no"
