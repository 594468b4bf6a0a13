"""States of tensors, saved and restored."""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

import numpy as np

from bitstep_gradients.control.feedback import ErrorFeedback
from bitstep_gradients.exchange.entries import Entry
from bitstep_gradients.exchange.schemes import Exchange


def saved_entries(entries: Sequence[Entry]) -> dict[str, Any]:
    """States of tensors by name: the name of the codec, its settings, its state, shape, side
    information, and if its update is late.
    """
    return {entry.name: {
        "codec": entry.codec.name, "settings": repr(entry.codec), "shape": list(entry.shape),
        "has_feedback": isinstance(entry.codec, ErrorFeedback), "state": entry.codec.state_dict(),
        "side": None if entry.side is None else entry.side.copy(), "is_late": entry.is_late}
        for entry in entries}


def restore_entries(state: Mapping[str, Any], entries: Sequence[Entry], exchange: Exchange,
                    rank: int, n_ranks: int) -> None:
    """Restore states of tensors; all of them or, after an error, none.

    Parameters
    ----------
    state : mapping
        See :meth:`bitstep_gradients.exchange.Aggregator.state_dict`.
    entries : sequence of Entry
    exchange : Exchange
    rank, n_ranks : int
        Of the process that restores.

    Raises
    ------
    ValueError
        For other tensors or codecs, or error feedback of another exchange, rank or number of ranks.
    """
    try:
        _restore(state, entries, exchange, rank, n_ranks)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"the state is damaged ({type(error).__name__}: {error}); load one that "
                         "state_dict gave") from error


def _restore(state, entries, exchange, rank, n_ranks):
    saved = state["tensors"]
    if list(saved) != [entry.name for entry in entries]:
        raise ValueError(f"the state has the tensors {', '.join(list(saved)[:10]) or 'none'}, and "
                         f"the model has {', '.join(entry.name for entry in entries[:10])}; load "
                         "the state of the same model, made in the same way")
    has_feedback = any(one["has_feedback"] for one in saved.values())
    if has_feedback and state["n_ranks"] != n_ranks:
        raise ValueError(f"the state has the error feedback of one of {state['n_ranks']} ranks, "
                         f"and there are {n_ranks} now; residuals belong to ranks. Start "
                         f"{state['n_ranks']} again, or load no state: residuals and codecs begin "
                         "anew then, and the weights of the model go on")
    if has_feedback and state["rank"] != rank:
        raise ValueError(f"the state has the error feedback of rank {state['rank']} of "
                         f"{state['n_ranks']}, and this is rank {rank} of {n_ranks}; save the "
                         "state of every rank, and load its own on each")
    scheme = state.get("exchange", repr(exchange))          # older states do not tell
    if has_feedback and scheme != repr(exchange):
        raise ValueError(f"the state has the error feedback of {scheme}, and this has {exchange}; "
                         "residuals belong to what an exchange sends. Give the same exchange, or "
                         "load no state: residuals and codecs begin anew then")
    codecs = []
    for entry in entries:
        one = saved[entry.name]
        own = (entry.codec.name, list(entry.shape), isinstance(entry.codec, ErrorFeedback))
        stored = (one["codec"], list(one["shape"]), bool(one["has_feedback"]))
        if stored != own:
            raise ValueError(f"the state of {entry.name} has codec, shape and error feedback "
                             f"{stored}, and the model has {own}; give the same settings")
        restored, error = deepcopy(entry.codec), None           # an error changes nothing
        try:
            restored.load_state_dict(one["state"])
        except ValueError as failure:
            error = failure
        found = repr(restored)         # of the same state: a codec's text may depend on it
        if one.get("settings", found) != found:                 # older states do not tell
            raise ValueError(f"the state of {entry.name} is of {one['settings']}, and the model "
                             f"has {found}; give the same settings, or load no state: residuals "
                             "and codecs begin anew then") from error
        if error is not None:
            raise error
        side = None if one["side"] is None else np.array(one["side"], np.float32)
        if side is not None and (side.shape != entry.shape or not np.isfinite(side).all()):
            raise ValueError(f"the side information of {entry.name} must be finite, of shape "
                             f"{entry.shape}, not {side.shape}; the state is damaged")
        codecs.append((entry, one, side))
    for entry, one, side in codecs:
        entry.codec.load_state_dict(one["state"])
        entry.side = side
        entry.is_late = bool(one.get("is_late", False))     # older states do not tell
