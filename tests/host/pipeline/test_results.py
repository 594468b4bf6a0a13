"""Results of runs: sums, parts and what a job reads."""

import pickle
from functools import partial

import numpy as np
import pytest

from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.results import (
    COUNTER_NAMES,
    Counters,
    Ends,
    RunResult,
    beats_read,
    collect,
    stall_cycles,
    sum_counters,
    waits_text,
)
from bitstep_sim.testing.bit_plane_jobs import random_bit_plane_job
from bitstep_sim.testing.random_jobs import random_job


def test_sums_of_counters():
    """What one of the runs does not know nobody knows of all."""
    one = dict.fromkeys(COUNTER_NAMES, 0) | {"cycles": 5, "beats": 3}
    other = dict.fromkeys(COUNTER_NAMES, 0) | {"cycles": None, "beats": 4}
    assert sum_counters([one, one])["cycles"] == 10
    for runs in ([one, other], [other, one], [one, Counters(lambda: other)]):
        found = sum_counters(runs)
        assert list(found) == list(COUNTER_NAMES)
        assert (found["cycles"], found["beats"], found["flush"]) == (None, 7, 0)
    assert set(sum_counters([]).values()) == {0}


def test_waits_of_a_run():
    counters = dict.fromkeys(COUNTER_NAMES, 0) | {
        "cycles": 1000, "beats": 600, "stall_recursion": 350, "stall_correction": 41, "flush": 6,
        "model_io": 5, "stall_rows": None}
    stalls = stall_cycles(counters)
    assert stalls == {"rows": None, "labels": 0, "lookahead": 0, "recursion": 350,
                      "correction": 41, "refetch": 0, "flush": 6, "model_io": 5}
    assert waits_text(stalls, 1000) == (
        "35% for the recursion, 4% for corrections, "
        "1% for the last updates of epochs, batches and periods")
    assert waits_text(dict.fromkeys(stalls, 1), 1000) == "none"
    # Each that a pipeline counts.
    places = {name: place for place, name in enumerate(COUNTER_NAMES)}
    assert [*stall_cycles(places).values()] == [place for name, place in places.items()
                                                if name.startswith(("stall_", "flush", "model_io"))]


def test_first_epochs_of_a_result():
    counts = []

    def count():
        counts.append(1)
        return [5, 9, 20]

    whole = RunResult(np.arange(6, dtype=np.int32).reshape(3, 2), np.arange(3, dtype=np.int32),
                      {"cycles": 20}, Ends(count, 3))
    first = whole.first(2)
    assert (first.models.tolist(), first.intercepts.tolist()) == ([[0, 1], [2, 3]], [0, 1])
    assert first.counters == {"cycles": 20}
    assert first.epoch_cycles is not None
    assert len(first.epoch_cycles) == 2
    assert counts == []                 # nobody has asked yet
    assert list(first.epoch_cycles) == [5, 9]
    assert first.epoch_cycles[-1] == 9
    assert whole.first(0).epochs_done == 0
    assert RunResult(whole.models, whole.intercepts).first(2).epoch_cycles is None
    assert pickle.loads(pickle.dumps(Ends(partial(list, [1, 2]), 2)[1:])) == [2]


@pytest.mark.parametrize("epochs", range(4))
def test_beats_of_the_first_epochs(epochs):
    """A row of 40 features of 4 bits has three beats of 64 bits; three rows of 7 features of 3 bits
    have one together.
    """
    job = random_job(PipelineConfig(), n_features=40, n_rows=10, epochs=3)
    assert beats_read(job, epochs) == epochs * 10 * 3
    packed = PipelineConfig(bits=3, max_features=7, lookahead=0, packed=True)
    assert beats_read(random_job(packed, n_features=7, n_rows=10, epochs=3), epochs) == epochs * 4
    # 128 rows of 32 features are 512 bytes of a plane, or 64 beats.
    planes = PipelineConfig(bits=16, row_format="bit_planes", max_features=32)
    job = random_bit_plane_job(planes, n_features=32, n_rows=128, planes=(4, 16, 1))
    assert beats_read(job, epochs) == 64 * sum((4, 16, 1)[:epochs])


def test_a_collected_result_is_of_its_own():
    model, counters = np.arange(3), {"cycles": 1}
    found = collect([model], [7], 3, counters)
    model += 1
    counters["cycles"] = 2
    assert found.models.tolist() == [[0, 1, 2]]
    assert found.counters == {"cycles": 1}
    assert collect([], [], 3, {}).models.shape == (0, 3)
