"""Adaptive bits without a theory: the baselines that the DQ-SGD paper compares with.

The sources of these two were not at hand. All that is known of them here is what the DQ-SGD paper
says in its introduction: which statistic each one follows, and when it takes more bits. Everything
else is a choice made here, and each class says which. They are no reproductions. (The DQ-SGD paper
exchanges the two references in places; names and statistics are matched by the titles.)
"""

from math import ceil, log2

from bitstep.checks import is_number
from bitstep_gradients.codecs.base import Codec
from bitstep_gradients.control.controller import BitController
from bitstep_gradients.control.schedule import LEVELS, MAX_BITS, MIN_BITS


class OlandRaj(BitController):
    """Bits by the root mean square (RMS) of the gradient (after Oland and Raj, ICASSP 2015).

    From the DQ-SGD paper: a gradient of larger RMS has more bits, so there are more bits early in a
    training and fewer later. Chosen here: the RMS is that of all values of all ranks; levels are in
    proportion to it, M = M_0 RMS / RMS_0, rounded up. So a step between levels stays about the same
    in units of the gradient.

    Parameters
    ----------
    codec, interval, first_bits
        See :class:`BitController`. ``first_bits`` gives M_0, at the first update.
    """

    start = {"first": 0.0, "rms": 0.0}

    def _bits(self, steps):
        first = self.state["first"]
        if not first:
            return steps * 0 + self.first_bits
        needed = LEVELS[self.first_bits - MIN_BITS] * self.state["rms"] / first
        return steps * 0 + MIN_BITS + int((LEVELS[:-1] < needed).sum())

    def _learn(self, step, facts):
        self.state["rms"] = facts["rms"]
        self.state["first"] = self.state["first"] or facts["rms"]


class AdaQs(BitController):
    """Bits by the ratio of mean to standard deviation (MSDR) of the gradient (after AdaQS: Guo et
    al., ICASSP 2020).

    From the DQ-SGD paper: the statistic; and few bits in early epochs, more and more later. Chosen
    here, all else: a ratio that falls asks for more bits; it is that of the magnitudes of all
    values; the first two moments are averaged over updates, with the bias of their start removed;
    one bit more for every factor ``fall`` that it is below the first one, and never one less.

    Parameters
    ----------
    codec, interval
        See :class:`BitController`.
    first_bits : int
        Bits at first, from 2 to 8.
    fall : float
        Factor, greater than 0 and less than 1.
    memory : float
        Weight of the past in the averages, at least 0 and less than 1.

    Raises
    ------
    TypeError, ValueError
        See :class:`BitController`; or for a parameter outside its range.
    """

    start = {"mean": 0.0, "square": 0.0, "first_ratio": 0.0, "extra": 0.0}

    def __init__(self, codec: Codec, *, interval: int = 100, first_bits: int = 4,
                 fall: float = 0.8, memory: float = 0.9):
        super().__init__(codec, interval=interval, first_bits=first_bits)
        if not is_number(fall) or not 0 < fall < 1:
            raise ValueError(f"fall must be greater than 0 and less than 1, not {fall!r}")
        if not is_number(memory, 0) or not memory < 1:
            raise ValueError(f"memory must be at least 0 and less than 1, not {memory!r}")
        self.fall, self.memory = float(fall), float(memory)

    def _bits(self, steps):
        return steps * 0 + min(self.first_bits + int(self.state["extra"]), MAX_BITS)

    def _learn(self, step, facts):
        state, memory = self.state, self.memory
        state["mean"] = memory * state["mean"] + (1 - memory) * facts["magnitude"]
        state["square"] = memory * state["square"] + (1 - memory) * facts["rms"]**2
        share = 1 - memory**(state["updates"] + 1)
        mean, square = state["mean"] / share, state["square"] / share
        variance = square - mean**2
        if mean <= 0 or variance <= 1e-12 * square:     # no ratio: zeros, or one magnitude
            return
        ratio = mean / variance**0.5
        state["first_ratio"] = state["first_ratio"] or ratio
        fallen = log2(state["first_ratio"] / ratio) / -log2(self.fall)
        state["extra"] = max(state["extra"], float(ceil(fallen) - 1), 0.0)
