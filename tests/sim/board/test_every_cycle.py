"""Batches whose rows enter one beat a cycle: golden's models, the cycle model's counters."""

import dataclasses
import itertools

import numpy as np
import pytest
from drawn_jobs import EVERY_CYCLE, allowed_lookahead, losses
from simulated import TestedDevice, check_models, golden, open_board

from bitstep.cycles import count_epochs
from bitstep.devices.cpu.device import CpuDevice
from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.registers import LabelFormat
from bitstep.pipeline.results import BadConfigurationError, DeviceError
from bitstep_sim.testing.random_jobs import random_job, random_jobs

BATCHES = [1, 2, 4, 16]
LINEAR = EVERY_CYCLE[0]
# Widths, buses and encodings; look-ahead that some rows wait for, and none; what goes with it.
MORE = [
    PipelineConfig(bits=1, bus_width=128, row_ports=2, max_features=300, lookahead=17,
                   update_interval=1),
    PipelineConfig(bits=2, row_format="two_levels", max_features=90, lookahead=4,
                   update_interval=1, proximal=True),
    PipelineConfig(bits=3, max_features=60, lookahead=16, update_interval=1, codebooks=True,
                   row_weights=True, proximal=True),
    PipelineConfig(bits=5, bus_width=256, row_ports=2, max_features=200, lookahead=16,
                   update_interval=1, corrections=False),
    PipelineConfig(bits=6, row_format="two_levels", max_features=50, lookahead=0,
                   update_interval=1, loss_family="logistic"),
    PipelineConfig(bits=7, bus_width=512, max_features=200, lookahead=17, update_interval=1),
    PipelineConfig(bits=1, bus_width=128, row_ports=2, max_features=300, lookahead=17,
                   update_interval=1, batch_lookahead=9),
    PipelineConfig(bits=2, row_format="two_levels", max_features=90, lookahead=10,
                   update_interval=1, batch_lookahead=4, proximal=True),
    PipelineConfig(bits=3, max_features=60, lookahead=16, update_interval=1, batch_lookahead=3,
                   codebooks=True, row_weights=True, proximal=True),
    PipelineConfig(bits=4, max_features=60, lookahead=15, update_interval=1, batch_lookahead=5,
                   models=3, proximal=True),
    PipelineConfig(bits=7, bus_width=512, max_features=200, lookahead=17, update_interval=1,
                   batch_lookahead=9, corrections=False),
    # Rows with weights that look ahead, of few lanes and of many.
    PipelineConfig(bits=8, max_features=60, lookahead=15, update_interval=1, batch_lookahead=1,
                   models=2, row_weights=True, proximal=True),
    PipelineConfig(bits=4, max_features=60, lookahead=15, update_interval=1, batch_lookahead=7,
                   codebooks=True, models=2, row_weights=True),
    PipelineConfig(bits=6, row_format="two_levels", max_features=50, lookahead=15,
                   update_interval=1, batch_lookahead=2, corrections=False, row_weights=True),
    PipelineConfig(bits=2, max_features=90, lookahead=16, update_interval=1, batch_lookahead=4,
                   row_weights=True),
    PipelineConfig(bits=1, max_features=200, lookahead=17, update_interval=1, batch_lookahead=3,
                   row_weights=True),
    PipelineConfig(bits=4, max_features=60, lookahead=15, update_interval=1, models=3,
                   proximal=True),
    PipelineConfig(bits=8, max_features=60, lookahead=21, update_interval=1, model_bits=6,
                   rounded_updates=True, proximal=True),
    PipelineConfig(bits=4, max_features=60, lookahead=23, update_interval=1, rounded_updates=True,
                   loss_family="logistic"),
    PipelineConfig(bits=32, row_format="float32", max_features=7, lookahead=14, update_interval=1,
                   proximal=True, row_weights=True),
    PipelineConfig(bits=32, row_format="float32", bus_width=512, max_features=40, lookahead=19,
                   update_interval=1, loss_family="logistic", models=2),
]


@pytest.fixture(scope="module", params=EVERY_CYCLE, ids=lambda config: config.name)
def board(request):
    with open_board(request.param) as device:
        yield device


def job_of(config, **options):
    """A job of a loss that the pipeline has."""
    return random_job(config, **{"loss": losses(config)[0], "speed": 0.1, **options})


def draw(config, rng):
    """Options of a random job, at the sizes where a beat, a batch or the look-ahead ends."""
    lanes = config.rows.lanes
    n_features = int(rng.choice([n for n in (
        1, lanes - 1, lanes, lanes + 1, 2 * lanes, 3 * lanes + 1, config.rows.capacity,
        rng.integers(1, config.rows.capacity + 1)) if 1 <= n <= config.rows.capacity]))
    d = config.ahead.of_rows(config.rows.beats(n_features))
    batch = int(rng.choice([1, 2, 3, 4, max(d, 1), d + 1, d + 2, 2 * d + 3, 16, 64,
                            rng.integers(5, 21)]))
    n_rows = int(rng.choice([1, 2, batch, batch + 1, 2 * batch, 3 * batch - 1, 7 * batch + 2]))
    return {
        "n_features": n_features, "n_rows": max(n_rows, 1), "batch": batch,
        "correction_period": batch * int(rng.integers(0, 4)) * config.corrections,
        "proximal_period": batch * int(rng.integers(0, 3)) * config.proximal,
        "model_bits": int(rng.integers(2, config.model_bits + 1)) if config.model_bits else 0,
        "update_bits": int(rng.choice([0, *range(2, 17)])) if config.rounded_updates else 0,
        "weighted": bool(config.row_weights and rng.integers(2)),
        "seed": int(rng.integers(1 << 30)), "epochs": int(rng.integers(1, 4)), "speed": 0.3,
        "label_format": rng.choice(list(LabelFormat)), "copies": int(rng.integers(1, 3)),
        "intercept": bool(rng.integers(2)), "warm": bool(rng.integers(2))}


