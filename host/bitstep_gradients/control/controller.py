"""Base of controllers: a uniform codec whose bits change from step to step."""

from abc import abstractmethod
from collections.abc import Sequence
from inspect import signature
from math import sqrt
from typing import Any

import numpy as np

from bitstep.checks import check_integer
from bitstep_gradients.codecs.base import Codec
from bitstep_gradients.codecs.uniform import LARGEST, Dqsg, Qsgd, QsgdLinf, Uniform
from bitstep_gradients.control.schedule import LEVELS, MAX_BITS, MIN_BITS
from bitstep_gradients.control.wrapped import Wrapped
from bitstep_gradients.errors import MessageError
from bitstep_gradients.keys import Key
from bitstep_gradients.vectors import BFloat16, bucket_starts, checked_vector, sum_of_squares
from bitstep_gradients.wire.header import unpack_message

Vectors = "np.ndarray | BFloat16 | Sequence[np.ndarray | BFloat16]"
FACTS = ("count", "scale", "rms", "magnitude", "loss")


class BitController(Wrapped):
    """Base: the bits of a step are a function of the state and of ``key.step``.

    All ranks gather the statistics of all ranks, in their order, and call :meth:`update` with
    them, so all have the same state and choose the same bits. A message names its levels: it can
    be decoded at any time, whatever the state has become.

    Parameters
    ----------
    codec : Codec
        A codec whose levels can be chosen: ``qsgd``, ``qsgd-linf`` or ``dqsg``. Its own bits do not
        count.
    interval : int
        Steps from one update to the next, tau of the DQ-SGD paper. Before the first interval has
        passed, there are updates at steps 0, 1, 2, 4, 8 .., too: norms change fastest then.
    first_bits : int
        Bits until the first update, from 2 to 8.

    Raises
    ------
    TypeError, ValueError
        For another codec, or a parameter outside its range.
    """

    start: dict[str, float]         # state before the first update

    def __init__(self, codec: Codec, *, interval: int = 100, first_bits: int = 8):
        super().__init__(codec)
        if not isinstance(codec, (Qsgd, QsgdLinf, Dqsg)):
            raise TypeError("codec must be one whose levels can be chosen, qsgd, qsgd-linf or "
                            f"dqsg, not {codec.name}")
        check_integer("interval", interval, 1)
        check_integer("first_bits", first_bits, MIN_BITS, MAX_BITS)
        self.interval, self.first_bits = int(interval), int(first_bits)
        self.adapts = True
        self.state = {"updates": 0.0, "step": 0.0, **self.start}
        self._codecs: dict[int, Uniform] = {}

    # What a controller defines

    @abstractmethod
    def _bits(self, steps: np.ndarray) -> np.ndarray:
        """Bits of steps after an update: int64, shape of ``steps``, from 2 to 8."""

    @abstractmethod
    def _learn(self, step: int, facts: dict[str, float]) -> None:
        """Change the state by the means of all ranks' facts."""

    # What all have

    def bits(self, step: int) -> int:
        """Bits of a step, from 2 to 8."""
        return int(self._all_bits(np.array([step]))[0])

    def _all_bits(self, steps: np.ndarray) -> np.ndarray:
        if not self.state["updates"]:
            return np.full(steps.shape, self.first_bits)
        return self._bits(steps)

    def due(self, step: int) -> bool:
        """Return True if the statistics of a step are to be exchanged."""
        return step % self.interval == 0 or (step < self.interval and step & (step - 1) == 0)

    def codec_at(self, step: int) -> Codec:
        """The codec of a step."""
        return self._codec_of(int(LEVELS[self.bits(step) - MIN_BITS]))

    @property
    def current(self) -> Codec:
        """The codec of the last update's step: bounds and expected bits are of it."""
        return self.codec_at(int(self.state["step"]))

    def encode(self, vector: "np.ndarray | BFloat16", key: Key,
               side: np.ndarray | None = None) -> bytes:
        """Code a vector with the bits of ``key.step``. See :meth:`Codec.encode`."""
        return self.codec_at(key.step).encode(vector, key, side)

    def decode(self, message: bytes, key: Key, side: np.ndarray | None = None) -> np.ndarray:
        """Find the vector of a message of any bits. See :meth:`Codec.decode`."""
        header, _ = unpack_message(message)
        if header.parameter not in LEVELS:
            raise MessageError(f"the message has parameter {header.parameter}, and a controller "
                               f"has {', '.join(f'{levels:g}' for levels in LEVELS)}; decode with "
                               "the codec that encoded it")
        return self._codec_of(header.parameter).decode(message, key, side)

    def statistics(self, vector: Any, *, loss: float | None = None) -> np.ndarray:
        """Facts of this rank at a step.

        Parameters
        ----------
        vector : ndarray or BFloat16, or a sequence of them
            The rank's gradient, or those of all tensors.
        loss : float, optional
            The rank's loss, for controllers that ask for it.

        Returns
        -------
        statistics : ndarray of float32, shape (5,)
            Values; root mean square of the scales of their buckets; root mean square and mean
            magnitude of the values; loss (-1: none).

        Raises
        ------
        TypeError, ValueError
            See :func:`bitstep_gradients.vectors.checked_vector`; for a loss that is not finite.
        """
        loss = -1.0 if loss is None else float(loss)
        if not abs(loss) <= float(LARGEST):
            raise ValueError(f"loss must be finite in float32, not {loss}")
        is_one = isinstance(vector, (BFloat16, np.ndarray))
        codec = self._codec_of(1)
        count, sums = 0, np.zeros(3)
        for one in [vector] if is_one else vector:
            values = checked_vector(one)[0].reshape(-1)
            sizes = np.diff(np.append(bucket_starts(values.size, codec.bucket_size), values.size))
            count += values.size
            scales = codec.scales(values).astype(np.float64)
            sums += ((sizes * scales**2).sum(), sum_of_squares(values),
                     np.abs(values, dtype=np.float64).sum())
        scale, square, magnitude = sums / max(count, 1)
        return np.array([count, sqrt(scale), sqrt(square), magnitude, loss], np.float32)

    def update(self, statistics: Sequence[np.ndarray], *, step: int | None = None) -> None:
        """Change the state by the statistics of all ranks.

        Parameters
        ----------
        statistics : sequence of ndarray
            Of every rank, in the order of the ranks.
        step : int, optional
            The step that they are of; by default the next that is due.

        Raises
        ------
        ValueError
            For statistics that no rank can have, or a step before the last update.
        """
        rows = np.asarray(statistics, np.float64)
        if rows.ndim != 2 or not len(rows) or rows.shape[1] != len(FACTS) \
                or not np.isfinite(rows).all() or (rows[:, :4] < 0).any():
            raise ValueError("statistics must be the arrays of statistics() of every rank, finite "
                             f"and with {len(FACTS)} entries each; gradients or a loss that are "
                             "not finite must be found before")
        last = int(self.state["step"])
        if step is None:
            step = last + 1 if self.state["updates"] else 0
            while not self.due(step):
                step += 1
        check_integer("step", step, last)
        means = [sqrt(_mean(column**2)) for column in rows.T[:3]]
        losses = rows[:, 4]
        loss = _mean(losses) if (losses >= 0).all() else -1.0
        facts = (*means, _mean(rows[:, 3]), loss)
        self._learn(step, dict(zip(FACTS, facts, strict=True)))
        self.state["updates"] += 1
        self.state["step"] = float(step)

    def state_dict(self) -> dict[str, Any]:
        """Copy of the state: numbers by name."""
        return dict(self.state)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state of :meth:`state_dict`. Raise ValueError if it does not fit."""
        if set(state) != set(self.state):
            raise ValueError(f"the state of {type(self).__name__} has {', '.join(self.state)}, not "
                             f"{', '.join(map(str, state)) or 'nothing'}")
        numbers = {name: float(value) for name, value in state.items()}
        if not np.isfinite(list(numbers.values())).all():
            raise ValueError(f"the state of {type(self).__name__} must be finite; it is damaged")
        self.state = numbers

    def __repr__(self):
        """With the settings: ranks compare their texts, and must not choose other bits."""
        settings = [f"{name}={getattr(self, name)!r}" for name in signature(type(self)).parameters
                    if name != "codec" and hasattr(self, name)]
        return f"<{type(self).__name__} around {self.codec!r}, {', '.join(settings)}>"

    def _codec_of(self, levels: int) -> Uniform:
        if levels not in self._codecs:
            codec: Any = type(self.codec)
            self._codecs[levels] = codec(levels=levels, bucket_size=self.bucket_size,
                                         payload=self.payload)
        return self._codecs[levels]


def _mean(values: np.ndarray) -> float:
    """Mean in the order of the ranks: no summation by pairs or blocks."""
    total = 0.0
    for value in values.tolist():
        total += value
    return total / len(values)
