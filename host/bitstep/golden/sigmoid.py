"""The piecewise-linear sigmoid of the logistic pipeline.

64 chords of the sigmoid between multiples of 1/4 from -8 to 8. With argument t = T / 2^12 and value
G / 2^16 the error is at most :data:`ERROR_BOUND`: the chord's h^2 / 8 max |s''| with h = 1/4 and
max |s''| = 1 / (6 sqrt 3), 7.6e-4 together with the rounding of node and product; beyond 8 the
node's own s(-8) = 3.4e-4 is larger than what is left. Rounding the argument adds 2^-13 / 4.
"""

import math
from itertools import pairwise

from bitstep.pipeline.parts.widths import SIGMOID_FRACTION

VALUE_FRACTION = 16         # fraction bits of the value
RANGE = 8                   # |t| beyond counts as this
SEGMENT_FRACTION = SIGMOID_FRACTION - 2     # fraction bits of the place in a chord: 4 chords a unit
ERROR_BOUND = 8.2e-4        # of the value, for any real argument rounded to T

# The sigmoid of the pass over all rows, which has no recursion and so all the time it needs:
# parabolas through the ends and the middle of each chord.
FINE_ARGUMENT = 16          # fraction bits of its argument
FINE_VALUE = 24             # fraction bits of its value
FINE_RANGE = 16             # |t| beyond counts as this: the sigmoid of -16 is 1.1e-7
FINE_SEGMENT = FINE_ARGUMENT - 2
FINE_ERROR_BOUND = 1.7e-5   # (h / 2)^3 / (9 sqrt 3) max |s3|, h = 1/4, s3: third derivative
# Of the loss whose derivative it is, less the logistic loss: the largest difference of its values
# at two margins of at most 16 in magnitude.
FINE_LOSS_BOUND = 1.5e-6

_LIMIT = RANGE << SIGMOID_FRACTION
NODES = tuple(round((1 << VALUE_FRACTION) / (1 + math.exp(-node / 4)))
              for node in range(-4 * RANGE, 4 * RANGE + 1))


def sigmoid(argument: int) -> int:
    """Value of the chord at an argument.

    Parameters
    ----------
    argument : int
        T, for t = T / 2^12; any integer.

    Returns
    -------
    int
        G in [0, 2^16], for the value G / 2^16; monotone in T.
    """
    place = min(max(argument, -_LIMIT), _LIMIT - 1) + _LIMIT
    segment, within = place >> SEGMENT_FRACTION, place & (1 << SEGMENT_FRACTION) - 1
    low, high = NODES[segment], NODES[segment + 1]
    return low + ((high - low) * within + (1 << SEGMENT_FRACTION - 1) >> SEGMENT_FRACTION)


def _fine(place: float) -> int:
    return round((1 << FINE_VALUE) / (1 + math.exp(-place)))


FINE_NODES = tuple(_fine(node / 4) for node in range(-4 * FINE_RANGE, 4 * FINE_RANGE + 1))
# Four times the height of the sigmoid over the middle of a chord.
BOWS = tuple(4 * _fine((node + 0.5) / 4) - 2 * (low + high) for node, (low, high) in enumerate(
    pairwise(FINE_NODES), start=-4 * FINE_RANGE))


def fine_sigmoid(argument: int) -> int:
    """Value of the parabola at an argument.

    Parameters
    ----------
    argument : int
        T, for t = T / 2^16; any integer.

    Returns
    -------
    int
        G in [0, 2^24], for the value G / 2^24, within :data:`FINE_ERROR_BOUND`.
    """
    limit = FINE_RANGE << FINE_ARGUMENT
    place = min(max(argument, -limit), limit - 1) + limit
    segment, within = place >> FINE_SEGMENT, place & (1 << FINE_SEGMENT) - 1
    rise = FINE_NODES[segment + 1] - FINE_NODES[segment] << FINE_SEGMENT
    left = (1 << FINE_SEGMENT) - within
    return FINE_NODES[segment] + (
        (within * (rise + BOWS[segment] * left) + (1 << 2 * FINE_SEGMENT - 1))
        >> 2 * FINE_SEGMENT)
