"""What one pipeline cannot have together, and why."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bitstep.pipeline.parts.formats import MAX_TABLE_BITS, WOVEN

# Groups of choices that exclusions are about: values of fields, each of which is of the group.
TRAITS: dict[str, dict[str, Callable[[Any], bool]]] = {
    "refetching": {"refetch": bool},
    "level tables": {"level_tables": bool},
    "proximal steps": {"proximal": bool},
    "few bits": {"model_bits": bool, "rounded_updates": bool},
    "dense rows": {"dense": bool},
    "several models": {"models": lambda models: models is not None and models > 1},
    "look-ahead": {"lookahead": lambda rows: rows not in (None, "auto", 0)},
    "slow updates": {"cycles_per_update": lambda cycles: cycles not in (None, 2)},
    "logistic loss": {"solver": lambda solver: solver == "logistic"},
    "one bit": {"bits": lambda bits: bits == 1},
    "many levels": {"bits": lambda bits: bits is not None and bits > MAX_TABLE_BITS},
    "two levels": {"row_format": lambda rows: rows == "two_levels"},
    "unbounded codes": {"row_format": lambda rows: rows not in (None, "one_level")},
    "untabled codes": {"row_format": lambda rows: rows not in (None, "one_level")},
    "woven rows": {"row_format": lambda rows: rows == WOVEN},
    "no whole codes": {"row_format": lambda rows: rows in ("float32", WOVEN)},
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
    Exclusion("refetching", "level tables", "refetching needs equally spaced levels"),
    Exclusion("level tables", "untabled codes", "a table has the level of each code of one sample"),
    Exclusion("level tables", "many levels", "a table takes memory in every lane, which has "
              f"room for {1 << MAX_TABLE_BITS} levels"),
    Exclusion("several models", "refetching", "each model would have rows of its own to read "
              "again"),
    Exclusion("several models", "woven rows", "each model would scale the rows differently"),
    Exclusion("several models", "few bits", "a pass can round only one model"),
    Exclusion("few bits", "no whole codes", "a model and updates are rounded for rows of 1 to 8 "
              "bits alone"),
    Exclusion("few bits", "refetching", "rows are decided by bounds of a model of all bits"),
    Exclusion("dense rows", "few bits", "the pipeline for dense rows does not round a model or "
              "updates"),
    Exclusion("dense rows", "no whole codes", "dense rows have codes of 1 to 8 bits"),
    Exclusion("dense rows", "logistic loss", "the pipeline for dense rows takes a beat every 2 "
              "cycles, and the update of the logistic loss takes 6"),
    Exclusion("dense rows", "slow updates", "the pipeline for dense rows takes a beat every 2 "
              "cycles"),
    Exclusion("dense rows", "look-ahead", "it would need the products of each row with all rows of "
              "the beats before"),
    Exclusion("dense rows", "proximal steps", "the pipeline for dense rows does not shrink or "
              "bound weights"),
    Exclusion("dense rows", "level tables", "the pipeline for dense rows has no tables of levels"),
    Exclusion("dense rows", "refetching", "the pipeline for dense rows trains on the rows of a "
              "beat together, and reads none again"),
)


def reason_of(one: str, other: str) -> str:
    """Why one pipeline cannot have two groups of :data:`TRAITS` together."""
    return next(rule.reason for rule in EXCLUSIONS if (rule.one, rule.other) == (one, other))
