"""Times, bandwidths and the table of baselines, by clocks that a test moves."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest

from bitstep.pipeline.registers import Loss
from bitstep_lab.baselines import measure, memory, threads
from bitstep_lab.baselines.runs import run_epochs


def test_table_by_hand(monkeypatch):
    """Two turns of 4 MB an epoch; reading has 8 GB a CPU second for each thread."""
    times = {"sgd": (2e-3, 1e-3), "hogwild": (1e-3, 0.5e-3), "minibatch": (4e-3, 2e-3),
             "lowprec": (1e-3, 0.25e-3)}
    trained = []

    def train(features, targets, *, method, threads, batch, loss, steps):
        trained.append((method, threads, batch))
        assert features.dtype == (np.uint8 if method == "lowprec" else np.float32)
        wall, cpu = (np.array([1, 1, 9]) * one for one in times[method])
        return SimpleNamespace(seconds=wall, cpu_seconds=cpu, bytes_per_epoch=4_000_000)

    monkeypatch.setitem(sys.modules, "sklearn", None)       # whose import takes long
    monkeypatch.setattr(measure, "train_cpu", train)
    monkeypatch.setattr(measure, "CEILINGS", {
        "reading": lambda n_bytes, threads, cpu_time: (8 if cpu_time else 3) * threads,
        "copying": lambda n_bytes, threads, cpu_time: 100})
    text = measure.measure(10, 5, loss=Loss.HINGE, batches=[16], threads=2, epochs=3, turns=2)
    head, _, _, _, *lines = text.splitlines()
    assert head == "**10 x 5**, 0.0 MB in float32"
    for line in ("| sgd | 1 | 16 | 2 | 1 | 2.0 | 4.0 | 50% | 1.00 |",
                 "| hogwild | 2 | 1 | 1 | 0.5 | 4.0 | 8.0 | 50% | 0.50 |",
                 "| minibatch | 1 | 16 | 4 | 2 | 1.0 | 2.0 | 25% | 2.00 |",
                 "| lowprec | 2 | 16 | 1 | 0.25 | 4.0 | 16.0 | 100% | 0.25 |",
                 "| reading | 2 | | | | 6.0 | 16.0 | | |"):
        assert line in lines
    rows = [line.strip("| ").split(" | ") for line in lines if line.count(" | ") == 8]
    told = [(row[0], int(row[1]), int(row[2])) for row in rows if row[0] in times]
    assert trained == 2 * told          # methods take turns


@pytest.mark.parametrize("loss", [Loss.LEAST_SQUARES, Loss.HINGE])
def test_data_are_on_both_sides_of_zero(loss):
    features, targets, codes = measure._data(500, 4, loss)
    assert features.dtype == targets.dtype == np.float32
    assert -1 <= features.min() < -0.98
    assert 0.98 < features.max() <= 1
    np.testing.assert_allclose(codes.view(np.int8) / 127, features, atol=0.51 / 127)
    assert (set(targets) == {-1, 1}) == (loss == Loss.HINGE)


def test_bandwidths_by_hand(monkeypatch):
    """A copy has read and written each byte; words to read are of four."""
    monkeypatch.setattr(memory, "_median_seconds", lambda *arguments: 1e-6)
    assert memory.memory_copy_ceiling(1000) == pytest.approx(2)
    assert memory.memory_read_ceiling(1000) == pytest.approx(1)
    assert memory.memory_read_ceiling(1001) == pytest.approx(1.004)


@pytest.mark.parametrize("own, others, seconds", [(2.0, 5.0, 5), (7.0, 5.0, 7)])
def test_busiest_thread_counts(own, others, seconds, monkeypatch):
    """The first of all does not: it faults the pages in."""
    looks, turns = iter(np.cumsum([0, 90] + [0, own] * 7)), iter([99.0] + 7 * [others])
    monkeypatch.setattr(memory, "time", SimpleNamespace(thread_time=lambda: next(looks)))

    class Team(threads.Team):
        def run(self, work, ranges):
            return next(turns) if ranges != [(0, 0)] else 0.0

    monkeypatch.setattr(memory, "Team", Team)
    assert memory._median_seconds(lambda start, stop: None, 10, 1, True) == seconds


def test_processor_time_of_an_epoch_is_that_of_its_busiest_thread(monkeypatch):
    found = run_epochs(lambda step: 1000.0, lambda: (np.zeros(2), 0.0), [0.1], None,
                       method="hogwild", loss=Loss.HINGE, threads=2, batch=1, bytes_per_epoch=1)
    assert found.cpu_seconds.tolist() == [1000]
    assert found.seconds[0] < 500
    monkeypatch.setattr(threads, "_timed", lambda work, start, stop: float(stop))
    with threads.Team(3) as team:
        assert team.run(lambda start, stop: None, [(0, 9), (0, 5), (0, 7)]) == 7
