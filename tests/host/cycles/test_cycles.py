"""Counters of the cycle model, worked out by hand from docs/pipeline.md."""

import dataclasses
import pickle
import time

import numpy as np
import pytest
from fakes import make_job

from bitstep.cycles import Memory, OpenRows, count_epochs, run
from bitstep.cycles.refetching import ACTIVE, BY_CODES, INACTIVE, PackedOpenRows
from bitstep.cycles.run import RunClock
from bitstep.cycles.shape import Shape, shape_of
from bitstep.cycles.streams.ample import AmpleStreams
from bitstep.cycles.streams.simulated import SimulatedStreams
from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.registers import LabelFormat, Loss
from bitstep.pipeline.results import COUNTER_NAMES
from bitstep_sim.testing.bit_plane_jobs import random_bit_plane_job

CONFIG = PipelineConfig(bits=8, max_features=64)      # 8 values a beat, latency 13
PROXIMAL = dataclasses.replace(CONFIG, proximal=True)
REFETCH = dataclasses.replace(CONFIG, refetch=True)
SLOW = Memory(60, 3.5)
NOTHING = OpenRows(np.array([], int), np.array([], int))


def job_of(config=CONFIG, *, n_features=8, n_rows=100, **changes):
    """A job of zeros: only its sizes count."""
    if "cell_half_levels" in changes:
        changes |= {"fine_rows": np.zeros((n_rows, n_features), np.int16), "loss": Loss.HINGE}
    if "loss" in changes:
        changes["label_format"] = LabelFormat.SIGN
    labels = np.ones(n_rows, int)
    return make_job(np.zeros((n_rows, n_features), int), labels, bits=config.bits, config=config,
                    **changes)


def tall(job, n_rows):
    """The job with so many rows, which nobody can read: they are one row."""
    copy = object.__new__(type(job))        # labels are not checked
    for field in dataclasses.fields(job):
        object.__setattr__(copy, field.name, getattr(job, field.name))
    row = np.broadcast_to(job.rows[0][0], (n_rows, job.rows[0].shape[1]))
    object.__setattr__(copy, "rows", (row,))
    return copy


def count(job, memory=None, **options) -> dict[str, int]:
    """Counters of a run; -1 for one that the model does not know."""
    counters, _ = count_epochs(job, memory, **options)
    return {name: -1 if value is None else value for name, value in counters.items()}


def differences(first, second):
    """Counters of two runs that differ, first less second."""
    return {name: first[name] - second[name] for name in first if first[name] != second[name]}


def test_an_epoch_of_rows_of_one_beat():
    """Cycle by cycle, from the start; a burst's first beat comes 24 cycles after its block is
    offered: latency 20, and 4 in the reader.

    ===========  =======================================================================
    0, 1         check of the registers; the product of 100 rows and 1 beat takes a bit
    2            model cleared; rows offered, which come in cycle 26
    3            model loaded; then the table's block is offered
    4 to 29      table, whose two words come in cycles 28 and 29
    30           start
    31           first row waits for its label, which takes 2 cycles from the start
    32 to 230    100 rows, 2 cycles apart
    231 to 257   flush: 7 rows without data, 2 cycles apart, and the latency of 13
    258          verdict
    259 to 288   model: 5 words, 4 cycles on their way, the latency; known a cycle later
    289 to 352   end: nothing may move for 64 cycles
    ===========  =======================================================================
    """
    assert count(job_of()) == dict.fromkeys(COUNTER_NAMES, 0) | {
        "cycles": 353, "beats": 100, "bytes_read": 8 * (100 + 2 + 25), "stall_labels": 1,
        "stall_recursion": 99, "flush": 27, "model_io": 1 + 26 + 30}


def test_a_second_epoch_finds_everything_in_the_queues():
    """Table 2, start 1, label 1, rows 199, flush 27, verdict 1, model 30."""
    once, twice = count(job_of()), count(job_of(epochs=2))
    assert differences(twice, once) == {
        "cycles": 261, "beats": 100, "bytes_read": 8 * (100 + 2 + 25), "stall_labels": 1,
        "stall_recursion": 99, "flush": 27, "model_io": 2 + 30}


