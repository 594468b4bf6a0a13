"""Averaging of all gradients of a step, and everything that is kept from step to step."""

import math
from collections.abc import Callable, Container, Mapping
from functools import partial
from typing import Any

import numpy as np

from bitstep.checks import check_choice, check_integer
from bitstep_gradients.codecs.base import Codec
from bitstep_gradients.control.feedback import ErrorFeedback
from bitstep_gradients.exchange.adapting import adapt, default_updates, due_codecs, postpone
from bitstep_gradients.exchange.agreement import FAILED, FINITE, NOT_FINITE, agree, fingerprint
from bitstep_gradients.exchange.choices import SMALL, CodecChoice
from bitstep_gradients.exchange.entries import MAX_RANKS, MAX_TENSORS, Entry, name_of_piece
from bitstep_gradients.exchange.saving import restore_entries, saved_entries
from bitstep_gradients.exchange.schemes import EXCHANGES, Exchange, TwoPhase
from bitstep_gradients.exchange.traffic import Traffic
from bitstep_gradients.exchange.transport import Transport
from bitstep_gradients.keys import WORD, Key
from bitstep_gradients.registry import make_codec
from bitstep_gradients.vectors import BFloat16, float_values


class Aggregator:
    """Averages of the gradients of all ranks, bit for bit the same on every rank.

    Parameters
    ----------
    codec : str or Codec
        A name of ``list_codecs()``, with its options as keywords, or a codec, which is copied for
        every tensor. Tensors share one controller of bits, as in the DQ-SGD paper.
    exchange : str or Exchange
        ``all_gather`` or ``two-phase``.
    error_feedback : bool or float
        True: what a message lost is added to the next gradient. A number: its weight beta, greater
        than 0 and at most 1.
    warmup_steps : int
        First steps that are exchanged as float32, two-phase.
    min_size : int
        Tensors of fewer values are sent as float32.
    overrides : mapping of str to (str or Codec), optional
        Codecs of tensors by patterns of their names (``fc1.*``); the first that fits counts.
    on_bad : {"error", "skip"}
        With NaN or infinity on any rank, all ranks raise an error, or all skip the step.
    update_at : callable or container of int, optional
        Steps before which codecs that adapt are updated: a function of the step, or the steps.
        By default 0, 100, 2,000 and every multiple of 10,000. Controllers of bits know theirs.
        The update of a step that is skipped is made before the next one that is not.
    seed : int
        Of all random words; from 0 to 2**32 - 1.
    **options
        Options of the codec that ``codec`` names.

    Attributes
    ----------
    step : int
        Number of the next step.
    skipped : bool
        True if the last step was skipped.
    n_skipped : int
    traffic : Traffic
    loss : float or None
        This rank's loss, for controllers that ask for it; set it before the step.

    Raises
    ------
    ValueError, TypeError
        For a parameter that cannot be.
    """

    def __init__(self, codec: "str | Codec", *, exchange: "str | Exchange" = "all_gather",
                 error_feedback: "bool | float" = False, warmup_steps: int = 0,
                 min_size: int = SMALL, overrides: "Mapping[str, str | Codec] | None" = None,
                 on_bad: str = "error",
                 update_at: "Callable[[int], bool] | Container[int] | None" = None,
                 seed: int = 0, **options: Any):
        if not isinstance(exchange, Exchange):
            check_choice("exchange", exchange, EXCHANGES)
            exchange = EXCHANGES[exchange]()
        check_integer("warmup_steps", warmup_steps, 0)
        check_choice("on_bad", on_bad, ("error", "skip"))
        check_integer("seed", seed, 0, WORD - 1)
        if update_at is None:
            update_at = default_updates
        elif isinstance(update_at, Container) and not isinstance(update_at, str):
            update_at = update_at.__contains__
        elif not callable(update_at):
            raise TypeError("update_at must be a function of the step, or a set, range or list of "
                            f"steps, not {update_at!r}")
        # NumPy's integers have another text, and ranks compare theirs.
        self.exchange, self.warmup_steps, self.on_bad = exchange, int(warmup_steps), on_bad
        self.seed, self._update_at = int(seed), update_at
        self._choice = CodecChoice(codec, options, error_feedback=error_feedback,
                                   min_size=min_size, overrides=overrides)
        self.step, self.skipped, self.n_skipped = 0, False, 0
        self.traffic = Traffic()
        self.loss: float | None = None
        self._entries: list[Entry] = []
        self._plain: list[Entry] = []           # the same, uncompressed, for warm-up
        self._loaded: dict[str, Any] | None = None
        self._facts = 0
        self._place: tuple[int, int] | None = None      # rank, and number of ranks

    def average(self, transport: Transport, vectors: "Mapping[str, np.ndarray | BFloat16]", *,
                codecs: "Mapping[str, Codec] | None" = None) -> "dict[str, np.ndarray] | None":
        """Average the gradients of a step over the ranks.

        Parameters
        ----------
        transport : Transport
        vectors : mapping of str to (ndarray or BFloat16)
            This rank's gradients, the same names, order and shapes on every rank and at every step.
        codecs : mapping of str to Codec, optional
            At the first step: codecs of some tensors, before all other choices.

        Returns
        -------
        averages : dict of str to ndarray of float32, or None
            None if the step is skipped on all ranks.

        Raises
        ------
        ValueError
            For gradients that are not finite (``on_bad="error"``), on all ranks.
        ExchangeError
            If another rank failed, or does not do the same.
        MessageError
            For a message that was damaged, or is another rank's or step's.
        """
        self.traffic.begin_step()
        status, failure, values, due = FAILED, None, [], []
        try:
            if not isinstance(vectors, Mapping):
                raise TypeError("vectors must be a dictionary of gradients by name, not of type "
                                f"{type(vectors).__name__}")
            values = [float_values(name, vector)[0] for name, vector in vectors.items()]
            self._check_tensors(transport, dict(zip(vectors, values, strict=True)), codecs)
            bad = [name for name, one in zip(vectors, values, strict=True)
                   if not np.isfinite(one).all()]
            due = due_codecs(self._entries, self.step, self._update_at)
            status = NOT_FINITE if bad else FINITE
        except Exception as error:
            failure, bad = error, []
        # Who is due tells functions of steps apart, before they lead to other rounds.
        facts = fingerprint(self._facts, self.step, [places for _, places in due])
        statuses = agree(transport, self.traffic, status, facts)
        if failure is not None:
            raise failure
        self.skipped = NOT_FINITE in statuses
        if self.skipped:
            averages = self._refuse(statuses, bad)
            postpone(self._entries, due)
        else:
            averages = self._exchange(transport, values, due)
        self.step += 1
        return averages

    def tell_failure(self, transport: Transport) -> None:
        """Take part in a step with the word that this rank has failed and has no gradients, in
        place of :meth:`average`: the others raise ExchangeError and do not wait.

        Parameters
        ----------
        transport : Transport
        """
        self.traffic.begin_step()
        agree(transport, self.traffic, FAILED, 0)

    def _refuse(self, statuses, bad) -> None:
        self.n_skipped += 1
        if self.on_bad == "error":
            where = f"here in {', '.join(bad[:10])}" if bad else "not here"
            ranks = [str(rank) for rank, status in enumerate(statuses) if status == NOT_FINITE]
            raise ValueError(
                f"gradients must be finite in float32, but on rank {', '.join(ranks)} they have "
                f"NaN or infinity ({where}) at step {self.step}; lower the learning rate, or take "
                'on_bad="skip"')

    def _exchange(self, transport, values, due) -> dict[str, np.ndarray]:
        key = Key(self.seed, self.step, transport.rank)
        adapt(transport, self.traffic, self._entries, values, due, key=key, loss=self.loss)
        if self.step < self.warmup_steps:
            averages = TwoPhase().average(transport, self._plain, values, key, self.traffic)
        else:
            averages = self.exchange.average(transport, self._entries, values, key, self.traffic)
        for entry, average in zip(self._entries, averages, strict=True):
            if entry.codec.takes_side:
                entry.side = average.copy()
            if isinstance(entry.codec, ErrorFeedback):
                entry.codec.keep()
        return {entry.name: average for entry, average in zip(self._entries, averages, strict=True)}

    # Tensors

    @property
    def codecs(self) -> dict[str, Codec]:
        """Codecs of the tensors, by name; empty before the first step."""
        return {entry.name: entry.codec for entry in self._entries}

    def _check_tensors(self, transport, values, codecs) -> None:
        shapes = {name: one.shape for name, one in values.items()}
        if not self._entries:
            self._open(transport, shapes, codecs)
        known = {entry.name: entry.shape for entry in self._entries}
        if shapes != known or list(shapes) != list(known):
            strange = [name for name in {**known, **shapes}
                       if shapes.get(name) != known.get(name)] or ["the order"]
            raise ValueError("every step must have the tensors of the first one, in their order "
                             f"and shapes, but {', '.join(strange[:10])} differ; take one state "
                             "for each model")

    def _open(self, transport, shapes, codecs) -> None:
        """Make the entries of the first step's tensors, and restore what was loaded."""
        if not 0 < len(shapes) <= MAX_TENSORS or transport.world_size > MAX_RANKS:
            raise ValueError(f"there must be from 1 to {MAX_TENSORS} tensors and at most "
                             f"{MAX_RANKS} ranks, not {len(shapes)} and {transport.world_size}")
        strange = [name for name in shapes if not isinstance(name, str)]
        if strange:
            raise TypeError(f"names of tensors must be texts, not {strange[0]!r}")
        sizes = {name: math.prod(shape) for name, shape in shapes.items()}
        chosen = self._choice.for_tensors(sizes, codecs)
        entries = [Entry(name, number, shapes[name], codec)
                   for number, (name, codec) in enumerate(chosen.items())]
        for entry in entries:
            if isinstance(entry.codec, ErrorFeedback):
                entry.codec.name_of = partial(name_of_piece, entry.name)
        if self._loaded is not None:
            restore_entries(self._loaded, entries, self.exchange, transport.rank,
                            transport.world_size)
            self._loaded = None
        self._entries = entries
        self._plain = [Entry(entry.name, entry.number, entry.shape, make_codec("none"))
                       for entry in entries]
        self._place = transport.rank, transport.world_size
        self._facts = fingerprint(
            self.seed, self.exchange, self.warmup_steps, self.on_bad,
            [(entry.name, entry.shape, type(entry.codec), entry.codec) for entry in entries])

    # State

    def state_dict(self) -> dict[str, Any]:
        """Copy of all that the next steps depend on: each rank has its own.

        Returns
        -------
        state : dict
            Numbers, texts and arrays, in dictionaries. Before the first step there are no tensors,
            and the ranks are None.
        """
        if self._loaded is not None:
            return dict(self._loaded)
        rank, n_ranks = self._place or (None, None)
        return {"step": self.step, "seed": self.seed, "exchange": repr(self.exchange),
                "rank": rank, "n_ranks": n_ranks, "tensors": saved_entries(self._entries)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a state, before or after the first step.

        Parameters
        ----------
        state : mapping
            A result of :meth:`state_dict`, of the same seed, codecs and tensors. A state with error
            feedback must be this rank's own, of the same exchange; any other can be that of another
            rank or exchange. After one of before the first step, the next step is the first.

        Raises
        ------
        ValueError
            If it does not fit. Before the first step the tensors are not known: what does not fit
            with them is then an error of that step.
        """
        wanted = {"step", "seed", "rank", "n_ranks", "tensors"}
        if not wanted <= set(state):
            raise ValueError(f"a state must have {', '.join(sorted(wanted))}, not "
                             f"{', '.join(map(str, state)) or 'nothing'}")
        if state["seed"] != self.seed:
            raise ValueError(f"the state has seed {state['seed']}, and this has {self.seed}; give "
                             "the same seed")
        check_integer("step", state["step"], 0, WORD - 1)
        if not isinstance(state["tensors"], Mapping):
            raise ValueError(f"tensors of a state must be a dictionary, not {state['tensors']!r}")
        if not state["tensors"]:
            self._entries, self._loaded, self._place = [], None, None
        elif self._place is not None:
            restore_entries(state, self._entries, self.exchange, *self._place)
        else:
            self._loaded = dict(state)
        self.step = state["step"]
