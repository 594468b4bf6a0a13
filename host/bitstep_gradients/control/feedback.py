"""Error feedback: what a message lost is added to the next gradient."""

from collections.abc import Callable
from dataclasses import dataclass
from math import inf, isfinite, sqrt
from typing import Any

import numpy as np

from bitstep.checks import is_number
from bitstep_gradients.codecs.base import Codec
from bitstep_gradients.control.wrapped import Wrapped
from bitstep_gradients.errors import DivergenceError
from bitstep_gradients.keys import Key
from bitstep_gradients.vectors import BFloat16, checked_vector, sum_of_squares

LARGEST = np.finfo(np.float32).max
GROWTH = 1e10       # squared norm of a residual by the largest one of a gradient: it diverges


@dataclass
class Entry:
    """Residual of one tensor.

    Parameters
    ----------
    residual : ndarray of float32
        The residual before step ``step``.
    pending : ndarray of float32 or None
        The residual after that step, if the step is kept; None: nothing is open.
    step : int
        The step of ``pending``.
    largest : float
        Largest squared norm of a gradient so far.
    before : float
        The same before step ``step``.
    """

    residual: np.ndarray
    pending: np.ndarray | None = None
    step: int = 0
    largest: float = 0.0
    before: float = 0.0

    def keep(self) -> None:
        """Take over what is open."""
        if self.pending is not None:
            self.residual, self.pending = self.pending, None
        self.before = self.largest

    def discard(self) -> None:
        """Forget what is open."""
        self.pending, self.largest = None, self.before


