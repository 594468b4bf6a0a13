"""What one pipeline cannot have together, and why."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bitstep.pipeline.parts.formats import BIT_PLANES, MAX_CODEBOOK_BITS

# Groups of choices that exclusions are about: values of fields, each of which is of the group.
TRAITS: dict[str, dict[str, Callable[[Any], bool]]] = {
    "refetching": {"refetch": bool},
    "codebooks": {"codebooks": bool},
    "proximal steps": {"proximal": bool},
    "few bits": {"model_bits": bool, "rounded_updates": bool},
    "packed rows": {"packed": bool},
    "several models": {"models": lambda models: models is not None and models > 1},
    "look-ahead": {"lookahead": lambda rows: rows not in (None, "auto", 0)},
    "slow updates": {"update_interval": lambda cycles: cycles not in (None, 2)},
    "waiting within batches": {"update_interval": lambda cycles: cycles not in (None, 1)},
    "batches without waiting": {"update_interval": lambda cycles: cycles == 1},
    "look-ahead between batches": {"batch_lookahead": bool},
    "batches of one row": {"minibatch": lambda batches: batches is False},
    "logistic loss": {"loss_family": lambda family: family == "logistic"},
    "one bit": {"bits": lambda bits: bits == 1},
    "many levels": {"bits": lambda bits: bits is not None and bits > MAX_CODEBOOK_BITS},
    "two levels": {"row_format": lambda rows: rows == "two_levels"},
    "unbounded codes": {"row_format": lambda rows: rows not in (None, "one_level")},
    "codes without a codebook": {"row_format": lambda rows: rows not in (None, "one_level")},
    "floating-point rows": {"row_format": lambda rows: rows == "float32"},
    "bit-plane rows": {"row_format": lambda rows: rows == BIT_PLANES},
    "no whole codes": {"row_format": lambda rows: rows in ("float32", BIT_PLANES)},
}


@dataclass(frozen=True)
class Exclusion:
    """Two groups of :data:`TRAITS` that one pipeline cannot have together, and the reason."""

    one: str
    other: str
    reason: str


EXCLUSIONS = (
    Exclusion("two levels", "one bit", "a code of two samples takes at least 2 bits"),
    Exclusion("refetching", "unbounded codes", "the codes of rows that may be read again must "
              "bound their values"),
    Exclusion("refetching", "logistic loss", "only the update of the hinge loss depends on nothing "
              "but the side of a bound"),
    Exclusion("refetching", "codebooks", "refetching needs equally spaced levels"),
    Exclusion("codebooks", "codes without a codebook",
              "a table has the level of each code of one sample"),
    Exclusion("codebooks", "many levels", "a table takes memory in every lane, which has "
              f"room for {1 << MAX_CODEBOOK_BITS} levels"),
    Exclusion("several models", "refetching", "each model would have rows of its own to read "
              "again"),
    Exclusion("several models", "bit-plane rows", "each model would scale the rows differently"),
    Exclusion("several models", "few bits", "a pass can round only one model"),
    Exclusion("few bits", "no whole codes", "a model and updates are rounded for rows of 1 to 8 "
              "bits alone"),
    Exclusion("few bits", "refetching", "rows are decided by bounds of a model of all bits"),
    Exclusion("packed rows", "few bits", "the pipeline for packed rows does not round a model or "
              "updates"),
    Exclusion("packed rows", "no whole codes", "packed rows have codes of 1 to 8 bits"),
    Exclusion("packed rows", "logistic loss", "the pipeline for packed rows takes a beat every 2 "
              "cycles, and the update of the logistic loss takes 6"),
    Exclusion("packed rows", "slow updates", "the pipeline for packed rows takes a beat every 2 "
              "cycles"),
    Exclusion("packed rows", "look-ahead",
              "it would need the products of each row with all rows of "
              "the beats before"),
    Exclusion("packed rows", "proximal steps", "the pipeline for packed rows does not shrink or "
              "bound weights"),
    Exclusion("packed rows", "codebooks", "the pipeline for packed rows has no codebooks"),
    Exclusion("packed rows", "refetching", "the pipeline for packed rows trains on the rows of a "
              "beat together, and reads none again"),
    Exclusion("batches without waiting", "batches of one row",
              "rows follow each other without waiting inside a batch alone"),
    Exclusion("batches without waiting", "refetching",
              "a row that is read again would hold up its batch"),
    Exclusion("batches without waiting", "bit-plane rows",
              "full passes over bit planes take rows at least 2 cycles apart"),
    Exclusion("look-ahead between batches", "waiting within batches",
              "rows that wait for each other look ahead within batches, too (lookahead)"),
    Exclusion("look-ahead between batches", "floating-point rows",
              "products with the rows before are rounded, and the model would be another one"),
    Exclusion("look-ahead between batches", "few bits",
              "updates that are rounded to few bits come too late for these products, and a "
              "rounded model begins each batch"),
)


def reason_of(one: str, other: str) -> str:
    """Why one pipeline cannot have two groups of :data:`TRAITS` together."""
    return next(rule.reason for rule in EXCLUSIONS if (rule.one, rule.other) == (one, other))
