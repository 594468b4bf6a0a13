"""Ranks that are threads of this process and compute in turn: one waits while another works."""

import threading
from collections.abc import Callable, Sequence
from typing import Any

from bitstep_gradients.errors import ExchangeError
from bitstep_gradients.exchange.transport import ThreadGroup, ThreadTransport
from bitstep_gradients.lab.contestants import Contestant
from bitstep_gradients.lab.perceptrons import Model
from bitstep_gradients.lab.ranks.rank import train_rank
from bitstep_gradients.lab.training import Setting
from bitstep_lab.samples import Samples

LIMIT_S = 600.0         # of one wait for another rank


def train_threads(model: Model, samples: Samples, contestant: Contestant, setting: Setting, *,
                  seed: int, progress: Callable[[int], None] = lambda step: None,
                  limit_s: float = LIMIT_S) -> dict[str, Any]:
    """Train a model by ranks that are threads, with the scheme of exchange of the setting.

    Parameters
    ----------
    model, samples, contestant, setting, seed, progress
        See :func:`bitstep_gradients.lab.training.train`.
    limit_s : float
        Seconds that a rank waits for a message of another.

    Returns
    -------
    result : dict
        See :func:`bitstep_gradients.lab.ranks.rank.train_rank`.

    Raises
    ------
    ValueError, RuntimeError, bitstep_gradients.ExchangeError
        The error of the rank that failed; the others end, too.
    """
    group, turn = ThreadGroup(setting.n_workers, limit_s), threading.Lock()
    found: dict[int, Any] = {}
    errors: list[Exception] = []

    def work(transport: ThreadTransport) -> None:
        try:
            with turn:
                found[transport.rank] = train_rank(
                    _InTurn(transport, turn), model, samples, contestant, setting, seed=seed,
                    progress=progress if transport.rank == 0 else lambda step: None)
        except Exception as error:
            errors.append(error)
            group.leave(transport.rank)

    threads = [threading.Thread(target=work, args=(transport,), daemon=True)
               for transport in group.transports()]
    for thread in threads:
        thread.start()
    try:
        for thread in threads:
            thread.join()               # each wait in it has a limit
    except KeyboardInterrupt:
        for rank in range(setting.n_workers):
            group.leave(rank)
        raise
    if errors:      # others end by an ExchangeError that tells of the cause
        raise next((one for one in errors if not isinstance(one, ExchangeError)), errors[0])
    return found[0]


class _InTurn:
    """A transport that gives up the turn while it waits. Models are not for several threads at
    once, and times of codecs are those of one rank alone.
    """

    overhead = 0

    def __init__(self, transport: ThreadTransport, turn: threading.Lock):
        self.rank, self.world_size = transport.rank, transport.world_size
        self._transport, self._turn = transport, turn

    def all_gather(self, message: bytes) -> list[bytes]:
        """See :class:`bitstep_gradients.exchange.Transport`."""
        return self.all_to_all([message] * self.world_size)

    def all_to_all(self, messages: Sequence[bytes]) -> list[bytes]:
        """See :class:`bitstep_gradients.exchange.Transport`."""
        self._turn.release()
        try:
            return self._transport.all_to_all(messages)
        finally:
            self._turn.acquire()
