"""Messages of pieces over a transport: framed, counted, and with word of failures.

An error on one rank must not leave the others waiting. So a rank that cannot make its messages
sends its error in their place, and all ranks raise one.
"""

from collections.abc import Callable, Sequence

from bitstep_gradients.exchange.entries import Piece
from bitstep_gradients.exchange.frames import (
    check_frames,
    failure_frame,
    join_messages,
    split_frame,
)
from bitstep_gradients.exchange.traffic import Traffic
from bitstep_gradients.exchange.transport import Transport, gathered_sizes
from bitstep_gradients.keys import Key
from bitstep_gradients.wire.header import bound


def gather(transport: Transport, traffic: Traffic, pieces: Sequence[Sequence[Piece]],
           make: Callable[[], list[bytes]], key: Key) -> list[list[bytes]]:
    """Send messages of this rank to all, and receive those of all.

    Parameters
    ----------
    transport : Transport
    traffic : Traffic
    pieces : sequence of sequence of Piece
        Pieces whose messages each rank sends.
    make : callable
        Makes the messages of this rank. If it raises an error, so do all ranks.
    key : Key
        Seed and step. Messages are bound to them, to their sender and to their piece.

    Returns
    -------
    messages : list of list of bytes
        Messages of each rank.

    Raises
    ------
    ExchangeError
        If another rank failed.
    """
    error = None
    try:
        frame = join_messages(_bound(pieces[transport.rank], make(), key, transport.rank))
    except Exception as failure:
        error, frame = failure, failure_frame(failure)
    frames = transport.all_gather(frame)
    check_frames(frames, error)
    rows = [_bound(row, split_frame(frame, len(row), rank), key, rank)
            for rank, (frame, row) in enumerate(zip(frames, pieces, strict=True))]
    sizes = gathered_sizes(transport, frames)
    for rank, (row, messages) in enumerate(zip(pieces, rows, strict=True)):
        own = rank == transport.rank
        traffic.add_frame(_names(row), messages, sizes[rank], own=own,
                          sent=transport.world_size - 1 if own else 0, received=0 if own else 1)
    return rows


def scatter(transport: Transport, traffic: Traffic, pieces: Sequence[Sequence[Piece]],
            make: Callable[[], list[list[bytes]]], key: Key
            ) -> Callable[[], list[list[bytes]]]:
    """Send to each rank the messages of the pieces that it owns.

    Parameters
    ----------
    transport, traffic, key
        See :func:`gather`.
    pieces : sequence of sequence of Piece
        Pieces that each rank owns.
    make : callable
        Makes the messages for each rank. If it raises an error, so do all ranks.

    Returns
    -------
    split : callable
        Gives the messages that each rank sent here. It raises MessageError for a frame that is not
        whole, which only this rank has seen: call it where others learn of that.

    Raises
    ------
    ExchangeError
        If another rank failed.
    """
    own, error = transport.rank, None
    try:
        rows = make()
        frames = [join_messages(_bound(owned, row, key, own))
                  for owned, row in zip(pieces, rows, strict=True)]
        for rank, (row, messages) in enumerate(zip(pieces, rows, strict=True)):
            size = len(frames[rank]) + transport.overhead
            traffic.add_frame(_names(row), messages, size, sent=0 if rank == own else 1, own=True)
    except Exception as failure:
        error, frames = failure, [failure_frame(failure)] * transport.world_size
    found = transport.all_to_all(frames)
    check_frames(found, error)

    def split():
        rows = []
        for rank, frame in enumerate(found):
            messages = split_frame(frame, len(pieces[own]), rank)
            rows.append(_bound(pieces[own], messages, key, rank))
            if rank != own:
                traffic.add_frame(_names(pieces[own]), rows[-1],
                                  len(frame) + transport.overhead, received=1)
        return rows
    return split


def _bound(pieces: Sequence[Piece], messages: Sequence[bytes], key: Key, rank: int
           ) -> list[bytes]:
    """Messages of pieces from a rank, bound; or, done again, as they were before."""
    return [bound(message, key.seed, key.step, rank, piece.tensor)
            for piece, message in zip(pieces, messages, strict=True)]


def _names(pieces: Sequence[Piece]) -> list[str]:
    return [piece.entry.name for piece in pieces]
