"""Several messages as one, and the news that a rank has failed."""

from collections.abc import Sequence

from bitstep_gradients.errors import ExchangeError, MessageError
from bitstep_gradients.wire.header import read_varint, varint

_GOOD, _FAILED = b"\0", b"\1"
_MAX_TEXT = 1000


def join_messages(messages: Sequence[bytes]) -> bytes:
    """One frame: a zero byte, then each message behind its length (a varint)."""
    return _GOOD + b"".join(part for message in messages
                            for part in (varint(len(message)), message))


def failure_frame(error: Exception) -> bytes:
    """The frame of a rank that has no messages because of an error."""
    return _FAILED + f"{type(error).__name__}: {error}".encode()[:_MAX_TEXT]


def check_frames(frames: Sequence[bytes], error: Exception | None) -> None:
    """Raise this rank's own error, or ExchangeError if another rank sent a failure."""
    if error is not None:
        raise error
    for rank, frame in enumerate(frames):
        if frame[:1] == _FAILED:
            text = frame[1:].decode(errors="replace")
            raise ExchangeError(f"rank {rank} failed, so all ranks end: {text}",
                                text.partition(":")[0])


def split_frame(frame: bytes, n_messages: int, rank: int) -> list[bytes]:
    """The messages of a frame that a rank sent. MessageError if it does not hold as many."""
    messages, place = [], 1
    for _ in range(n_messages):
        length, place = read_varint(frame, place)
        messages.append(frame[place:place + length])
        place += length
    if frame[:1] != _GOOD or place != len(frame):
        raise MessageError(f"rank {rank} sent a frame of {len(frame)} bytes that must hold "
                           f"{n_messages} messages, and does not; send the same tensors on every "
                           "rank")
    return messages