def test_rows_longer_than_the_latency_enter_at_full_rate():
    """Look-ahead 1. A 5-bit number of beats is checked from cycle 0 to 5, the model cleared until
    25. The table was offered in cycle 8 and comes in 32 and 33, after 7 cycles.
    """
    config = PipelineConfig(bits=8, max_features=160)
    counters = count(job_of(config, n_features=160))
    assert counters["beats"] == 2000
    assert counters["flush"] == 2 * 20 + 13
    assert counters["model_io"] == 20 + 7 + (81 + 4 + 20 + 1)
    assert not any(counters[name] for name in counters if name.startswith("stall"))


def test_without_look_ahead_a_row_takes_its_beats_and_the_latency():
    counters = count(job_of(), lookahead=0)
    assert counters["stall_recursion"] == 99
    assert counters["stall_lookahead"] == 99 * (13 - 1 - 1)
    assert counters["flush"] == 13 + 13


def test_short_rows_of_the_logistic_pipeline():
    """Rows of 2 beats end 6 cycles apart, so 4 are waited for; latency 5 + 2 + 2 + 7, D 2. From the
    fourth row on, 3 of the 4 are for the update of the row 3 before, which comes 16 - 12 cycles
    after the last slot of the row before. The first row comes 7 cycles later for its dither, when
    its label is there.
    """
    config = PipelineConfig(bits=8, max_features=64, loss_family="logistic", update_interval=6)
    counters = count(job_of(config, n_features=16, loss=Loss.LOGISTIC, label_shift=20))
    assert config.latency == 16
    assert counters["stall_recursion"] == 2 * 4 + 97
    assert counters["stall_lookahead"] == 97 * 3
    assert counters["stall_labels"] == 0
    assert counters["flush"] == 3 * 6 + 16
    # Cycles 0 to 31 up to the start, a bit of the check more than for rows of one beat.
    assert counters["cycles"] == 32 + 7 + 2 + 99 * 6 + 34 + 1 + (9 + 4 + 20 + 1) + 64


def test_loads_of_a_model_and_of_coefficients():
    """The model's 5 words come from cycle 26 on, 24 after they were offered; the coefficients in
    32 to 36, the table in 37 and 38. Without both, the table is there in cycle 29.
    """
    cold = count(job_of())
    warm = count(job_of(model=np.ones(8, np.int32), correction_period=1000))
    assert differences(warm, cold) == {
        "cycles": 38 - 29, "bytes_read": 80, "model_io": 29 + 5 + 2 - 27}


def test_corrections_fill_short_periods_and_wait_for_the_engine():
    """A period of one row: 6 rows without data, then the correction of what the last one sampled,
    22 cycles: a beat of 8 words takes 4 cycles of a walk, and 18 before and after.
    """
    counters = count(job_of(n_rows=3, correction_period=1))
    assert counters["stall_correction"] == 2 * 15
    # The engine begins with the last of the rows without data; two cycles each.
    assert counters["flush"] == 2 * 12 + 27
    assert counters["stall_recursion"] == 0


def test_a_proximal_step():
    """7 rows without data, the latency, 2 cycles a pair of words and one more a beat."""
    step = 14 + 13 + 2 * 4 + 1
    without = count(job_of(PROXIMAL))
    every_ten = count(job_of(PROXIMAL, proximal_period=10))
    assert every_ten["flush"] == 10 * step
    # After a step a row needs no distance from the one before.
    assert differences(every_ten, without) == {
        "cycles": 10 * step - 27 - 9, "flush": 10 * step - 27, "stall_recursion": -9}


def test_rows_that_are_fetched_without_look_ahead():
    """pairs + beats + 6 cycles for an inactive row, 3 pairs + 2 beats + 6 for an active one, and
    the memory: 25 cycles from the request to the first pair in place of 2.
    """
    job = job_of(REFETCH, cell_half_levels=1)
    none = count(job, open_rows=[NOTHING], lookahead=0)
    some = count(job, open_rows=[OpenRows(np.array([3, 50]), np.array([INACTIVE, ACTIVE]))],
                        lookahead=0)
    cycles = (4 + 1 + 6 + 23 + 1) + (3 * 4 + 2 + 6 + 23 + 1)    # the request's cycle counts, too
    assert differences(some, none) == {"cycles": cycles, "stall_refetch": cycles,
                                       "bytes_read": 2 * 16, "refetched_rows": 2}


