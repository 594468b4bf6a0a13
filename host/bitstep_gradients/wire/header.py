"""Header of a message, and the checks that a message is whole.

====================  ============================================================================
bytes                 meaning
====================  ============================================================================
2                     ``bg``
1                     version of the format
4                     CRC-32 of all bytes that follow, little-endian
1                     number of the codec
1                     type of the values (low 4 bits), number of the payload (high 4 bits)
varint                parameter of the codec, such as its levels
varint                state of the codec, such as a checksum of its levels; 0: none
varint                values a bucket; 0: one bucket
varint, then each     dimensions, and their sizes
====================  ============================================================================

A varint has 7 bits a byte, the lowest first; the top bit says that another byte follows.

Between ranks the CRC-32 is changed by the message's key (:func:`bound`), so a message of another
step, rank or tensor is refused.
"""

import zlib
from dataclasses import dataclass
from math import prod

from bitstep_gradients.errors import MessageError
from bitstep_gradients.vectors import DTYPES, DType

MAGIC = b"bg"
VERSION = 1
_START = len(MAGIC) + 1
_CRC_END = _START + 4
MAX_DIMENSIONS = 64             # NumPy's and torch's limit
MAX_VALUES = 2**33              # numbers of random words end there


@dataclass(frozen=True)
class Header:
    """Facts that a message tells about itself.

    Parameters
    ----------
    codec : int
        Number of the codec, from 0 to 255.
    dtype : {"float32", "float16", "bfloat16"}
    payload : int
        Number of the payload's coding, from 0 to 15.
    parameter, state, bucket_size : int
        From 0 to 2**32 - 1; see the module's table.
    shape : tuple of int
    """

    codec: int
    dtype: DType
    payload: int
    parameter: int
    state: int
    bucket_size: int
    shape: tuple[int, ...]

    @property
    def count(self) -> int:
        """Values in the message."""
        return prod(self.shape)


def pack_message(header: Header, body: bytes) -> bytes:
    """The message of a header and what follows it."""
    first = bytes([header.codec, DTYPES.index(header.dtype) | header.payload << 4])
    numbers = (header.parameter, header.state, header.bucket_size, len(header.shape), *header.shape)
    head = first + b"".join(map(varint, numbers))
    checksum = zlib.crc32(body, zlib.crc32(head))
    return b"".join([MAGIC, bytes([VERSION]), checksum.to_bytes(4, "little"), head, body])


def unpack_message(message: bytes) -> tuple[Header, bytes]:
    """Check a message and take it apart.

    Parameters
    ----------
    message : bytes

    Returns
    -------
    header : Header
    body : bytes

    Raises
    ------
    MessageError
        For bytes that are no message, of another version, truncated or corrupted.
    """
    message = bytes(message)
    if message[:len(MAGIC)] != MAGIC or len(message) < _CRC_END + 2:
        raise MessageError(f"a message must begin with {MAGIC!r} and a header, but these "
                           f"{len(message)} bytes begin with {message[:2]!r}")
    if message[len(MAGIC)] != VERSION:
        raise MessageError(f"the message has version {message[len(MAGIC)]} of the format, and this "
                           f"bitstep reads version {VERSION}; install the same bitstep everywhere")
    checksum = int.from_bytes(message[_START:_CRC_END], "little")
    if zlib.crc32(memoryview(message)[_CRC_END:]) != checksum:
        raise MessageError("the message is truncated or corrupted or, between ranks, of another "
                           "rank, step or tensor: its checksum does not fit; send it again")
    codec, kinds = message[_CRC_END:_CRC_END + 2]
    numbers, place = [], _CRC_END + 2
    for _ in range(4):
        number, place = read_varint(message, place)
        numbers.append(number)
    parameter, state, bucket_size, n_dimensions = numbers
    if n_dimensions > MAX_DIMENSIONS or kinds & 15 >= len(DTYPES):
        raise MessageError(f"the message's header has {n_dimensions} dimensions and the type "
                           f"{kinds & 15} of values: no bitstep wrote it")
    shape = []
    for _ in range(n_dimensions):
        size, place = read_varint(message, place)
        shape.append(size)
    most = prod(size or 1 for size in shape)    # NumPy limits the others beside a size of 0, too
    if most > MAX_VALUES:
        raise MessageError(f"a message has at most {MAX_VALUES} values, and its sizes other than 0 "
                           f"make {most}")
    header = Header(codec, DTYPES[kinds & 15], kinds >> 4, parameter, state, bucket_size,
                    tuple(shape))
    return header, message[place:]


def bound(message: bytes, *numbers: int) -> bytes:
    """A message whose checksum is changed by numbers that both sides know; done again, the message
    itself. So what was bound to other numbers is a message with a wrong checksum.
    """
    if len(message) < _CRC_END:
        return message
    change = zlib.crc32(b"".join(varint(int(number)) for number in numbers))
    checksum = int.from_bytes(message[_START:_CRC_END], "little") ^ change
    return b"".join([message[:_START], checksum.to_bytes(4, "little"), message[_CRC_END:]])


def varint(number: int) -> bytes:
    """Bytes of a number, 7 bits a byte."""
    coded = bytearray()
    while number > 127:
        coded.append(number & 127 | 128)
        number >>= 7
    return bytes([*coded, number])


def read_varint(message: bytes, place: int) -> tuple[int, int]:
    """The number at a place, and the place behind it."""
    number = 0
    for digit in range(5):
        if place >= len(message):
            break
        byte = message[place]
        number |= (byte & 127) << 7 * digit
        place += 1
        if byte < 128:
            return number, place
    raise MessageError("the message's header has a number without end: no bitstep wrote it")