def stays_in_range(jobs):
    return not any(epoch.overflow for job in jobs for epoch in golden(job))


def check_many(board, seed, count):
    """Draw jobs until ``count`` of them stayed in range."""
    config, rng, done = board.config, np.random.default_rng(seed), 0
    while done < count:
        options = draw(config, rng)
        loss = losses(config)[int(rng.integers(len(losses(config))))]
        if config.models > 1:
            options = {name: value for name, value in options.items()
                       if name not in ("speed", "model_bits", "update_bits")}
            jobs, lookahead = random_jobs(config, config.models, loss=loss, **options), None
        else:
            jobs = [random_job(config, loss=loss, **options)]
            allowed = allowed_lookahead(config, jobs[0].beats)
            lookahead = int(rng.choice(allowed)) if rng.random() < 0.3 else None
        if stays_in_range(jobs):
            check_models(board, jobs, lookahead=lookahead)
            done += 1


@pytest.mark.parametrize("count", [30, pytest.param(80, marks=pytest.mark.slow)])
def test_drawn_jobs(board, count):
    check_many(board, 0, count)


@pytest.mark.parametrize("beats, batch", list(itertools.product([1, 2, 3, 5], BATCHES)))
def test_tails_and_second_runs(board, beats, batch):
    """Epochs that end at every place of a batch, one run after the other."""
    config = board.config
    n_features = min(beats * config.rows.lanes, config.rows.capacity) - 1
    for n_rows in {1, batch, batch + 1, 3 * batch - 1, 3 * batch, 3 * batch + 1}:
        job = job_of(config, n_features=n_features, n_rows=n_rows, batch=batch, epochs=2,
                     warm=True, correction_period=2 * batch, seed=n_rows)
        check_models(board, [job])


def test_cycles_of_a_batch(board):
    """Those of its beats, and of the rows without data until its last update is there: whole rows.
    None where it is quicker that every row waits.
    """
    config = board.config
    longest = config.rows.max_beats
    for beats, batch in itertools.product([1, 2, 4, longest], [1, 2, 4, 16, 64]):
        n_features, n_rows = beats * config.rows.lanes, 2 * max(batch, 16)
        jobs = [job_of(config, n_features=n_features, n_rows=rows, batch=batch, epochs=1)
                for rows in (n_rows, 2 * n_rows)]
        short, long = (check_models(board, [job])[0].counters["cycles"] for job in jobs)
        more = (long - short) * batch // n_rows - batch * beats     # cycles more of a batch
        wait = config.latency - 1
        between = wait
        if config.batch_lookahead:      # until the updates of all rows before meet products
            between = {"linear": 9, "logistic": 13}[config.loss_family] - beats
        assert more == min(batch * wait, max(-(-between // beats), 0) * beats)


def test_models_and_cycles_of_cpu(board):
    job = job_of(board.config, n_features=min(30, board.config.rows.capacity), n_rows=100, batch=16,
                 correction_period=32, epochs=2)
    found, result = CpuDevice(board.config).train(job), board.train(job)
    assert found.counters == result.counters
    np.testing.assert_array_equal(found.models, result.models)
    assert found.intercepts.tolist() == result.intercepts.tolist()


def test_models_of_other_pipelines(board):
    """Whatever the update interval, a job has one result; a floating-point one has it if it is not
    for a look-ahead. Batches of 16 take fewer cycles here; of 8, with the logistic loss, they do
    not.
    """
    config = board.config
    other = dataclasses.replace(config, update_interval={"linear": 2, "logistic": 6}[
        config.loss_family], lookahead=2, batch_lookahead=0)
    if config.row_format == "float32":
        with pytest.raises(DeviceError, match=r"look-ahead of 2 rows, .* has a look-ahead of 0 "):
            board.train(job_of(other, n_features=2, n_rows=9))
        other = dataclasses.replace(other, lookahead=0)
    few, job = (job_of(other, n_features=min(30, config.rows.capacity), n_rows=70, batch=batch,
                       warm=True) for batch in (8, 16))
    check_models(board, [few, job])
    faster, slower = (count_epochs(job, config=one)[0]["cycles"] for one in (config, other))
    assert isinstance(faster, int)
    assert isinstance(slower, int)
    assert faster < slower


def test_a_period_that_ends_in_a_batch_is_refused(board):
    job = job_of(board.config, n_features=7, n_rows=50, batch=4, correction_period=8)
    for period in (2, 6, 9):
        with pytest.raises(BadConfigurationError, match="refused its registers"):
            TestedDevice(board, registers={"CORRECTION_PERIOD": period}).train(job)
    check_models(board, [job])


@pytest.mark.slow
@pytest.mark.parametrize("config", MORE, ids=lambda config: config.name)
def test_more_pipelines(config):
    with open_board(config) as device:
        check_many(device, 1, 120)
