"""Counters and cycles of runs on the simulated board."""

import pytest
from drawn_jobs import CONFIGS, FLOAT, LOGISTIC, REFETCH, allowed_lookahead
from simulated import TestedDevice, check_against_golden, lookahead_registers, open_board

from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.parts.widths import ceil_div
from bitstep.pipeline.registers import LabelFormat, Loss
from bitstep_sim.testing.random_jobs import random_job

STALLS = ("stall_rows", "stall_labels", "stall_lookahead", "stall_recursion", "stall_correction",
          "stall_refetch")
AHEAD = 60          # cycles of a run that no counter names: checks, first data, the end
PER_EPOCH = 40      # of an epoch: its table entry, its first labels, the model's last words


def train(config, *, lookahead=None, memory=None, **options):
    """Job and counters of a run."""
    job = random_job(config, **options)
    with open_board(config, **(memory or {"memory_latency": 1})) as board:
        registers = {} if lookahead is None else lookahead_registers(job, lookahead)
        result = check_against_golden(TestedDevice(board, registers=registers), job)
    return job, {name: int(value or 0) for name, value in result.counters.items()}


def epoch_cycles(job, lookahead):
    """Cycles of an epoch with an ideal memory, without corrections, as docs/pipeline.md says."""
    config, beats = job.config, job.beats
    pitch = max(beats, config.update_interval)
    group = max((lookahead + 1) * pitch, config.latency + beats - 1)    # of lookahead + 1 rows
    rows = ceil_div(job.n_rows + lookahead + 1, lookahead + 1) * group
    model = beats * config.rows.model_lanes // 2
    return rows + config.latency + model + PER_EPOCH


def label_words(job):
    return job.labels.nbytes // 8


@pytest.mark.by_day(6)
@pytest.mark.covering(2)
@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.name)
@pytest.mark.parametrize("label_format", LabelFormat)
@pytest.mark.parametrize("extra", [{}, {"warm": True}, {"correction_period": 20},
                                   {"warm": True, "correction_period": 60, "copies": 2}])
def test_beats_and_bytes_are_exact(config, label_format, extra):
    n_features = config.rows.lanes + 1 if label_format else 1
    job, counters = train(config, n_features=n_features, n_rows=37, epochs=3,
                          label_format=label_format, memory={"stall_probability": 0.2}, **extra)
    model_bytes = 4 * config.rows.model_words(job.n_features)
    assert counters["beats"] == 3 * 37 * job.beats
    assert counters["bytes_read"] == (
        3 * (37 * job.beats * config.rows.beat_bytes + 16 + 8 * label_words(job))
        + model_bytes * (("warm" in extra) + ("correction_period" in extra)))
    assert counters["overflows"] == counters["refetched_rows"] == 0
    assert counters["stall_refetch"] == 0


@pytest.mark.covering(1)
@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.name)
@pytest.mark.parametrize("beats", [1, 2, 3])
def test_cycles_with_an_ideal_memory(config, beats):
    n_features = min(beats * config.rows.lanes, config.rows.capacity)
    for lookahead in allowed_lookahead(config, config.rows.beats(n_features)):
        job, counters = train(config, n_features=n_features, n_rows=200, epochs=2,
                              lookahead=lookahead)
        assert counters["cycles"] <= 2 * epoch_cycles(job, lookahead) + AHEAD + job.beats


@pytest.mark.covering(1)
@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.name)
@pytest.mark.parametrize("options", [
    {}, {"batch": 3}, {"batch": 50}, {"correction_period": 10}, {"correction_period": 100},
    {"memory": {"memory_gbps": 0.2}}, {"memory": {"stall_probability": 0.5}}], ids=str)