def test_a_row_that_comes_again():
    """Cycles from the last slot of the row on.

    ========  ============================================================================
    2 to 12   6 rows enter in vain, 2 cycles apart
    13        the row is left open
    14 to 26  7 rows without data
    39        every row is through; the queues go back
    41        the row enters alone, for the queues take 2 cycles
    54        its codes decide it
    55        the row after it enters, which would have done so in cycle 2
    ========  ============================================================================
    """
    job = job_of(REFETCH, cell_half_levels=1)
    none = count(job, open_rows=[NOTHING])
    once = count(job, open_rows=[OpenRows(np.array([50]), np.array([BY_CODES]))])
    assert differences(once, none) == {
        "cycles": 55 - 2, "stall_recursion": 6 - 1, "stall_refetch": 54 - 13 + 1}


@pytest.mark.parametrize("options", [{}, {"correction_period": 3}, {"correction_period": 64},
                                     {"proximal_period": 5}, {"label_format": LabelFormat.SIGN}])
@pytest.mark.parametrize("memory", [Memory(), Memory(60, 8.0)])
def test_steady_rows_are_multiplied(options, memory):
    """A million rows cost as much as a few thousand, and are as many times them."""
    job = job_of(PROXIMAL, **options)
    period = 3 * 5 * 1024
    first, second, third = (count(tall(job, n_rows), memory)
                            for n_rows in (period, 2 * period, 66 * period))
    changes = differences(second, first)
    assert differences(third, second) == {name: 64 * change for name, change in changes.items()}


def test_a_million_rows_take_milliseconds():
    job = tall(job_of(PipelineConfig(), n_features=256), 1_000_000)
    times = []
    for _ in range(5):
        run._known_run.cache_clear()
        start = time.process_time()     # a busy machine takes longer
        counters = count(job)
        times.append(time.process_time() - start)
    assert counters["beats"] == 16_000_000 < counters["cycles"] < 16_001_000
    assert min(times) < 0.005


@pytest.mark.covering(1)
@pytest.mark.parametrize("config", [CONFIG, PROXIMAL, REFETCH,
                                    PipelineConfig(bits=8, max_features=64, update_interval=4)],
                         ids=lambda config: config.name)
@pytest.mark.parametrize("seed", range(12))
def test_both_kinds_of_streams_agree(config, seed):
    """Where a memory keeps nothing waiting, its simulation finds the same."""
    rng = np.random.default_rng(seed)
    n_rows = int(rng.integers(1, 200 if seed % 2 else 20))
    job = job_of(config, n_features=int(rng.integers(1, 65)), n_rows=n_rows,
                 epochs=int(rng.integers(1, 9)), correction_period=seed % 5)
    shape = dataclasses.replace(Shape.of(job, config, None), warm=seed % 2 == 0)
    events = [[]] * shape.epochs
    if config.refetch:
        events = [[(int(row), int(rng.integers(0, 3))) for row in np.flatnonzero(
            rng.random(n_rows) < 0.1)] for _ in events]
    latency = int(rng.choice([1, 2, 5, 20, 32]))
    results = []
    for streams in (AmpleStreams(shape, latency), SimulatedStreams(shape, Memory(latency))):
        clock = RunClock(shape, streams)
        clock.run(shape.epochs, False, events if config.refetch else None)
        results.append((clock.counters(0), clock.ends))
    assert results[0] == results[1]


def test_jobs_of_the_same_shape_are_counted_once(monkeypatch):
    """Classes of a model have one shape; nobody changes the counters of another."""
    run._known_run.cache_clear()
    first, ends = count_epochs(job_of(n_rows=77, epochs=2))
    expected = dict(first)
    first["cycles"] = 0
    ends.clear()
    monkeypatch.setattr(run, "RunClock", None)
    again, ends = count_epochs(job_of(n_rows=77, epochs=2))
    assert again == expected
    assert len(ends) == 2
    with pytest.raises(TypeError):              # another shape is counted
        count_epochs(job_of(n_rows=77, epochs=3))


def test_finished_epochs_of_a_longer_run():
    job = job_of(epochs=5)
    assert count(job, epochs=2) == count(job_of(epochs=2))
    assert count(job, epochs=0)["beats"] == 0


