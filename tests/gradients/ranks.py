"""Ranks as threads: each runs the same function with a transport of its own."""

import threading
from typing import Any

from bitstep_gradients.exchange.transport import ThreadGroup


def run_ranks(n_ranks, work, timeout_s=120.0) -> list[Any]:
    """Run ``work(transport)`` on every rank, and return what each returned.

    An error on one rank ends the waiting of the others; then RanksFailed is raised with all
    errors.
    """
    group = ThreadGroup(n_ranks, timeout_s)
    found, errors = [None] * n_ranks, {}

    def run(transport):
        try:
            found[transport.rank] = work(transport)
        except Exception as error:
            errors[transport.rank] = error
            group.leave(transport.rank)

    threads = [threading.Thread(target=run, args=(transport,), daemon=True)
               for transport in group.transports()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(2 * timeout_s)
    assert not any(thread.is_alive() for thread in threads)
    if errors:
        raise RanksFailed(errors)
    return found


class RanksFailed(Exception):
    """Errors of ranks, by rank."""

    def __init__(self, errors):
        super().__init__("; ".join(f"rank {rank}: {error}" for rank, error in errors.items()))
        self.errors = errors
