"""Workers that exchange gradients within one process, with the messages of the real exchange."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from bitstep_gradients import Codec, ErrorFeedback, Key, make_codec
from bitstep_gradients.control.controller import BitController
from bitstep_gradients.lab.contestants import Contestant
from bitstep_gradients.lab.perceptrons import Parameters
from bitstep_gradients.vectors import sum_of_squares

STATISTICS, UNUSED = make_codec("none"), Key(0)     # of codecs that adapt: whole messages, too


@dataclass(frozen=True)
class Exchange:
    """Result of one step's exchange.

    Attributes
    ----------
    average : dict of str to ndarray of float32
        The same on every rank.
    sent : float
        Bytes of a rank's messages, and of its statistics for codecs that adapt; mean of the ranks.
    error : float
        Squared distance of all ranks' decoded gradients to the gradients, by the gradients'
        squared norms.
    encode_s, decode_s : float
        Seconds of a rank: encoding its own messages, decoding those of all.
    traffic : tuple of (float, float), or None
        Bytes that a rank sent to other ranks and received, everything included; mean of the ranks.
        None: no exchange has counted them.
    """

    average: Parameters
    sent: float
    error: float
    encode_s: float
    decode_s: float
    traffic: tuple[float, float] | None = None


class Workers:
    """Ranks with a codec for each tensor.

    Every rank's state of a codec is the same, so one object serves all ranks. Residuals of error
    feedback belong to a rank each.

    Parameters
    ----------
    contestant : Contestant
    shapes : dict of str to tuple of int
        Tensors, in their order.
    n_workers : int
    seed : int
        Of all random words.
    n_steps : int
        Steps that controllers of bits plan for.
    min_size : int
        Tensors of fewer values are sent as float32.
    update_every : int
        Steps from one update of fitted levels to the next; the first is before step 0.
    """

    def __init__(self, contestant: Contestant, shapes: dict[str, tuple[int, ...]], *,
                 n_workers: int, seed: int, n_steps: int, min_size: int = 0,
                 update_every: int = 50):
        self.n_workers, self.seed, self.update_every = n_workers, seed, update_every
        self.codecs: dict[str, Codec] = {}
        made = contestant.make(n_steps)
        for name, shape in shapes.items():
            if prod(shape) < min_size:
                self.codecs[name] = make_codec("none")
            else:       # a controller of bits has one state for the gradient of all tensors
                self.codecs[name] = made if isinstance(made, BitController) \
                    else contestant.make(n_steps)
        self._ranks: list[dict[str, Codec]] = []
        for _ in range(n_workers):
            weight = contestant.feedback
            self._ranks.append({
                name: codec if weight is None else ErrorFeedback(codec, weight=weight)
                for name, codec in self.codecs.items()})
        self._sides: dict[str, np.ndarray] = {}

    def exchange(self, step: int, gradients: Sequence[Parameters],
                 losses: Sequence[float]) -> Exchange:
        """Average the gradients of all ranks.

        Parameters
        ----------
        step : int
        gradients : sequence of dict of str to ndarray of float32
            Of every rank.
        losses : sequence of float
            Of every rank's batch, for controllers that ask for it.

        Returns
        -------
        exchange : Exchange

        Raises
        ------
        ValueError
            For gradients that are not finite.
        """
        n_bytes = self.n_workers * self._adapt(step, gradients, losses)
        encode_s = decode_s = 0.0
        average, lost, total = {}, [], []
        for number, (name, codec) in enumerate(self.codecs.items()):
            summed = np.zeros(gradients[0][name].shape)
            side = self._sides.get(name)
            lost.append([])
            total.append([])
            for rank, of_rank in enumerate(self._ranks):
                vector = gradients[rank][name]
                key = Key(self.seed, step, rank, number)
                start = time.perf_counter()
                message = of_rank[name].encode(vector, key, side)
                middle = time.perf_counter()
                values = codec.decode(message, key, side)
                decode_s += time.perf_counter() - middle
                encode_s += middle - start
                n_bytes += len(message)
                summed += values
                lost[-1].append(sum_of_squares(values.astype(np.float64) - vector))
                total[-1].append(sum_of_squares(vector))
            with np.errstate(over="ignore"):
                average[name] = (summed / self.n_workers).astype(np.float32)
            if codec.takes_side:
                self._sides[name] = average[name]
        return Exchange(average, n_bytes / self.n_workers, relative_error(lost, total),
                        encode_s / self.n_workers, decode_s)

    def remember(self, average: Parameters) -> None:
        """Take an average as the side information of nested codecs, in place of their own."""
        self._sides = {name: average[name] for name, codec in self.codecs.items()
                       if codec.takes_side}

    def _adapt(self, step, gradients, losses) -> int:
        """Update the codecs that adapt; return the bytes of a rank's statistics."""
        n_bytes = 0
        controlled = [name for name, codec in self.codecs.items()
                      if isinstance(codec, BitController)]
        if controlled:
            controller: Any = self.codecs[controlled[0]]
            if controller.due(step):
                found = [controller.statistics([of_rank[name] for name in controlled], loss=loss)
                         for of_rank, loss in zip(gradients, losses, strict=True)]
                controller.update(found, step=step)
                n_bytes += len(STATISTICS.encode(found[0], UNUSED))
        if step % self.update_every:
            return n_bytes
        for name, codec in self.codecs.items():
            if codec.adapts and name not in controlled:
                found = [codec.statistics(of_rank[name]) for of_rank in gradients]
                codec.update(found)
                n_bytes += len(STATISTICS.encode(found[0], UNUSED))
        return n_bytes


def levels_of(codecs: Mapping[str, Codec]) -> dict[str, list[float]]:
    """Levels of every tensor whose codec fits them."""
    levels = {name: getattr(_inside(codec), "levels", None) for name, codec in codecs.items()
              if codec.adapts}
    return {name: one.tolist() for name, one in levels.items() if isinstance(one, np.ndarray)}


def bits_of(codecs: Mapping[str, Codec], step: int) -> int | None:
    """Bits of a step that a controller chose; None if there is none."""
    for codec in map(_inside, codecs.values()):
        if isinstance(codec, BitController):
            return codec.bits(step)
    return None


def relative_error(lost: Sequence[Sequence[float]], total: Sequence[Sequence[float]]) -> float:
    """Sum of squared errors by the sum of squares, each by tensor and rank."""
    norm = sum(part for row in total for part in row)
    return sum(part for row in lost for part in row) / norm if norm else 0.0


def _inside(codec: Codec) -> Codec:
    return codec.codec if isinstance(codec, ErrorFeedback) else codec
