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
    x, y = np.broadcast_arrays(*(np.asarray(word, np.uint32) for word in counter))
    with np.errstate(over="ignore"):        # sums are modulo 2**32
        x, y = x + keys[0], y + keys[1]
        for number in range(ROUNDS):
            x = x + y
            rotation = ROTATIONS[number % len(ROTATIONS)]
            y = (y << np.uint32(rotation) | y >> np.uint32(32 - rotation)) ^ x
            if number % GROUP == GROUP - 1:
                injection = number // GROUP + 1
                x = x + keys[injection % 3]
                y = y + keys[(injection + 1) % 3] + np.uint32(injection)
    return x, y
