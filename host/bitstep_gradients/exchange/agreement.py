"""Agreement of ranks: that all are well, and do the same step in the same way."""

import zlib

from bitstep_gradients.errors import ExchangeError
from bitstep_gradients.exchange.traffic import Traffic
from bitstep_gradients.exchange.transport import Transport

FINITE, NOT_FINITE, FAILED = 0, 1, 2


def fingerprint(*facts: object) -> int:
    """Checksum of facts that must be equal on all ranks, by their texts."""
    return zlib.crc32(repr(facts).encode())


def agree(transport: Transport, traffic: Traffic, status: int, facts: int) -> list[int]:
    """Tell all ranks about this one.

    Parameters
    ----------
    transport : Transport
    traffic : Traffic
    status : int
        :data:`FINITE`, :data:`NOT_FINITE` or :data:`FAILED`.
    facts : int
        A :func:`fingerprint`.

    Returns
    -------
    statuses : list of int
        One a rank; none is FAILED but this rank's own.

    Raises
    ------
    ExchangeError
        If another rank failed, or ranks have other facts.
    """
    messages = transport.all_gather(bytes([status]) + facts.to_bytes(4, "little"))
    for rank, message in enumerate(messages):
        own = rank == transport.rank
        traffic.add_frame([], [], len(message) + transport.overhead,
                          sent=transport.world_size - 1 if own else 0, received=0 if own else 1)
    statuses = [message[0] for message in messages]
    if status == FAILED:
        return statuses
    if FAILED in statuses:
        raise ExchangeError(f"rank {statuses.index(FAILED)} failed before it sent anything, so all "
                            "ranks end; see its error")
    others = [rank for rank, message in enumerate(messages) if message[1:] != messages[0][1:]]
    if others:
        raise ExchangeError(f"rank {others[0]} has another step, seed, codec, update_at or "
                            "setting, or other tensors than rank 0; start every rank with the same "
                            "ones, and load states of the same step")
    return statuses