@pytest.mark.parametrize("latency", [1, 2, 20])
def test_every_epoch_after_the_first_takes_as_long(latency):
    """Table 2, start 1, 31 rows of 5 beats, 4 rows without data and 13, verdict 1, model 21 + 5.

    With a near memory the rows of a run are there before its table.
    """
    cycles = [count(job_of(n_features=40, n_rows=31, epochs=epochs), Memory(latency))["cycles"]
              for epochs in (1, 2, 3, 20)]
    epoch = 2 + 1 + 31 * 5 + (4 * 5 + 13) + 1 + 21 + 5 + latency
    assert [more - cycles[0] for more in cycles] == [0, epoch, 2 * epoch, 19 * epoch]


def test_a_run_that_left_the_range():
    """Its last epoch is read whole, not written; the row reader has the next one's rows under way,
    which are thrown away.
    """
    job = job_of(epochs=3)
    counters = count(job, epochs=1, overflowed=True)
    whole = count(job_of(epochs=2))
    assert counters["beats"] == 200
    assert counters["overflows"] == -1
    assert counters["model_io"] == whole["model_io"] - 30
    assert whole["bytes_read"] < counters["bytes_read"] <= whole["bytes_read"] + 8 * (100 + 27)


def test_every_cycle_with_a_narrow_memory_has_a_cause():
    counters = count(job_of(n_features=64, n_rows=3000), SLOW)
    named = sum(counters[name] for name in counters if name.startswith("stall"))
    named += counters["beats"] + counters["flush"] + counters["model_io"]
    assert 0 <= counters["cycles"] - named < 80
    assert counters["stall_rows"] > counters["beats"]
    assert counters["cycles"] == pytest.approx(counters["bytes_read"] / 3.5, rel=0.02)


@pytest.mark.parametrize("options, message", [
    ({"epochs": 3}, "epochs must be from 0 to 2, not 3"),
    ({"epochs": 2, "overflowed": True}, "epochs must be from 0 to 1, not 2"),
    ({"epochs": -1}, "epochs must be from 0 to 2, not -1")])
def test_epochs_that_the_job_does_not_have(options, message):
    with pytest.raises(ValueError, match=message):
        count_epochs(job_of(epochs=2), **options)


def test_open_rows_are_needed_for_every_epoch():
    job = job_of(REFETCH, cell_half_levels=1, epochs=2)
    with pytest.raises(ValueError, match="an entry for each of 2 epochs, not 1"):
        count_epochs(job, open_rows=[NOTHING])
    with pytest.raises(ValueError, match="the same length"):
        OpenRows(np.zeros(2, int), np.zeros(3, int))


@pytest.mark.parametrize("rows, outcomes", [
    ([], []), ([0], [ACTIVE]), ([7, 8, 16], [INACTIVE, BY_CODES, ACTIVE]),
    (list(range(64)), [BY_CODES, INACTIVE, ACTIVE, ACTIVE] * 16), ([70_001], [BY_CODES])])
def test_packed_open_rows_are_the_open_ones(rows, outcomes):
    opened = OpenRows(np.array(rows, int), np.array(outcomes, int))
    packed = PackedOpenRows(opened)
    assert list(packed) == list(packed) == list(opened) == list(zip(rows, outcomes, strict=True))


def test_rows_that_are_fetched_again_are_counted_once_and_when_asked(monkeypatch):
    """Pickled before, the copy counts; afterwards it holds the numbers alone."""
    job = job_of(REFETCH, cell_half_levels=1)
    opened = [OpenRows(np.array([3, 50]), np.array([INACTIVE, ACTIVE]))]
    expected, runs = count_epochs(job, open_rows=opened), []
    plain = RunClock.run
    monkeypatch.setattr(RunClock, "run", lambda *arguments: runs.append(1) or plain(*arguments))
    count = run.counting(job, open_rows=opened)
    before = pickle.dumps(count)
    assert not runs
    assert count() == count() == expected
    after = pickle.dumps(count)
    assert len(runs) == 1
    assert b"PackedOpenRows" in before
    assert b"PackedOpenRows" not in after
    for copy in (before, after):
        assert pickle.loads(copy)() == expected
    assert len(runs) == 2


@pytest.mark.parametrize("numbers, message", [
    ((0, None), "latency must be at least 1 cycle, not 0"),
    ((1, 0.0), "bandwidth must be above 0 bytes per cycle, not 0.0")])
def test_memories_that_there_are_not(numbers, message):
    with pytest.raises(ValueError, match=message):
        Memory(*numbers)


