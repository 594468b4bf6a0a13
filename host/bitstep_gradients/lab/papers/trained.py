"""Claims that need a training, judged by a race of FC-300-100 on digits.

The command of the race is in the help of `python -m bitstep_gradients.lab.papers`.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from bitstep_gradients.lab.outcome import by_contestant, place_of
from bitstep_gradients.lab.papers.claims import Claim

BITS, BUCKETS = (2, 3, 4), (64, 512, 8192)
SIZES = [(bits, 8192) for bits in BITS] + [(3, bucket) for bucket in BUCKETS[:-1]]
SPREADS = 2                     # standard deviations of the seeds that count as equal


def levelled(name: str, bits: int = 3, bucket: int = 8192) -> str:
    """Contestant with levels, by default as in most figures of the ALQ paper."""
    return f"{name}:bits={bits},bucket_size={bucket}"


ADAPTIVE = [levelled(name) for name in ("alq", "alq-n", "amq", "amq-n")]
TERNARY = "terngrad:bucket_size=8192"
PLAIN = [levelled("nuqsgd"), levelled("qsgd-linf"), TERNARY]
SKETCHES = ["qcs", "qcs:share=0.43,levels=2"]
RADIX_LIKE = "qsgd-linf:bucket_size=512"
# Table 2 of the DQSG paper, kilobits of FC-300-100
ENTROPIES = {"dqsg:payload=range": "38.6", "qsgd-linf:payload=range": "38.2",
             "terngrad:payload=range": "48.23", "one-bit": "330"}
NESTED, EQUAL, PRINTED = "ndqsg:levels=3", "dqsg:levels=3", "dqsg:levels=2"
CODECS = list(dict.fromkeys(
    ["none", *(levelled(name, *size) for size in SIZES for name in ("alq", "nuqsgd", "qsgd-linf")),
     *ADAPTIVE, *PLAIN, *ENTROPIES, PRINTED, EQUAL, NESTED, *SKETCHES, RADIX_LIKE]))


class Outcome:
    """Figures of a race by the contestants' texts.

    Parameters
    ----------
    race : dict
        Of :func:`bitstep_gradients.lab.race.run_race`, with all of :data:`CODECS`.

    Raises
    ------
    ValueError
        If one of them is missing.
    """

    def __init__(self, race: dict[str, Any]):
        self._race, self._runs = race, by_contestant(race)
        missing = [text for text in CODECS if text not in self._runs]
        if missing:
            raise ValueError(f"the race must have all codecs of `python -m "
                             f"bitstep_gradients.lab.papers --codecs`; it lacks {missing[0]}")

    def at_end(self, text: str, what: str = "loss") -> float:
        """Mean over the seeds at equal steps; infinite if a run diverged."""
        return float(np.mean(self._ends(text, what)))

    def spread(self, text: str) -> float:
        """Standard deviation of the loss over the seeds that did not diverge, at least that of
        float32.
        """
        ends = [[one for one in self._ends(name, "loss") if np.isfinite(one)] or [0.0]
                for name in (text, "none")]
        return float(max(map(np.std, ends)))

    def like_float(self, text: str) -> bool:
        """True if the loss is that of float32 within some spreads, or below."""
        return self.at_end(text) <= self.at_end("none") + SPREADS * self.spread(text)

    def own_error(self, text: str) -> float:
        """Mean error of a message on the contestant's own path."""
        return float(np.mean([point["error"] for run in self._runs[text] for point in run["points"]
                              if point["error"] is not None]))

    def errors(self, text: str) -> np.ndarray:
        """Errors of a message along the path of uncompressed training."""
        return np.array(self._race["probe"]["errors"][text])

    def kilobits(self, text: str) -> float:
        """Thousands of bits of a rank and step."""
        return 8 * float(np.mean([run["bytes_a_step"] for run in self._runs[text]])) / 1000

    def bits(self, text: str) -> float:
        """Bits of a value, scales and headers included."""
        return 1000 * self.kilobits(text) / self._race["n_values"]

    def least_level(self, text: str) -> float:
        """Median over tensors and seeds of the least positive level at the end."""
        return float(np.median([min(level for level in levels if level > 0)
                                for run in self._runs[text]
                                for levels in run["levels"][-1]["levels"].values()]))

    def _ends(self, text, what):
        budget = self._race["setting"]["budget"]
        points = [place_of(run, "steps", budget) for run in self._runs[text]]
        return [point[what] if point else np.inf for point in points]


def claims(race: dict[str, Any]) -> dict[str, list[Claim]]:
    """Claims by paper; see :class:`Outcome`."""
    found = Outcome(race)
    return {"ALQ": [*_alq(found), *_alq_settings(found)], "QCS": [*_qcs(found)],
            "DQSG": [*_dqsg(found)]}