class ErrorFeedback(Wrapped):
    """Error feedback around a codec, with one residual for each tensor of one sender.

    With weight beta (QCS paper, eq. 14): z = g + beta r; the message holds z, and loses
    e = z - decode(message); then r <- (1 - beta) r + e. The weight 1 is the usual error feedback
    (Seide et al., Interspeech 2014; Karimireddy et al., ICML 2019). The authors' code of the QCS
    paper drops (1 - beta) r and so loses what it does not send.

    ``encode`` alone changes a residual, and only when the step is kept: the new residual stays
    open until the tensor is encoded at another step, or until :meth:`keep`. Encoding the same
    tensor and step again begins from the same residual, so it gives the same message. After
    :meth:`discard` the step has never been.

    Messages are those of the codec inside, of float32 values; ``decode`` needs no residual.
    Residuals are in the unit of the gradients: see :meth:`rescale` for steps that change.

    Parameters
    ----------
    codec : Codec
    weight : float
        beta, greater than 0 and at most 1. For an unbiased codec of relative error gamma the
        residual stays bounded below 2 / (1 + gamma): see :func:`residual_bound`.

    Raises
    ------
    TypeError, ValueError
        For something else than a codec, one that has error feedback, or a weight outside its range.

    Attributes
    ----------
    name_of : callable
        Name of a tensor by its number, for errors.
    """

    told = ("weight",)

    def __init__(self, codec: Codec, *, weight: float = 1.0):
        super().__init__(codec)
        if isinstance(codec, ErrorFeedback):    # what a message lost would be added twice
            raise ValueError("the codec has error feedback already; give the codec inside it")
        if not is_number(weight) or not 0 < weight <= 1:
            raise ValueError(f"weight must be greater than 0 and at most 1, not {weight!r}")
        self.weight = float(weight)
        self.name_of: Callable[[int], str] = "tensor {}".format
        self._entries: dict[int, Entry] = {}
        self._rank: int | None = None

    def encode(self, vector: "np.ndarray | BFloat16", key: Key,
               side: np.ndarray | None = None) -> bytes:
        """Code a gradient and what earlier messages of its tensor lost.

        Parameters
        ----------
        vector : ndarray of float16, float32 or float64, or BFloat16; any shape
        key : Key
            ``key.tensor`` names the residual.
        side : ndarray of float32, shape of ``vector``, optional
            Side information of the receivers; only nested codecs use it.

        Returns
        -------
        message : bytes

        Raises
        ------
        TypeError, ValueError
            For a vector that the codec inside refuses, another shape than the tensor's residual
            has, the key of another sender, or a residual that grows without bound. No residual
            changes then.
        """
        values, _ = checked_vector(vector)
        if self._rank not in (None, key.rank):
            raise ValueError(f"error feedback belongs to one sender, rank {self._rank}, and the "
                             f"key has rank {key.rank}; make one for each sender")
        residual = self.residual(key.tensor, before=key.step)
        if residual is None:
            residual = np.zeros(values.shape, np.float32)
        if residual.shape != values.shape:
            raise ValueError(f"{self.name_of(key.tensor)} has a residual of shape "
                             f"{residual.shape}, and the vector has {values.shape}; give every "
                             "tensor a number of its own, or call reset() if the model has changed")
        weight = np.float32(self.weight)
        corrected = _clipped(values, weight * residual)
        message = self.codec.encode(corrected, key, side)
        lost = _clipped(corrected, -self.codec.decode(message, key, side))
        entry = self._entries.get(key.tensor, Entry(residual))
        before = entry.before if entry.step == key.step else entry.largest
        largest = max(before, sum_of_squares(values))
        pending = _clipped((np.float32(1) - weight) * residual, lost)
        if sum_of_squares(pending) > GROWTH * largest:
            raise DivergenceError(
                f"the residual of {self.name_of(key.tensor)} has grown to {GROWTH**0.5:g} times "
                "the largest gradient: a message loses more than it sends; take more levels, "
                f"smaller buckets, or a weight below 2 / (1 + gamma) instead of {self.weight:g} "
                "(docs/gradients.md)")
        if entry.step != key.step:
            entry.keep()
        entry.pending, entry.step, entry.largest = pending, key.step, largest
        self._entries[key.tensor], self._rank = entry, key.rank
        return message

    def decode(self, message: bytes, key: Key, side: np.ndarray | None = None) -> np.ndarray:
        """Find the vector of a message; no residual changes. See :meth:`Codec.decode`."""
        return self.codec.decode(message, key, side)

    def residual(self, tensor: int, *, before: int | None = None) -> np.ndarray | None:
        """Residual of a tensor.

        Parameters
        ----------
        tensor : int
        before : int, optional
            The step that would use it; by default the one after all steps so far.

        Returns
        -------
        residual : ndarray of float32 or None
            None if nothing of the tensor was encoded.
        """
        entry = self._entries.get(tensor)
        if entry is None:
            return None
        is_open = entry.pending is not None and entry.step != before
        return entry.pending if is_open else entry.residual

    def keep(self) -> None:
        """Say that all steps so far are kept; frees the memory of the residuals before them."""
        for entry in self._entries.values():
            entry.keep()

    def discard(self, step: int) -> None:
        """Forget a step that is skipped, such as one whose gradients had overflowed on a rank.

        Parameters
        ----------
        step : int
            The tensors encoded at it since then have the residuals from before.
        """
        for entry in self._entries.values():
            if entry.step == step:
                entry.discard()

    def rescale(self, factor: float) -> None:
        """Multiply all residuals, such as by old step / new step when the step of SGD changes.

        Raises
        ------
        ValueError
            Unless the factor is finite in float32.
        """
        if not is_number(factor) or abs(factor) > float(LARGEST):
            raise ValueError(f"factor must be finite in float32, not {factor!r}")
        zero = np.float32(0)
        for entry in self._entries.values():
            entry.residual = _clipped(np.float32(factor) * entry.residual, zero)
            if entry.pending is not None:
                entry.pending = _clipped(np.float32(factor) * entry.pending, zero)
            # The gradients so far have the new unit, too: a residual that grows is told by them.
            entry.largest *= float(factor)**2
            entry.before *= float(factor)**2

    def reset(self) -> None:
        """Forget all residuals."""
        self._entries, self._rank = {}, None

    # State

    def state_dict(self) -> dict[str, Any]:
        """Copy of the residuals, open ones included, and of the codec's state."""
        return {"codec": self.codec.state_dict(), "tensors": {
            tensor: {"residual": entry.residual.copy(), "step": entry.step,
                     "pending": None if entry.pending is None else entry.pending.copy(),
                     "largest": entry.largest, "before": entry.before}
            for tensor, entry in self._entries.items()}}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state of :meth:`state_dict`. Raise ValueError if it does not fit."""
        if set(state) != {"codec", "tensors"} or not isinstance(state["tensors"], dict):
            raise ValueError("the state of error feedback has codec and tensors, not "
                             f"{', '.join(map(str, state)) or 'nothing'}")
        try:
            restored = {int(tensor): self._entry(tensor, one)
                        for tensor, one in state["tensors"].items()}
        except (KeyError, TypeError) as error:
            raise ValueError("the state of error feedback is damaged "
                             f"({type(error).__name__}: {error})") from error
        self.codec.load_state_dict(state["codec"])
        self._entries, self._rank = restored, None

    def _entry(self, tensor: Any, one: dict[str, Any]) -> Entry:
        residual, pending = self._restored(tensor, one["residual"]), one["pending"]
        entry = Entry(residual, None if pending is None else self._restored(tensor, pending),
                      int(one["step"]), float(one["largest"]),
                      float(one.get("before", one["largest"])))     # older states have none
        if not (isfinite(entry.largest) and isfinite(entry.before)):
            raise ValueError(f"the largest residual of {self.name_of(int(tensor))} must be finite; "
                             "the state is damaged")
        if entry.pending is not None and entry.pending.shape != entry.residual.shape:
            raise ValueError(f"the residuals of {self.name_of(int(tensor))} must have one shape, "
                             f"not {entry.residual.shape} and {entry.pending.shape}; the state is "
                             "damaged")
        return entry

    def _restored(self, tensor: Any, values: Any) -> np.ndarray:
        residual = np.array(values, np.float32)
        if not np.isfinite(residual).all():
            raise ValueError(f"the residual of {self.name_of(int(tensor))} must be finite; the "
                             "state is damaged")
        return residual


def residual_bound(gamma: float, weight: float = 1.0, *, unbiased: bool = True) -> float:
    """Bound of E|r|^2 by E|g|^2 (QCS paper, Lemma 4).

    Parameters
    ----------
    gamma : float
        The codec's E|e|^2 <= gamma |v|^2 when it is unbiased. The MMSE form of that codec has
        gamma / (1 + gamma).
    weight : float
        beta, greater than 0 and at most 1.
    unbiased : bool
        If false, the bound for the MMSE form.

    Returns
    -------
    eta : float
        E|r|^2 <= eta B if E|g|^2 <= B at every step. Infinite where the lemma gives no bound.
    """
    if unbiased:
        rest = 1 - ((1 - weight)**2 + weight**2 * gamma)
        return gamma / rest if rest > 0 else inf
    return gamma / (sqrt(gamma + 1 - (1 - weight)**2) - sqrt(gamma))**2


def best_weight(gamma: float) -> float:
    """The weight 1 / (gamma + 1), for which :func:`residual_bound` is least, gamma (gamma + 1)."""
    return 1 / (gamma + 1)


def _clipped(first: np.ndarray, second: "np.ndarray | np.float32") -> np.ndarray:
    """Sum in float32, clipped where it would be infinite."""
    with np.errstate(over="ignore"):
        return np.asarray(np.clip(first + second, -LARGEST, LARGEST), np.float32)
