"""Base of all codecs: checks, header, and the parts that a family defines."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from math import prod
from typing import Any, ClassVar

import numpy as np

from bitstep.checks import check_choice, check_integer
from bitstep_gradients.errors import MessageError
from bitstep_gradients.keys import Key
from bitstep_gradients.vectors import BFloat16, bucket_count, checked_side, checked_vector
from bitstep_gradients.wire.header import Header, pack_message, unpack_message
from bitstep_gradients.wire.payloads import PAYLOADS, Payload

MAX_BUCKET = 2**32 - 1
FIRST_OWN = 128         # numbers of codecs of other packages begin here


class Codec(ABC):
    """Coding of vectors as bytes.

    A codec holds settings, and a state where its family has one (``state_dict``). ``encode`` and
    ``decode`` change neither.

    Parameters
    ----------
    bucket_size : int
        Values that share a scale, from 1 to 2**32 - 1; 0 (default): the whole vector.
    payload : str or None
        Coding of the symbols, a key of ``bitstep_gradients.wire.payloads.PAYLOADS``; None: the
        family's default.

    Raises
    ------
    ValueError
        For a setting outside its range.
    ImportError
        If a package is missing that the payload needs.
    """

    name: str                                       # of the class, in list_codecs()
    number: int             # in the header; never given again; from 128 on those of other packages
    takes_side: bool = False                        # it has a use for side information
    payloads: ClassVar[tuple[str, ...]] = ()        # that the family may use, its default first

    def __init__(self, *, bucket_size: int = 0, payload: str | None = None):
        check_integer("bucket_size", bucket_size, 0, MAX_BUCKET)
        self.bucket_size = int(bucket_size)
        if payload is not None and not self.payloads:
            raise ValueError(f"{self.name} has no choice of payloads; leave payload away")
        if payload is None and self.payloads:
            payload = self.payloads[0]
        if payload is not None:
            check_choice("payload", payload, self.payloads)
            PAYLOADS[payload].require()
        self.payload = payload

    preset: ClassVar[tuple[str, ...]] = ()      # options of a base that the family itself chooses
    told: ClassVar[tuple[str, ...]] = ()        # settings that ``repr`` tells and no header

    # What a family defines

    @property
    def coding(self) -> Payload:
        """Coding of the symbols."""
        if self.payload is None:
            raise TypeError(f"{self.name} has no payload of symbols")
        return PAYLOADS[self.payload]

    @property
    def parameter(self) -> int:
        """Number in the header that both sides must share, from 0 to 2**32 - 1."""
        return 0

    @property
    def state_tag(self) -> int:
        """Number in the header for the state that both sides must share; 0: there is none."""
        return 0

    @abstractmethod
    def _encode(self, values: np.ndarray, key: Key) -> bytes:
        """The body for finite values (float32, shape (count,))."""

    @abstractmethod
    def _decode(self, body: bytes, count: int, key: Key, side: np.ndarray | None) -> np.ndarray:
        """The values of a body: float32, shape (count,). MessageError if it does not fit."""

    def _encode_shaped(self, values: np.ndarray, key: Key, side: np.ndarray | None) -> bytes:
        """:meth:`_encode` for codecs that need the vector's shape, or side information (float32,
        shape (count,)).
        """
        return self._encode(values.reshape(-1), key)

    def _decode_shaped(self, body: bytes, shape: tuple[int, ...], key: Key,
                       side: np.ndarray | None) -> np.ndarray:
        """:meth:`_decode` for codecs that need the vector's shape."""
        return self._decode(body, prod(shape), key, side)

    @abstractmethod
    def variance_bound(self, vector: "np.ndarray | BFloat16") -> float:
        """Upper bound of the expected squared error E|decode(encode(v)) - v|^2.

        Parameters
        ----------
        vector : ndarray or BFloat16
            See :meth:`encode`.
        """

    @abstractmethod
    def expected_bits(self, vector: "np.ndarray | BFloat16") -> float:
        """Expected bits of the whole message, header included; exact where its length is fixed."""

    def expected_error(self, vector: "np.ndarray | BFloat16") -> float | None:
        """Exact expected squared error; None if there is no formula for it."""
        return None

    def bias(self, vector: "np.ndarray | BFloat16") -> np.ndarray | None:
        """Exact E[decode(encode(v))] - v, shape of ``vector``; None if there is no formula for it.
        Unbiased codecs give zeros. Where a dither carries a received value beyond the largest
        float32, the value is clipped, which does not count here.
        """
        return np.zeros(np.shape(checked_vector(vector)[0]), np.float32)

    # What all have

    def encode(self, vector: "np.ndarray | BFloat16", key: Key,
               side: np.ndarray | None = None) -> bytes:
        """Code a vector.

        Parameters
        ----------
        vector : ndarray of float16, float32 or float64, or BFloat16; any shape
        key : Key
            Key of the sender, tensor and step.
        side : ndarray of float32, shape of the vector, optional
            Side information, the same that :meth:`decode` gets; only nested codecs use it.

        Returns
        -------
        message : bytes
            Everything that is sent: header, scales and payload.

        Raises
        ------
        TypeError, ValueError
            See :func:`bitstep_gradients.vectors.checked_vector`; for ``side`` that does not fit.
        """
        values, dtype = checked_vector(vector)
        body = self._encode_shaped(values, key, checked_side(side, values.shape))
        return pack_message(self._header(values.shape, dtype), body)

    def decode(self, message: bytes, key: Key, side: np.ndarray | None = None) -> np.ndarray:
        """Find the vector of a message.

        Parameters
        ----------
        message : bytes
        key : Key
            The key that the message was encoded with.
        side : ndarray of float32, shape of the vector, optional
            Side information; only nested codecs use it.

        Returns
        -------
        vector : ndarray of float32, shape of the encoded vector

        Raises
        ------
        MessageError
            For a message that is not whole, or of another codec, setting or state.
        ValueError
            For ``side`` that does not fit.
        """
        header, body = self._opened(message)
        side = checked_side(side, header.shape)
        values = self._decode_shaped(body, header.shape, key, side)
        if self.number >= FIRST_OWN:
            self._check_own(values, prod(header.shape))
        return values.reshape(header.shape)

    # Codecs whose state follows the gradients

    adapts: bool = False                # it has statistics() and update()

    def statistics(self, vector: "np.ndarray | BFloat16") -> np.ndarray:
        """Facts of this rank's vector that :meth:`update` needs.

        Parameters
        ----------
        vector : ndarray or BFloat16
            See :meth:`encode`.

        Returns
        -------
        statistics : ndarray of float32
            A few kilobytes at most, whatever the vector's size.
        """
        raise TypeError(f"{self.name} does not adapt to the gradients")

    def update(self, statistics: Sequence[np.ndarray]) -> None:
        """Change the state by the statistics of all ranks, in the order of the ranks: equal
        arguments give equal states on every rank.
        """
        raise TypeError(f"{self.name} does not adapt to the gradients")

    def state_dict(self) -> dict[str, Any]:
        """Copy of the state: arrays and numbers by name; empty if the codec has none."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state of :meth:`state_dict`. Raise ValueError if it does not fit."""
        if state:
            raise ValueError(f"{self.name} has no state, but got {', '.join(state)}")

    def n_buckets(self, count: int) -> int:
        """Buckets of ``count`` values."""
        return bucket_count(count, self.bucket_size)

    def overhead_bits(self, shape: tuple[int, ...], dtype: str = "float32") -> int:
        """Bits of the header of a vector."""
        return 8 * len(pack_message(self._header(shape, dtype), b""))

    def _opened(self, message) -> tuple[Header, bytes]:
        """Header and body of a message. MessageError unless it is whole and of this codec."""
        header, body = unpack_message(message)
        expected = self._header(header.shape, header.dtype)
        for what in ("codec", "payload", "parameter", "bucket_size", "state"):
            theirs, own = getattr(header, what), getattr(expected, what)
            if theirs != own:
                raise MessageError(
                    f"the message has {what} {theirs}, and this codec ({self.name}) has {own}; "
                    "decode with the codec, the settings and the state that encoded it")
        return header, body

    def _check_own(self, values, count) -> None:
        """Raise MessageError unless a codec of another package decoded what it must."""
        if not (isinstance(values, np.ndarray) and values.dtype == np.float32
                and values.size == count and np.isfinite(values).all()):
            raise MessageError(f"_decode of {self.name} must return {count} finite float32 values")

    def _header(self, shape, dtype) -> Header:
        check_integer("number", self.number, 0, 255)
        check_integer("parameter", self.parameter, 0, 2**32 - 1)
        return Header(self.number, dtype, self.coding.number if self.payload else 0,
                      self.parameter, self.state_tag, self.bucket_size, tuple(shape))

    def __repr__(self):
        """With all settings: ranks compare their texts, and states are refused by them."""
        settings = f"parameter={self.parameter}, bucket_size={self.bucket_size}"
        if self.payload:
            settings += f", payload={self.payload!r}"
        return f"<codec {self.name}, {settings}{self._told()}>"

    def _told(self) -> str:
        return "".join(f", {name}={getattr(self, name)!r}" for name in self.told)
