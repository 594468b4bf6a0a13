"""Tables of small numbers, one a symbol, that say with which code a message's symbols are coded.

Each number is sent as its difference from the one before (from 0 at first), folded to 0, -1, 1,
-2, 2 ... = 0, 1, 2, 3, 4 ..., plus 1, in Elias' gamma code: as many zeros as the number has bits
after its first, then the bits, the highest first. Neighbours are alike in gradients: a bell of 255
symbols takes some 100 bytes.
"""

import numpy as np

from bitstep_gradients.errors import MessageError

MOST = 511                      # of the numbers of a table
_ZEROS = (2 * MOST + 1).bit_length() - 1


def pack_table(numbers: np.ndarray) -> bytes:
    """Code a table.

    Parameters
    ----------
    numbers : ndarray of int, shape (n_symbols,)
        From 0 to 511.

    Returns
    -------
    packed : bytes
        Bits fill each byte from its lowest on; the last one is filled with zeros.
    """
    steps = np.diff(np.asarray(numbers, np.int64), prepend=0)
    folded = np.where(steps < 0, -2 * steps, 2 * steps + 1).tolist()
    bits = "".join("0" * (number.bit_length() - 1) + f"{number:b}" for number in folded)
    digits = np.frombuffer(bits.encode(), np.uint8) & 1
    return np.packbits(digits, bitorder="little").tobytes()


def unpack_table(payload: bytes, n_symbols: int) -> tuple[np.ndarray, bytes]:
    """Take a table from the front of a payload.

    Parameters
    ----------
    payload : bytes
    n_symbols : int

    Returns
    -------
    numbers : ndarray of int64, shape (n_symbols,)
    rest : bytes
        The payload without its table.

    Raises
    ------
    MessageError
        For a table that is not whole or has a number outside 0 to 511.
    """
    most = (n_symbols * (2 * _ZEROS + 1) + 7) // 8
    digits = np.unpackbits(np.frombuffer(payload[:most], np.uint8), bitorder="little") + ord("0")
    bits, place, numbers = digits.astype(np.uint8).tobytes().decode(), 0, [0]
    for _ in range(n_symbols):
        one = bits.find("1", place, place + _ZEROS + 1)
        end = 2 * one - place + 1
        if one < 0 or end > len(bits):
            raise MessageError("the message's table of symbols is not whole")
        folded = int(bits[one:end], 2)
        numbers.append(numbers[-1] + (folded // 2 if folded % 2 else -folded // 2))
        place = end
    table = np.array(numbers[1:], np.int64)
    if table.min(initial=0) < 0 or table.max(initial=0) > MOST:
        raise MessageError(f"the message's table of symbols has numbers outside 0 to {MOST}")
    return table, payload[(place + 7) // 8:]