def test_every_number_of_epochs_is_counted_once():
    """A checkpoint asks after every epoch, in the training of every class."""
    job = job_of(n_rows=20)
    job = dataclasses.replace(job, epochs=job.epochs[:1] * 60)
    run._known_run.cache_clear()
    for _ in range(2):
        for epochs in range(1, 61):
            count_epochs(job, epochs=epochs)
    assert run._known_run.cache_info().misses == 60


def test_sizes_that_are_kept_are_those_of_the_run():
    """A model that is not zeros is loaded, and another pipeline takes other cycles."""
    job = make_job(np.ones((20, 3), int), np.ones(20, int))
    again = job.again(np.full_like(job.model, 5), 3, job.epochs)
    fresh = dataclasses.replace(again)
    slower = dataclasses.replace(job.config, update_interval=4)
    cold, warm = count_epochs(job), count_epochs(again)
    assert cold != warm
    assert warm == count_epochs(fresh)
    assert count_epochs(job, config=slower) == count_epochs(dataclasses.replace(job), config=slower)
    assert count_epochs(job) == cold


def test_a_run_is_warm_if_any_of_its_models_is():
    config = PipelineConfig(bits=8, max_features=64, models=2)
    cold = job_of(config)
    for warm in (dataclasses.replace(cold, model=np.ones(8, np.int32)),
                 dataclasses.replace(cold, intercept=-1)):
        assert Shape.of(cold, config, None, [warm]).warm
        assert shape_of(warm, config, None).warm
    assert not Shape.of(cold, config, None, [cold]).warm


def test_shapes_that_a_job_keeps_are_of_each_kind_of_run():
    """A gradient, one that writes derivatives, and epochs; cold and warm; on each pipeline."""
    config = PipelineConfig(bits=16, row_format="bit_planes", max_features=64)
    job = random_bit_plane_job(config, n_features=8, n_rows=40, model=np.zeros(8, np.int32),
                               intercept=0)
    warm = job.again(np.ones(8, np.int32), 0, job.epochs)
    kinds = [{}, {"gradient": True}, {"gradient": True, "derivatives": True}]
    for pipeline in (config, dataclasses.replace(config, update_interval=4), config):
        for kind in kinds:
            for one in (job, warm):
                assert shape_of(one, pipeline, None, **kind) == Shape.of(one, pipeline, None,
                                                                         **kind)
    assert warm.shapes is job.shapes


def test_a_gradient_has_no_corrections_and_proximal_steps():
    """And takes longer for the finer sigmoid, unless it writes derivatives."""
    config = PipelineConfig(bits=16, row_format="bit_planes", max_features=64, proximal=True,
                            loss_family="logistic", update_interval=6)
    job = random_bit_plane_job(config, n_features=8, n_rows=40, loss=Loss.LOGISTIC,
                               correction_period=2, proximal_period=4)
    epochs, gradient, derivatives = (
        Shape.of(job, config, None, gradient=one, derivatives=other)
        for one, other in ((False, False), (True, False), (True, True)))
    assert (epochs.correction_period, epochs.proximal_period) == (2, 4)
    for one in (gradient, derivatives):
        assert (one.correction_period, one.proximal_period) == (0, 0)
    assert epochs.latency == derivatives.latency == config.latency < gradient.latency


@pytest.mark.parametrize("memory", [Memory(), Memory(60, 3.5), Memory(7, 9.0)])
@pytest.mark.parametrize("copies", [1, 2, 3])
def test_epochs_that_are_skipped_are_counted_as_if_they_were_not(memory, copies):
    """All ends of epochs, and all counters; open rows, if only none, keep them from being skipped.
    """
    job = job_of(n_rows=37, epochs=40)
    job = dataclasses.replace(job, rows=(*job.rows,) + (job.rows[0].copy(),) * (copies - 1))
    shape, found = Shape.of(job, CONFIG, None), []
    for open_rows in (None, [()] * 40):
        streams = AmpleStreams(shape, memory.latency) if memory.is_ample(8) \
            else SimulatedStreams(shape, memory)
        clock = RunClock(shape, streams)
        clock.run(40, False, open_rows)
        assert len(clock.ends) == 40
        found.append((clock.ends, clock.counters(0)))
    assert found[0] == found[1]