def test_every_cycle_has_one_cause(config, options):
    job, counters = train(config, n_features=config.rows.lanes + 1, n_rows=200, epochs=3, **options)
    named = sum(counters[name] for name in ("beats", "flush", "model_io", *STALLS))
    assert named <= counters["cycles"] <= named + AHEAD + 3 * PER_EPOCH
    assert counters["model_io"] >= 3 * (job.beats * config.rows.model_lanes // 2 + 1)


HINGE = {"loss": Loss.HINGE, "warm": True, "n_features": 24}


@pytest.mark.by_day(5)
@pytest.mark.parametrize("config, options", [
    (REFETCH, {**HINGE, "cell_half_levels": 1}),
    (REFETCH, {**HINGE, "cell_half_levels": 4, "lookahead": 0}),
    (REFETCH, {**HINGE, "cell_half_levels": 2, "correction_period": 7, "proximal_period": 5}),
    (REFETCH, {**HINGE, "cell_half_levels": 1, "memory": {"stall_probability": 0.5}}),
    (REFETCH, {**HINGE, "proximal_period": 3, "batch": 3}),
    (FLOAT, {"n_features": 5, "proximal_period": 50}), (FLOAT, {"n_features": 1, "batch": 4}),
    (LOGISTIC, {"n_features": 20, "loss": Loss.LOGISTIC}),
    (LOGISTIC, {"n_features": 48, "loss": Loss.LOGISTIC, "correction_period": 10})],
    ids=lambda value: value.name if isinstance(value, PipelineConfig) else str(value))
def test_cycles_have_a_cause_with_losses_and_steps(config, options):
    """With look-ahead and refetching, beats that enter a second time are in no counter, and those
    of a row begun before it had to wait are counted as a beat and as waiting.
    """
    job, counters = train(config, n_rows=200, epochs=3, **options)
    named = sum(counters[name] for name in ("beats", "flush", "model_io", *STALLS))
    assert named <= counters["cycles"] + job.beats * counters["refetched_rows"]
    again = 0
    if job.cell_half_levels and options.get("lookahead") != 0:
        again = 3 * job.n_rows * (job.lookahead + 1) * job.beats    # every row, once
    assert counters["cycles"] <= named + again + AHEAD + 3 * PER_EPOCH
    assert (counters["stall_refetch"] > 0) == (job.cell_half_levels > 0)


@pytest.mark.parametrize("lookahead", [0, 1, None])
def test_bytes_of_fine_rows(lookahead):
    """A row that is fetched again moves its 16-bit values and its part of a second pass; the beats
    that only come out of the queue again move nothing.
    """
    job, counters = train(REFETCH, n_rows=150, epochs=2, lookahead=lookahead, cell_half_levels=1,
                          memory={"stall_probability": 0.2}, **HINGE)
    assert counters["refetched_rows"] > 20
    assert counters["bytes_read"] == (
        2 * (150 * job.beats * 8 + 16 + 8 * label_words(job))
        + counters["refetched_rows"] * 2 * REFETCH.rows.fine_words(job.n_features)
        + 4 * REFETCH.rows.model_words(job.n_features))


def test_refetching_is_the_cause_of_waiting():
    """Without rows that are fetched again nothing waits; with them, more than for all else."""
    few = train(REFETCH, n_rows=300, epochs=1, **HINGE)[1]
    many = train(REFETCH, n_rows=300, epochs=1, cell_half_levels=4, **HINGE)[1]
    assert few["stall_refetch"] == few["refetched_rows"] == 0
    assert max(STALLS, key=many.__getitem__) == "stall_refetch"
    assert many["stall_refetch"] >= 10 * many["refetched_rows"] > 0


CONFIG = CONFIGS[5]         # 2 cycles per update, look-ahead as needed


def test_rows_never_wait_for_updates_with_enough_look_ahead():
    for n_features in (1, CONFIG.rows.lanes, CONFIG.rows.capacity):
        job, counters = train(CONFIG, n_features=n_features, n_rows=300, epochs=1)
        assert counters["stall_lookahead"] == 0
        assert counters["stall_recursion"] <= max(CONFIG.update_interval - job.beats, 0) * 300
        assert counters["stall_recursion"] >= max(CONFIG.update_interval - job.beats, 0) * 299
        assert counters["stall_correction"] == 0


@pytest.mark.parametrize("name, options", [
    ("stall_lookahead", {"lookahead": 0}),
    ("stall_recursion", {"n_features": 1}),
    ("stall_rows", {"memory": {"memory_gbps": 0.1}}),
    ("stall_correction", {"correction_period": 5}),
    ("flush", {"n_rows": 1}),
])
def test_most_stalls_have_the_cause_that_was_made(name, options):
    _, counters = train(CONFIG, **{"n_features": CONFIG.rows.capacity, "n_rows": 300, "epochs": 1,
                                   **options})
    causes = {cause: counters[cause] for cause in (*STALLS, "flush")}
    if name == "stall_correction":      # short periods are flushed, too
        del causes["flush"]
    assert max(causes, key=causes.__getitem__) == name


def test_rows_of_a_far_memory_come_at_full_rate():
    """Bursts under way cover a latency of 200 cycles, so only the first beat is waited for."""
    config, latency = CONFIGS[5], 200
    _, counters = train(config, n_features=80, n_rows=400, epochs=1,
                        memory={"memory_latency": latency})
    assert counters["beats"] == 400 * config.rows.max_beats > 10 * latency
    assert counters["stall_rows"] < 1.5 * latency


def test_batches_cost_nothing():
    counters = [train(CONFIG, n_features=20, n_rows=200, batch=batch)[1]
                for batch in (1, 2, 7, 300)]
    assert len({counter["cycles"] for counter in counters}) == 1


def test_counters_start_at_zero_in_each_run():
    job = random_job(CONFIG, n_features=20, n_rows=30)
    with open_board(CONFIG, memory_latency=1) as board:
        first, second = (check_against_golden(board, job).counters for _ in range(2))
    assert first == second
