"""Counters of a run beside those that the cycle model counts."""

import pytest
from left_open import open_rows

from bitstep.cycles import Memory, count_epochs

CLOCK_HZ = 100e6


def counters_of(config, job, lookahead, options, result, overflowed=False):
    """Counters of a result of the RTL, and the model's, which is told what overflowed."""
    gbps = options.get("memory_gbps")
    memory = Memory(options.get("memory_latency", 20), gbps and gbps * 1e9 / CLOCK_HZ)
    rows = open_rows(job, lookahead) if job.cell_half_levels else ()
    counted, _ = count_epochs(job, memory, config=config, lookahead=lookahead, open_rows=rows,
                              epochs=result.epochs_done, overflowed=overflowed)
    measured = dict(result.counters)
    if overflowed:
        assert counted.pop("overflows") is None
        assert measured.pop("overflows")
    return measured, counted


def are_equal(measured, counted):
    """Every counter."""
    assert counted == measured


def are_close(measured, counted):
    """Cycles within 0.5 %; what does not depend on time, exactly. What a run that left its range
    has read ahead does.
    """
    assert counted["cycles"] == pytest.approx(measured["cycles"], rel=0.005)
    assert counted["refetched_rows"] == measured["refetched_rows"]
    for name in ("beats", "bytes_read"):
        assert counted[name] == pytest.approx(
            measured[name], rel=0 if "overflows" in counted else 0.005, abs=0)
