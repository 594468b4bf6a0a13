"""Agreement of ranks: that all are well, and do the same step in the same way."""

import zlib

from bitstep_gradients.errors import ExchangeError, MessageError
from bitstep_gradients.exchange.traffic import Traffic
from bitstep_gradients.exchange.transport import Transport, gathered_sizes

FINITE, NOT_FINITE, FAILED = 0, 1, 2
_SIZE = 5               # bytes: the status, and the facts


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
    MessageError
        For a message that is none of an agreement. One that is damaged in another way, or another
        rank's, has other facts.
    """
    messages = transport.all_gather(_message(status, facts, transport.rank))
    for rank, size in enumerate(gathered_sizes(transport, messages)):
        own = rank == transport.rank
        traffic.add_frame([], [], size, sent=transport.world_size - 1 if own else 0,
                          received=0 if own else 1)
    strange = [rank for rank, message in enumerate(messages)
               if len(message) != _SIZE or message[0] > FAILED]
    if strange and status != FAILED:
        raise MessageError(f"rank {strange[0]} sent {len(messages[strange[0]])} bytes that are no "
                           "agreement of ranks; every rank must do the same steps")
    statuses = [message[0] for message in messages if message]
    if status == FAILED:
        return statuses
    if FAILED in statuses:
        raise ExchangeError(f"rank {statuses.index(FAILED)} failed before it sent anything, so all "
                            "ranks end; see its error")
    found = [_facts(message, rank) for rank, message in enumerate(messages)]
    others = [rank for rank, one in enumerate(found) if one != found[0]]
    if others:
        raise ExchangeError(f"rank {others[0]} has another step, seed, codec, update_at or "
                            "setting, or other tensors than rank 0; start every rank with the same "
                            "ones, and load states of the same step")
    return statuses


def _message(status: int, facts: int, rank: int) -> bytes:
    """The facts are changed by status and rank, so that neither can become another unseen."""
    word = facts ^ fingerprint(status, rank)
    return bytes([status]) + word.to_bytes(_SIZE - 1, "little")


def _facts(message: bytes, rank: int) -> int:
    """Facts of a rank's message."""
    return int.from_bytes(message[1:], "little") ^ fingerprint(message[0], rank)
