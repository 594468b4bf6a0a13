"""Schemes of exchange: how messages go from rank to rank until all have the same averages."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np

from bitstep.checks import check_choice
from bitstep_gradients.exchange.collectives import gather, scatter
from bitstep_gradients.exchange.entries import Entry, Piece, cut
from bitstep_gradients.exchange.traffic import Traffic
from bitstep_gradients.exchange.transport import Transport
from bitstep_gradients.keys import Key

PRECISIONS = ("float64", "float32")


class Exchange(ABC):
    """Base of the schemes.

    Parameters
    ----------
    precision : {"float64", "float32"}
        Type in which decoded values are added, rank 0 first. In float32 a sum may become infinite,
        on all ranks alike.

    Raises
    ------
    ValueError
        For another precision.
    """

    name: ClassVar[str]

    def __init__(self, *, precision: str = "float64"):
        check_choice("precision", precision, PRECISIONS)
        self.precision = precision

    @abstractmethod
    def average(self, transport: Transport, entries: Sequence[Entry],
                vectors: Sequence[np.ndarray], key: Key, traffic: Traffic) -> list[np.ndarray]:
        """Average vectors over the ranks.

        Parameters
        ----------
        transport : Transport
        entries : sequence of Entry
            The same tensors on every rank.
        vectors : sequence of ndarray or BFloat16
            This rank's values of each.
        key : Key
            Seed and step, and this rank.
        traffic : Traffic
            Counts what this rank sends and receives.

        Returns
        -------
        averages : list of ndarray of float32
            Bit for bit the same on every rank.

        Raises
        ------
        ExchangeError
            If another rank failed. A failure of this rank raises its own error, after the others
            were told.
        """

    def _mean(self, shape: tuple[int, ...], decoded: Iterable[np.ndarray]) -> np.ndarray:
        """Mean of the ranks' values, added in the order of the ranks."""
        total, count = np.zeros(shape, self.precision), 0
        with np.errstate(over="ignore"):
            for values in decoded:
                total += values
                count += 1
            return np.asarray(total / count, np.float32)    # the quotient may be a scalar

    def __repr__(self):
        return f"<exchange {self.name}, precision={self.precision!r}>"


class AllGather(Exchange):
    """``all_gather``: every rank sends each message to all, and decodes the messages of all.

    A rank sends and receives (n_ranks - 1) messages of each tensor. Each value is quantized once.
    """

    name = "all_gather"

    def average(self, transport, entries, vectors, key, traffic):
        """See :meth:`Exchange.average`."""
        pieces = [Piece.whole(entry) for entry in entries]
        rows = gather(transport, traffic, [pieces] * transport.world_size, lambda: [
            piece.encode(vector, key) for piece, vector in zip(pieces, vectors, strict=True)], key)
        averages = []
        for place, piece in enumerate(pieces):
            decoded = (piece.decode(row[place], replace(key, rank=rank))
                       for rank, row in enumerate(rows))
            averages.append(self._mean(piece.shape, decoded))
        return averages


class TwoPhase(Exchange):
    """``two-phase``: every slice of a tensor has a rank that owns it.

    The owner gets the slice from all ranks, averages, and sends the average to all as one message.
    So traffic does not grow with the number of ranks, and each value is quantized twice. All random
    words of the second phase are others than those of the first.

    A tensor has as many slices as there are ranks, fewer if they had less than
    ``bitstep_gradients.exchange.entries.MIN_SLICE`` values. Slices are flat and begin where buckets
    of the codec begin.
    """

    name = "two-phase"

    def average(self, transport, entries, vectors, key, traffic):
        """See :meth:`Exchange.average`."""
        owned = cut(entries, transport.world_size)
        averaged = [[replace(piece, phase=1) for piece in row] for row in owned]
        flat = {entry.name: vector.reshape(-1)
                for entry, vector in zip(entries, vectors, strict=True)}
        split = scatter(transport, traffic, owned, lambda: [
            [piece.encode(flat[piece.entry.name][piece.start:piece.stop], key) for piece in row]
            for row in owned], key)

        def encode_means() -> list[bytes]:
            rows, messages = split(), []
            for place, piece in enumerate(owned[transport.rank]):
                decoded = (piece.decode(row[place], replace(key, rank=rank))
                           for rank, row in enumerate(rows))
                mean = self._mean(piece.shape, decoded)
                messages.append(averaged[transport.rank][place].encode(mean, key))
            return messages

        answers = gather(transport, traffic, averaged, encode_means, key)
        averages = {entry.name: np.empty(entry.count, np.float32) for entry in entries}
        for owner, (row, messages) in enumerate(zip(averaged, answers, strict=True)):
            for piece, message in zip(row, messages, strict=True):
                averages[piece.entry.name][piece.start:piece.stop] = \
                    piece.decode(message, replace(key, rank=owner))
        return [averages[entry.name].reshape(entry.shape) for entry in entries]


EXCHANGES: dict[str, type[Exchange]] = {one.name: one for one in (AllGather, TwoPhase)}
