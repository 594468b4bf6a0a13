"""Counters of several runs."""

from collections.abc import Sequence

from bitstep.pipeline.results import COUNTER_NAMES


def sum_counters(counters: Sequence[dict[str, int | None]]) -> dict[str, int | None]:
    """Sums over runs; None where a device cannot know."""
    total: dict[str, int | None] = {}
    for name in COUNTER_NAMES:
        values = [run.get(name) for run in counters]
        total[name] = None if None in values else sum(filter(None, values))
    return total
