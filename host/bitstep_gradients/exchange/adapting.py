"""Codecs whose state follows the gradients of all ranks."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from bitstep_gradients.codecs.base import Codec
from bitstep_gradients.control.controller import BitController
from bitstep_gradients.control.feedback import ErrorFeedback
from bitstep_gradients.exchange.collectives import gather
from bitstep_gradients.exchange.entries import Entry, Piece
from bitstep_gradients.exchange.traffic import Traffic
from bitstep_gradients.exchange.transport import Transport
from bitstep_gradients.keys import Key
from bitstep_gradients.registry import make_codec

UNUSED = Key(0)         # the messages have no random word
FIRST_UPDATES, UPDATE_INTERVAL = (0, 100, 2000), 10_000


def default_updates(step: int) -> bool:
    """Return True for a step before which levels are fitted anew: those of the ALQ paper's code,
    and step 0, so that the first levels fit.
    """
    return step in FIRST_UPDATES or step % UPDATE_INTERVAL == 0


def adapting_codec(codec: Codec) -> Codec | None:
    """The codec that adapts, or the one inside error feedback; None if it does not adapt."""
    if isinstance(codec, ErrorFeedback):
        codec = codec.codec
    return codec if codec.adapts else None


def due_codecs(entries: Sequence[Entry], step: int, update_at: Callable[[int], bool]
               ) -> list[tuple[Codec, list[int]]]:
    """Codecs that are to be updated before a step.

    Parameters
    ----------
    entries : sequence of Entry
        All tensors.
    step : int
    update_at : callable
        Says whether codecs other than controllers are updated before a step.

    Returns
    -------
    due : list of (Codec, list of int)
        Each with the places of its tensors. Those that share a controller of bits count as one
        gradient.
    """
    groups: dict[int, tuple[Codec, list[int]]] = {}
    for place, entry in enumerate(entries):
        codec = adapting_codec(entry.codec)
        if codec is None:
            continue
        asks = codec.due if isinstance(codec, BitController) else update_at
        if entry.is_late or asks(step):
            groups.setdefault(id(codec), (codec, []))[1].append(place)
    return list(groups.values())


def postpone(entries: Sequence[Entry], due: Sequence[tuple[Codec, list[int]]]) -> None:
    """Leave updates to the next step, because this one is skipped."""
    for _, places in due:
        for place in places:
            entries[place].is_late = True


def adapt(transport: Transport, traffic: Traffic, entries: Sequence[Entry],
          vectors: Sequence[np.ndarray], due: Sequence[tuple[Codec, list[int]]], *, key: Key,
          loss: float | None = None) -> None:
    """Update codecs by the statistics of all ranks.

    Parameters
    ----------
    transport : Transport
    traffic : Traffic
    entries : sequence of Entry
        All tensors.
    vectors : sequence of ndarray of float32
        This rank's values of each.
    due : sequence of (Codec, list of int)
        See :func:`due_codecs`.
    key : Key
        Seed and step, and this rank.
    loss : float, optional
        This rank's loss, for controllers.

    Raises
    ------
    ExchangeError
        If another rank failed.
    """
    if not due:
        return

    wire = make_codec("none")       # arrays of statistics travel as its messages, with their shape

    def statistics():
        messages = []
        for codec, places in due:
            if isinstance(codec, BitController):
                facts = codec.statistics([vectors[place] for place in places], loss=loss)
            else:
                facts = codec.statistics(vectors[places[0]])
            messages.append(wire.encode(facts, UNUSED))
        return messages

    nameless = [replace(entries[places[0]], name="") for _, places in due]
    pieces = [Piece.whole(entry) for entry in nameless]     # statistics belong to no tensor
    rows = gather(transport, traffic, [pieces] * transport.world_size, statistics, key)
    for number, (codec, places) in enumerate(due):
        facts = [wire.decode(row[number], UNUSED) for row in rows]
        if isinstance(codec, BitController):
            codec.update(facts, step=key.step)
        else:
            codec.update(facts)
        for place in places:
            entries[place].is_late = False
