"""A scheme of exchange that is watched: seconds of its codecs, and errors of a rank's messages."""

import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from bitstep_gradients import Codec, Key
from bitstep_gradients.control.wrapped import Wrapped
from bitstep_gradients.exchange import Exchange, Traffic
from bitstep_gradients.exchange.entries import SECOND_PHASE, Entry
from bitstep_gradients.exchange.transport import Transport
from bitstep_gradients.vectors import sum_of_squares


class WatchedExchange(Exchange):
    """A scheme of exchange, and facts of its last step.

    Parameters
    ----------
    scheme : Exchange

    Attributes
    ----------
    encode_s, decode_s : float
        Seconds of this rank.
    lost, total : list of float
        Of every tensor: squared distance of this rank's decoded messages to its gradient, and the
        gradient's squared norm. Averages that a rank sends again (two-phase) do not count.
    """

    def __init__(self, scheme: Exchange):
        super().__init__(precision=scheme.precision)
        self._scheme = scheme
        self.encode_s = self.decode_s = 0.0
        self.lost: list[float] = []
        self.total: list[float] = []

    def average(self, transport: Transport, entries: Sequence[Entry],
                vectors: Sequence[np.ndarray], key: Key, traffic: Traffic) -> list[np.ndarray]:
        """See :meth:`bitstep_gradients.exchange.Exchange.average`."""
        self.encode_s = self.decode_s = 0.0
        self.lost, self.total = [0.0] * len(entries), [0.0] * len(entries)
        watched = [replace(entry, codec=_WatchedCodec(entry.codec, self, entry.number))
                   for entry in entries]
        return self._scheme.average(transport, watched, vectors, key, traffic)

    def __repr__(self):
        return repr(self._scheme)


class _WatchedCodec(Wrapped):
    """Codec of a tensor whose calls an exchange watches."""

    def __init__(self, codec: Codec, watch: WatchedExchange, number: int):
        super().__init__(codec)
        self._watch, self._number = watch, number

    def encode(self, vector, key, side=None):
        start = time.perf_counter()
        message = self.codec.encode(vector, key, side)
        self._watch.encode_s += time.perf_counter() - start
        if key.tensor < SECOND_PHASE:
            values = self.codec.decode(message, key, side)
            self._watch.lost[self._number] += sum_of_squares(values.astype(np.float64) - vector)
            self._watch.total[self._number] += sum_of_squares(vector)
        return message

    def decode(self, message, key, side=None):
        start = time.perf_counter()
        values = self.codec.decode(message, key, side)
        self._watch.decode_s += time.perf_counter() - start
        return values
