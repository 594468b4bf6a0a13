"""Counters and cycles of runs on the simulated board."""

import pytest
from boards import TestedDevice, check_against_golden, open_board
from test_equivalence import CONFIGS, allowed_lookahead

from bitstep.config import ceil_div
from bitstep.registers import LabelFormat
from bitstep_sim.jobs import random_job

STALLS = ("stall_rows", "stall_labels", "stall_lookahead", "stall_recursion", "stall_correction")
AHEAD = 60          # cycles of a run that no counter names: checks, first data, the end
PER_EPOCH = 40      # of an epoch: its table entry, its first labels, the model's last words


def train(config, *, lookahead=None, memory=None, **options):
    """Job and counters of a run."""
    job = random_job(config, **options)
    with open_board(config, **(memory or {"memory_latency": 1})) as board:
        registers = {} if lookahead is None else {"LOOKAHEAD": lookahead}
        result = check_against_golden(TestedDevice(board, registers=registers), job)
    return job, {name: int(value or 0) for name, value in result.counters.items()}


def epoch_cycles(job, lookahead):
    """Cycles of an epoch with an ideal memory, without corrections, as docs/pipeline.md says."""
    config, beats = job.config, job.beats
    pitch = max(beats, config.recursion)
    group = max((lookahead + 1) * pitch, config.latency + beats - 1)    # of lookahead + 1 rows
    rows = ceil_div(job.n_rows + lookahead + 1, lookahead + 1) * group
    model = beats * config.model_lanes // 2
    return rows + config.latency + model + PER_EPOCH


def label_words(job):
    return job.labels.nbytes // 8


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.name)
@pytest.mark.parametrize("label_format", LabelFormat)
@pytest.mark.parametrize("extra", [{}, {"warm": True}, {"correction_period": 20},
                                   {"warm": True, "correction_period": 60, "copies": 2}])
def test_beats_and_bytes_are_exact(config, label_format, extra):
    n_features = config.lanes + 1 if label_format else 1
    job, counters = train(config, n_features=n_features, n_rows=37, epochs=3,
                          label_format=label_format, memory={"stall_probability": 0.2}, **extra)
    model_bytes = 4 * config.model_words(job.n_features)
    assert counters["beats"] == 3 * 37 * job.beats
    assert counters["bytes_read"] == (
        3 * (37 * job.beats * config.beat_bytes + 8 + 8 * label_words(job))
        + model_bytes * (("warm" in extra) + ("correction_period" in extra)))
    assert counters["saturations"] == counters["refetched_rows"] == 0


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.name)
@pytest.mark.parametrize("beats", [1, 2, 3])
def test_cycles_with_an_ideal_memory(config, beats):
    n_features = min(beats * config.lanes, config.capacity)
    for lookahead in allowed_lookahead(config, config.beats(n_features)):
        job, counters = train(config, n_features=n_features, n_rows=200, epochs=2,
                              lookahead=lookahead)
        assert counters["cycles"] <= 2 * epoch_cycles(job, lookahead) + AHEAD + job.beats


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.name)
@pytest.mark.parametrize("options", [
    {}, {"batch": 3}, {"batch": 50}, {"correction_period": 10}, {"correction_period": 100},
    {"memory": {"memory_gbps": 0.2}}, {"memory": {"stall_probability": 0.5}}], ids=str)
def test_every_cycle_has_one_cause(config, options):
    job, counters = train(config, n_features=config.lanes + 1, n_rows=200, epochs=3, **options)
    named = sum(counters[name] for name in ("beats", "flush", "model_io", *STALLS))
    assert named <= counters["cycles"] <= named + AHEAD + 3 * PER_EPOCH
    assert counters["model_io"] >= 3 * (job.beats * config.model_lanes // 2 + 1)


CONFIG = CONFIGS[2]         # recursion 3, look-ahead as needed


def test_rows_never_wait_for_updates_with_enough_look_ahead():
    for n_features in (1, CONFIG.lanes, CONFIG.capacity):
        job, counters = train(CONFIG, n_features=n_features, n_rows=300, epochs=1)
        assert counters["stall_lookahead"] == 0
        assert counters["stall_recursion"] <= max(CONFIG.recursion - job.beats, 0) * 300
        assert counters["stall_recursion"] >= max(CONFIG.recursion - job.beats, 0) * 299
        assert counters["stall_correction"] == 0


@pytest.mark.parametrize("name, options", [
    ("stall_lookahead", {"lookahead": 0}),
    ("stall_recursion", {"n_features": 1}),
    ("stall_rows", {"memory": {"memory_gbps": 0.1}}),
    ("stall_correction", {"correction_period": 5}),
    ("flush", {"n_rows": 1}),
])
def test_most_stalls_have_the_cause_that_was_made(name, options):
    _, counters = train(CONFIG, **{"n_features": CONFIG.capacity, "n_rows": 300, "epochs": 1,
                                   **options})
    causes = {cause: counters[cause] for cause in (*STALLS, "flush")}
    if name == "stall_correction":      # short periods are flushed, too
        del causes["flush"]
    assert max(causes, key=causes.__getitem__) == name


def test_batches_cost_nothing():
    counters = [train(CONFIG, n_features=20, n_rows=200, batch=batch)[1]
                for batch in (1, 2, 7, 300)]
    assert len({counter["cycles"] for counter in counters}) == 1


def test_counters_start_at_zero_in_each_run():
    job = random_job(CONFIG, n_features=20, n_rows=30)
    with open_board(CONFIG, memory_latency=1) as board:
        first, second = (check_against_golden(board, job).counters for _ in range(2))
    assert first == second
