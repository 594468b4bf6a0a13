"""Threefry-2x32 with 20 rounds: random words that are a function of a key and a counter.

Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011. Additions,
rotations and exclusive ors of 32-bit words: the same bits from NumPy and from hardware, in any
order.
"""

import numpy as np

ROUNDS = 20
ROTATIONS = (13, 15, 26, 6, 17, 29, 16, 24)     # of the second word, round after round
PARITY = 0x1BD1_1BDA                            # third word of the key, without the other two
GROUP = 4                                       # rounds between two injections of the key

_TURNS = [(np.uint32(one), np.uint32(32 - one)) for one in ROTATIONS]


def threefry(key: tuple[int, int], counter: tuple) -> tuple[np.ndarray, np.ndarray]:
    """Two random words of 32 bits for every counter.

    Parameters
    ----------
    key : (int, int)
        Each from 0 to 2**32 - 1.
    counter : (array_like of int, array_like of int)
        Each from 0 to 2**32 - 1; any shapes that broadcast.

    Returns
    -------
    first, second : ndarray of uint32, shape of the counters
    """
    keys = [np.uint32(word) for word in (*key, PARITY ^ key[0] ^ key[1])]
    first, second = (np.asarray(word, np.uint32) for word in counter)
    shape = np.broadcast_shapes(first.shape, second.shape)
    x, y, turned = (np.empty(shape, np.uint32) for _ in range(3))
    with np.errstate(over="ignore"):        # sums are modulo 2**32
        np.add(first, keys[0], out=x)
        np.add(second, keys[1], out=y)
        for number in range(ROUNDS):        # in place: of few counters, memory is most of the time
            x += y
            left, right = _TURNS[number % len(_TURNS)]
            np.right_shift(y, right, out=turned)
            y <<= left
            y |= turned
            y ^= x
            if number % GROUP == GROUP - 1:
                injection = number // GROUP + 1
                x += keys[injection % 3]
                y += keys[(injection + 1) % 3]
                y += np.uint32(injection)
    return x, y


def threefry_of_one(key: tuple[int, int], counter: tuple[int, int]) -> tuple[int, int]:
    """The words of a single counter, for integers of Python: in a tenth of the time."""
    keys, mask = (*key, PARITY ^ key[0] ^ key[1]), 0xFFFF_FFFF
    x, y = counter[0] + keys[0] & mask, counter[1] + keys[1] & mask
    for number in range(ROUNDS):
        x = x + y & mask
        turn = ROTATIONS[number % len(ROTATIONS)]
        y = (y << turn & mask | y >> 32 - turn) ^ x
        if number % GROUP == GROUP - 1:
            injection = number // GROUP + 1
            x = x + keys[injection % 3] & mask
            y = y + keys[(injection + 1) % 3] + injection & mask
    return x, y