def _alq(found: Outcome) -> Iterator[Claim]:
    texts = [*ADAPTIVE, *PLAIN]
    yield Claim(
        "Tables 1, 2, Fig. 3, 9, 10: 3 bits, bucket 8192: ALQ, ALQ-N, AMQ, AMQ-N end near float32",
        "91.30, 91.96, 91.10, 91.03 %; float32 92.26 % (ResNet32)",
        f"loss {_losses(found, ADAPTIVE)}; float32 {found.at_end('none'):.3f}",
        _yes(all(found.like_float(text) for text in ADAPTIVE)))
    yield Claim("the same: NUQSGD, QSGDinf and TernGrad end worse than each of them",
                "83.73, 89.95, 89.65 %", f"loss {_losses(found, PLAIN)}",
                _yes(min(map(found.at_end, PLAIN)) > max(map(found.at_end, ADAPTIVE))))
    for figure, error in (("Fig. 1, 4, 12: error on each method's own path", found.own_error),
                          ("Fig. 5, 11: error on the path of float32",
                           lambda text: float(found.errors(text).mean()))):
        values = {text: error(text) for text in texts}
        yield Claim(f"{figure}: below those of NUQSGD, QSGDinf, TernGrad", "below",
                    f"{_numbers(values, ADAPTIVE)}; {_numbers(values, PLAIN)}",
                    _yes(max(values[text] for text in ADAPTIVE)
                         < min(values[text] for text in PLAIN)))
    uniform, ternary = found.errors(PLAIN[1]), found.errors(TERNARY)
    half = len(uniform) // 2
    ratio = float(np.mean(uniform[:half] / ternary[:half]))
    yield Claim("Fig. 5: uniform levels are as bad as TernGrad in the first half: ratio of errors",
                "about 1", f"{ratio:.2f}", _yes(ratio > 0.8))
    least = found.least_level(ADAPTIVE[0])
    yield Claim("Fig. 6: ALQ's levels are concentrated near zero: the least one, against 1/7",
                "below", f"{least:.4f}", _yes(least < 1 / 7))


def _alq_settings(found):
    for what, sizes in (("bits, bucket 8192: 2, 3, 4", [size for size in SIZES if size[1] == 8192]),
                        ("bucket size, 3 bits: 64, 512, 8192",
                         [(3, bucket) for bucket in BUCKETS])):
        losses = {name: [found.at_end(levelled(name, *size)) for size in sizes]
                  for name in ("alq", "nuqsgd", "qsgd-linf")}
        best = all(losses["alq"][i] <= min(losses["nuqsgd"][i], losses["qsgd-linf"][i])
                   + SPREADS * found.spread(levelled("alq", *size)) for i, size in enumerate(sizes))
        yield Claim(f"Fig. 7: effect of {what}: ALQ is best or equal, of ALQ, NUQSGD, QSGDinf",
                    "best", "loss " + "; ".join(" ".join(f"{one:.3f}" for one in row)
                                                for row in losses.values()), _yes(best))
    errors = {name: [float(found.errors(levelled(name, 3, bucket)).mean()) for bucket in BUCKETS]
              for name in ("alq", "nuqsgd", "qsgd-linf")}
    growth = {name: row[-1] / row[0] for name, row in errors.items()}
    yield Claim("Fig. 7: larger buckets cost NUQSGD most: error of bucket 8192 by that of 64",
                "most", ", ".join(f"{name} {value:.1f}" for name, value in growth.items()),
                _yes(max(growth, key=lambda name: growth[name]) == "nuqsgd"))


def _qcs(found):
    ours, other = found.errors(SKETCHES[0]), found.errors(RADIX_LIKE)
    yield Claim("Fig. 4: relative error of QCS at QSG's bits is below QSG's", "below",
                f"{ours.mean():.2f}; {other.mean():.2f}", _yes(ours.mean() < other.mean()))
    scatter = [float(np.std(one) / np.mean(one)) for one in (ours, other)]
    yield Claim("Fig. 4: and is concentrated: standard deviation over the training by mean",
                "narrow", f"{scatter[0]:.3f}; {scatter[1]:.3f}", _yes(scatter[0] < scatter[1]))
    yield Claim("Fig. 7: QCS with gains of 20 and 32 converges as float32 does", "equal",
                f"loss {_losses(found, SKETCHES)}; float32 {found.at_end('none'):.3f}",
                _yes(all(map(found.like_float, SKETCHES))))


def _dqsg(found):
    for text, printed in ENTROPIES.items():
        yield Claim(f"Table 2: Kbit a step, FC-300-100, entropy; here `{text}`, digits", printed,
                    f"{found.kilobits(text):.1f}",
                    "no coder: 1 bit a value" if text == "one-bit" else "other data")
    order = [found.kilobits(text) for text in ENTROPIES]
    yield Claim("Table 2: DQSG and QSG below TernGrad, TernGrad below one-bit", "below",
                " < ".join(f"{one:.1f}" for one in order[1:]),
                _yes(max(order[:2]) < order[2] < order[3]))
    coded, plain = "dqsg:payload=range", "one-bit"
    yield Claim("Fig. 4: accuracy of DQSG is near float32's, 1-bit SGD's without feedback below",
                "near; below", f"{_percent(found, coded)}, {_percent(found, plain)}; float32 "
                f"{_percent(found, 'none')}",
                _yes(found.like_float(coded) and found.at_end(plain) > found.at_end(coded)))
    yield Claim("Fig. 5: NDQSG (1/3, 1) trains as DQSG with M = 2 does", "equal",
                f"loss {_losses(found, [NESTED, PRINTED])}",
                _yes(abs(found.at_end(NESTED) - found.at_end(PRINTED))
                     <= SPREADS * found.spread(PRINTED)))
    ratio = float(np.mean(found.errors(NESTED) / found.errors(PRINTED)))
    yield Claim("and has its error: ratio", "1", f"{ratio:.2f}", "no: 4 / 9, that of M = 3")
    yield Claim("Bits of a value of NDQSG on this training's gradients, against M = 3", "fewer",
                f"{found.bits(NESTED):.2f}; {found.bits(EQUAL):.2f}",
                _yes(found.bits(NESTED) < found.bits(EQUAL)))


def _losses(found, texts):
    return ", ".join(f"{found.at_end(text):.3f}" for text in texts)


def _numbers(values, texts):
    return ", ".join(f"{values[text]:.3g}" for text in texts)


def _percent(found, text):
    return f"{100 * found.at_end(text, 'accuracy'):.1f} %"


def _yes(holds):
    return "yes" if holds else "no"


