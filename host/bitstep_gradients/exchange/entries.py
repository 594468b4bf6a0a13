"""Tensors that are exchanged, and the pieces of them that messages hold."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from bitstep_gradients.codecs.base import Codec
from bitstep_gradients.errors import MessageError
from bitstep_gradients.keys import Key
from bitstep_gradients.wire.header import unpack_message

NUMBER_BITS, SLICE_BITS = 18, 13        # of a key's tensor; the highest bit is the phase
MAX_TENSORS, MAX_RANKS = 2**NUMBER_BITS, 2**SLICE_BITS
SECOND_PHASE = 2**(NUMBER_BITS + SLICE_BITS)    # of a key's tensor: averages that a rank sends
MIN_SLICE = 1024


@dataclass
class Entry:
    """A tensor that all ranks have, with what they keep of it from step to step.

    Parameters
    ----------
    name : str
    number : int
        From 0 to 2**18 - 1, the same on all ranks.
    shape : tuple of int
    codec : Codec
        Its own, so that no other tensor changes its state.
    side : ndarray of float32, shape of the tensor, or None
        Side information of nested codecs, the same on all ranks.
    is_late : bool
        True: the step before which the codec was to be updated was skipped.
    """

    name: str
    number: int
    shape: tuple[int, ...]
    codec: Codec
    side: np.ndarray | None = None
    is_late: bool = False

    @property
    def count(self) -> int:
        """Values of the tensor."""
        return prod(self.shape)


@dataclass(frozen=True)
class Piece:
    """The part of a tensor that one message holds: all of it, or a flat slice.

    Parameters
    ----------
    entry : Entry
    slice : int or None
        Number of the slice; None: the whole tensor, in its shape.
    start, stop : int
        First value of the slice, and the one behind its last.
    phase : int
        0: values of a rank. 1: averages, sent by the slice's owner.
    """

    entry: Entry
    slice: int | None
    start: int
    stop: int
    phase: int = 0

    @classmethod
    def whole(cls, entry: Entry) -> "Piece":
        """The piece that is all of a tensor."""
        return cls(entry, None, 0, entry.count)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the values in the message."""
        return self.entry.shape if self.slice is None else (self.stop - self.start,)

    @property
    def tensor(self) -> int:
        """Number of the piece in a key: no two pieces or phases have the same random words."""
        return self.entry.number | (self.slice or 0) << NUMBER_BITS | self.phase * SECOND_PHASE

    def encode(self, values: np.ndarray, key: Key) -> bytes:
        """The message of values (shape of the piece)."""
        return self.entry.codec.encode(values, replace(key, tensor=self.tensor), self._side())

    def decode(self, message: bytes, key: Key) -> np.ndarray:
        """The values of a message. Raise MessageError if it holds another shape."""
        header, _ = unpack_message(message)
        if header.shape != self.shape:      # before a short message can claim a long vector
            raise MessageError(f"the message of {self.entry.name} must hold values of shape "
                               f"{self.shape}, not {header.shape}; every rank must have the same "
                               "model")
        return self.entry.codec.decode(message, replace(key, tensor=self.tensor), self._side())

    def _side(self):
        if self.entry.side is None or self.slice is None:
            return self.entry.side
        return self.entry.side.reshape(-1)[self.start:self.stop]


def name_of_piece(name: str, tensor: int) -> str:
    """Name of a piece of the tensor ``name`` by its number in a key, for errors."""
    owned = " (its average, which the owner sends)" if tensor >= SECOND_PHASE else ""
    return f"tensor {name}{owned}"


def cut(entries: Sequence[Entry], n_ranks: int) -> list[list[Piece]]:
    """Cut tensors into slices.

    Parameters
    ----------
    entries : sequence of Entry
    n_ranks : int

    Returns
    -------
    owned : list of list of Piece
        Slices that each rank owns, in the order of the entries.
    """
    owned: list[list[Piece]] = [[] for _ in range(n_ranks)]
    for entry in entries:
        unit = entry.codec.bucket_size or 1
        n_units = -(-entry.count // unit)
        n_slices = max(min(n_ranks, n_units, entry.count // MIN_SLICE), 1)
        edges = [min(unit * (n_units * index // n_slices), entry.count)
                 for index in range(n_slices + 1)]
        for index in range(n_slices):
            # Small tensors, which have fewer slices, begin with different owners.
            owner = (entry.number + index) % n_ranks
            owned[owner].append(Piece(entry, index, edges[index], edges[index + 1]))
    return owned
