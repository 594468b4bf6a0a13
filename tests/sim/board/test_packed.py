"""Packed rows on the simulated board: models of golden, counters of the cycle model."""

import json
from dataclasses import replace

import numpy as np
import pytest
from drawn_jobs import PACKED as SEVERAL
from simulated import TestedDevice, check_ranges, compare, golden, open_board
from simulated import check_models as check

import bitstep
from bitstep.cli import main
from bitstep.cycles import Memory
from bitstep.golden.sgd import train
from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.memory import pack_labels
from bitstep.pipeline.parts.widths import MAX_SHIFT
from bitstep.pipeline.registers import OFFSETS, LabelFormat, Loss, Overflow
from bitstep.pipeline.results import (
    AbortedError,
    BadConfigurationError,
    DeviceError,
    RangeOverflowError,
)
from bitstep_sim.testing.random_jobs import random_job, random_jobs

NARROW = PipelineConfig(bits=8, max_features=1, lookahead=0, models=2, packed=True)
NINE = PipelineConfig(bits=8, max_features=8, lookahead=0, models=9, packed=True)
ONE = PipelineConfig(bits=1, max_features=16, lookahead=0, packed=True)
LOSSES = (Loss.LEAST_SQUARES, Loss.SQUARED_HINGE, Loss.HINGE, Loss.HUBER)
FORMATS = list(LabelFormat)


@pytest.fixture(scope="module")
def several():
    with open_board(SEVERAL) as device:
        yield device


@pytest.fixture(scope="module")
def one():
    with open_board(ONE) as device:
        yield device


def jobs_of(config, count, **options):
    """Random jobs whose steps and corrections differ, too."""
    jobs = random_jobs(config, count, speeds=[0.5, 0.2, 0.4, 0.1], **options)
    return [replace(job, epochs=tuple(
        replace(steps, correction_mantissa=(900 - 100 * (number % 5)) >> 8 * (number % 2),
                correction_shift=4 - number % 2) for steps in job.epochs))
        for number, job in enumerate(jobs)]


def drawn(config, rng, **options):
    """Random jobs for one run of a board, which stay in range."""
    while True:     # corrections at random can make words grow
        jobs = drawn_once(config, rng, **options)
        if not any(epoch.overflow for job in jobs for epoch in golden(job)):
            return jobs


def drawn_once(config, rng, **options):
    """Random jobs for one run of a board."""
    per_beat = config.rows.rows_per_beat
    batch = int(rng.choice([1, 2, 3, 5, 16, 64, 256])) if config.minibatch else 1
    chosen = {
        "n_features": int(rng.integers(1, config.max_features + 1)),
        "n_rows": int(rng.choice([1, 2, per_beat, per_beat + 1, 4 * per_beat - 1, 100, 333])),
        "batch": batch, "loss": LOSSES[rng.integers(4)], "label_format": FORMATS[rng.integers(3)],
        "correction_period": config.corrections * batch * int(rng.choice([0, 0, 1, 2, 16])),
        "epochs": int(rng.integers(1, 4)), "copies": int(rng.integers(1, 3)),
        "intercept": bool(rng.integers(2)), "warm": bool(rng.integers(2)),
        "shared_labels": bool(rng.integers(2)), "seed": int(rng.integers(1 << 30))} | options
    return jobs_of(config, int(rng.integers(1, config.models + 1)), **chosen)


@pytest.mark.slow       # of a board that no other test by day has
def test_models_of_one_feature_have_steps_of_their_own():
    """The shortest way from a row to its update leaves the largest derivative least time."""
    with open_board(NARROW) as board:
        for loss in (Loss.HINGE, Loss.HUBER):
            found = check(board, jobs_of(NARROW, 2, n_features=1, n_rows=33, loss=loss, seed=2))
            assert not np.array_equal(found[0].models, found[1].models)


@pytest.mark.parametrize("n_features", [1, 2, 3])
@pytest.mark.parametrize("n_rows", [1, 4, 5, 6, 101])
def test_rows_around_a_beat(several, n_features, n_rows):
    check(several, jobs_of(SEVERAL, 3, n_features=n_features, n_rows=n_rows, seed=n_rows))


@pytest.mark.parametrize("batch", [1, 2, 3, 5, 7, 16, 64, 256, 1000])
@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_batches(several, batch, count):
    n_rows = 301 if batch > 50 else 121
    check(several, jobs_of(SEVERAL, count, n_features=3, n_rows=n_rows, batch=batch, warm=True,
                           seed=batch, shared_labels=count == 2))


@pytest.mark.parametrize("batch, period", [(1, 1), (1, 4), (5, 5), (16, 32), (64, 64), (3, 300)])
def test_corrections(several, batch, period):
    check(several, jobs_of(SEVERAL, 3, n_features=3, n_rows=300, batch=batch,
                           correction_period=period, warm=True, epochs=3, seed=period))


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("batch", [1, 16])
def test_losses(several, loss, batch):
    check(several, jobs_of(SEVERAL, 3, n_features=3, n_rows=200, loss=loss, batch=batch))


def huber_jobs(labels, bound, word, **steps):
    """Jobs of one batch, so that all rows meet the same words, with labels as they are stored."""
    drawn = random_jobs(SEVERAL, 3, n_features=3, n_rows=len(labels), batch=len(labels),
                        loss=Loss.HUBER, label_format=LabelFormat.INT16)
    stored = pack_labels(np.array(labels), LabelFormat.INT16)
    return [replace(job, labels=stored, derivative_bound=bound, label_shift=0, intercept=0,
                    model=np.full(3, word, np.int32), epochs=tuple(
                        replace(entry, shift=1, **steps) for entry in job.epochs[:1]))
            for job in drawn]


def test_distances_at_the_bound(several):
    """An update of -78.125 is rounded down, the negative of 78.125 up: most dithers tell."""
    jobs = huber_jobs([99, 100, 101, -99, -100, -101] * 30, 100, 0, mantissa=200)
    check(several, jobs)
    wider = replace(jobs[0], derivative_bound=101)
    assert next(train(wider)).intercept != next(train(jobs[0])).intercept


def test_clipped_rows_are_never_out_of_range(several):
    """What least squares would give them does not fit 32 bits."""
    jobs = huber_jobs([0] * 20, 1000, 1 << 30, mantissa=256)
    check(several, jobs)
    beyond = [replace(job, loss=Loss.LEAST_SQUARES, derivative_bound=0) for job in jobs]
    assert next(train(beyond[0])).overflow == Overflow.UPDATE


@pytest.mark.parametrize("label_format", FORMATS)
@pytest.mark.parametrize("n_features, batch", [(1, 1), (15, 4), (16, 64), (16, 256)])
def test_one_model_of_one_bit(one, label_format, n_features, batch):
    check(one, [random_job(ONE, n_features=n_features, n_rows=300, batch=batch, epochs=3, copies=2,
                           label_format=label_format, correction_period=2 * batch, warm=True)])


@pytest.mark.by_day(8)
@pytest.mark.parametrize("seed", range(20))
def test_random_jobs(several, one, seed):
    rng = np.random.default_rng(seed)
    check(several, drawn(SEVERAL, rng))
    check(one, drawn(ONE, rng))


@pytest.mark.parametrize("options, memory", [
    ({"memory_latency": 200}, Memory(200)),
    ({"memory_gbps": 0.3}, Memory(20, 3.0))])
def test_counters_of_a_slow_memory(options, memory):
    rng = np.random.default_rng(5)
    with open_board(SEVERAL, **options) as board:
        for n_rows in (7, 333):
            check(board, drawn(SEVERAL, rng, n_rows=n_rows), memory=memory)


def test_memory_that_stalls_at_random():
    rng = np.random.default_rng(6)
    with open_board(SEVERAL, stall_probability=0.4) as board:
        for _ in range(6):
            jobs = drawn(SEVERAL, rng)
            for job, result in zip(jobs, board.train_models(jobs), strict=True):
                compare(result, list(train(job)))


@pytest.mark.parametrize("speeds", [[0.5, 300, 0.5], [300], [0.5, 0.5, 300]])
@pytest.mark.parametrize("batch", [1, 4])
def test_range_of_one_model_ends_no_other(several, speeds, batch):
    jobs = random_jobs(SEVERAL, 3, n_features=3, n_rows=61, epochs=6, speeds=speeds, batch=batch)
    check_ranges(several, jobs)
    check(several, random_jobs(SEVERAL, 3, n_features=3, n_rows=61, warm=True))


@pytest.mark.parametrize("count", [1, 2, 3])
def test_run_ends_with_its_last_model(several, count):
    """Also if the pipeline has more of them."""
    jobs = random_jobs(SEVERAL, count, n_features=3, n_rows=61, epochs=40, speeds=[300])
    assert all(isinstance(one, RangeOverflowError) for one in several.train_models(jobs))
    assert several.read(OFFSETS["EPOCHS_DONE"]) < 40


@pytest.mark.slow       # of a board that no other test by day has
def test_flags_of_a_ninth_model():
    """They have a register of their own, for a run that ends before its models are written."""
    with open_board(NINE) as board:
        for speeds in ([0.5] * 8 + [300], [300] * 9):
            jobs = random_jobs(NINE, 9, n_features=8, n_rows=61, epochs=4, speeds=speeds)
            found = board.train_models(jobs)
            for job, speed, outcome in zip(jobs, speeds, found, strict=True):
                assert isinstance(outcome, RangeOverflowError) == (speed == 300)
                if speed != 300:
                    compare(outcome, list(train(job)))
        check(board, jobs_of(NINE, 9, n_features=8, n_rows=61, batch=4, correction_period=8))


def leaving_job(config):
    """Job whose model leaves its range with the first row and comes back with the second."""
    job = random_job(config, n_features=1, n_rows=4, batch=4, epochs=1, intercept=False,
                     label_format=LabelFormat.INT16)
    codes = np.zeros_like(job.rows[0])
    codes[:, 0] = 1
    # The residuals are -2**21 and 2**21, and 2**31 twice.
    labels = np.array([(1 << 14) + 16, (1 << 14) - 16, 0, 0], "<i2").view(np.uint8)
    steps = replace(job.epochs[0], mantissa=1, shift=1)
    return replace(job, rows=(codes,), labels=labels, label_shift=17, epochs=(steps,),
                   model=np.array([(1 << 31) - 100], np.int32))


def test_word_that_leaves_its_range_within_a_beat_is_seen(several):
    job = leaving_job(SEVERAL)
    expected = list(train(job))
    assert expected[-1].overflow == Overflow.MODEL
    (found,) = several.train_models([job])
    assert isinstance(found, RangeOverflowError)
    assert found.overflow & Overflow.MODEL
    check(several, random_jobs(SEVERAL, 3, n_features=3, n_rows=61))


def test_correction_that_leaves_its_range(several):
    job = random_job(SEVERAL, n_features=3, n_rows=40, correction_period=4, epochs=1)
    steps = replace(job.epochs[0], correction_mantissa=(1 << 18) - 1, correction_shift=1)
    huge = replace(job, epochs=(steps,), model=np.full(3, 1 << 30, np.int32),
                   coefficients=np.full(3, 1 << 16, np.int32))
    fine = replace(job, epochs=(replace(job.epochs[0]),))
    found = several.train_models([fine, huge, fine])
    assert isinstance(found[1], RangeOverflowError)
    assert found[1].overflow & Overflow.CORRECTION
    compare(found[0], list(train(fine)))
    compare(found[2], list(train(fine)))


def test_last_period_asks_for_no_correction(several):
    """That of its words would not fit; the first one is that of zeros."""
    jobs = random_jobs(SEVERAL, 3, n_features=3, n_rows=40, correction_period=20, epochs=1)
    check(several, [replace(
        job, coefficients=np.full(3, 1 << 16, np.int32),
        epochs=(replace(job.epochs[0], correction_mantissa=(1 << 18) - 1, correction_shift=1),))
        for job in jobs])


@pytest.mark.parametrize("place", range(3))
def test_word_that_leaves_its_range_by_a_correction(several, place):
    """Which is that of the model that has it, whatever the updates of that row are."""
    jobs = random_jobs(SEVERAL, 3, n_features=3, n_rows=12, correction_period=4, epochs=1)
    steps = replace(jobs[place].epochs[0], mantissa=1, shift=MAX_SHIFT, correction_mantissa=1 << 8,
                    correction_shift=1)
    jobs[place] = replace(jobs[place], epochs=(steps,), coefficients=np.array([0, 1, 0], np.int32),
                          model=np.array([0, (1 << 31) - 100, 0], np.int32))
    assert list(train(jobs[place]))[-1].overflow == Overflow.MODEL
    for number, (job, found) in enumerate(zip(jobs, several.train_models(jobs), strict=True)):
        if number == place:
            assert isinstance(found, RangeOverflowError)
            assert found.overflow & Overflow.MODEL
        else:
            compare(found, list(train(job)))


def test_largest_shift_of_a_step(several):
    """Updates of -1, 0 and 1, which the dithers decide."""
    jobs = [replace(job, label_shift=SEVERAL.rows.dot_width - 2, epochs=tuple(
        replace(steps, mantissa=(1 << 18) - 1, shift=MAX_SHIFT) for steps in job.epochs))
        for job in random_jobs(SEVERAL, 3, n_features=3, n_rows=200,
                               label_format=LabelFormat.SIGN)]
    for result in check(several, jobs):
        assert 0 < np.abs(result.models).max() < 2000


def close_jobs(loss):
    """Jobs whose K is 2^31, although their dot products are so close to the labels that updates
    are small.
    """
    drawn = random_jobs(SEVERAL, 3, n_features=3, n_rows=60, intercept=False, loss=loss,
                        label_format=LabelFormat.SIGN)
    codes, positive = np.zeros_like(drawn[0].rows[0]), np.arange(60) % 3 == 0
    codes[:, 0] = np.where(positive, 1, -1 % (1 << SEVERAL.bits))       # a level of 1 or -1
    return [replace(
        job, rows=(codes,), label_shift=30, labels=pack_labels(2 * positive - 1, LabelFormat.SIGN),
        model=np.array([(1 << 30) + off, 5, 5], np.int32),
        epochs=tuple(replace(steps, mantissa=512, shift=1) for steps in job.epochs))
        for job, off in zip(drawn, (-1000, 1000, 0), strict=True)]


@pytest.mark.parametrize("loss", LOSSES)
def test_only_some_losses_take_the_derivative_step(several, loss):
    """One beyond its range ends no other training."""
    jobs = close_jobs(loss)
    if loss not in (Loss.HINGE, Loss.HUBER):
        check(several, jobs)
        return
    for job, found in zip(jobs, several.train_models(jobs), strict=True):
        assert list(train(job))[-1].overflow == Overflow.UPDATE
        assert isinstance(found, RangeOverflowError)
        assert found.overflow == Overflow.UPDATE


@pytest.mark.parametrize("cycles", [20, 60, 150, 400, 900])
def test_abort(several, cycles):
    jobs = random_jobs(SEVERAL, 3, n_features=3, n_rows=500, epochs=50, warm=True, batch=4,
                       correction_period=8)
    device = TestedDevice(several, during=lambda: device.write(0x20, 2), cycles=cycles)
    with pytest.raises(AbortedError):
        device.train_models(jobs)
    check(several, random_jobs(SEVERAL, 3, n_features=3, n_rows=60, correction_period=4, batch=2))


@pytest.mark.parametrize("changes", [
    {"MODELS": 4}, {"MODELS": 0}, {"BEATS_PER_ROW": 2}, {"LAST_LANES": 4}, {"LOOKAHEAD": 1},
    {"PROXIMAL_PERIOD": 8}, {"ROWS": (1 << 32) - 1}, {"BATCH": 3}])
def test_registers_that_the_pipeline_cannot_run(several, changes):
    jobs = random_jobs(SEVERAL, 2, n_features=3, n_rows=50, batch=4, correction_period=8)
    with pytest.raises(BadConfigurationError):
        TestedDevice(several, registers=changes).train_models(jobs)
    check(several, random_jobs(SEVERAL, 2, n_features=2, n_rows=50))


def test_jobs_of_an_ordinary_pipeline(several):
    ordinary = replace(SEVERAL, packed=False, models=1, max_features=64, proximal=True)
    jobs = random_jobs(ordinary, 3, n_features=3, n_rows=50, correction_period=4)
    for job, result in zip(jobs, several.train_models(jobs), strict=True):
        compare(result, list(train(job)))
    for wrong, text in ((random_job(ordinary, n_features=4, n_rows=5), "1 to 3 features"),
                        (random_job(ordinary, n_features=3, n_rows=8, proximal_period=4),
                         "no proximal steps")):
        with pytest.raises(DeviceError, match=text):
            several.train(wrong)


@pytest.mark.slow
@pytest.mark.parametrize("choices", [
    {"max_features": 8, "models": 12}, {"max_features": 7, "bits": 1},
    {"max_features": 64, "bits": 1, "models": 2},
    {"max_features": 5, "bits": 2, "row_format": "two_levels", "minibatch": False},
    {"max_features": 1, "bits": 8, "models": 16},
    {"max_features": 9, "bits": 3, "row_format": "two_levels", "models": 2, "bus_width": 128,
     "row_ports": 2},
    {"max_features": 8, "models": 4, "corrections": False},
    {"max_features": 8, "bus_width": 512, "models": 12, "row_ports": 4},
], ids=lambda choices: "-".join(f"{name}{value}" for name, value in choices.items()))
def test_other_pipelines(choices):
    config = PipelineConfig(lookahead=0, packed=True, **choices)
    rng = np.random.default_rng(7)
    with open_board(config) as board:
        for _ in range(40):
            check(board, drawn(config, rng))


def test_sweep_of_the_command_line(tmp_path, capsys):
    """The pipeline of ``SEVERAL``: three candidates in one pass, as on the device cpu."""
    rng = np.random.default_rng(8)
    features = rng.normal(size=(90, 3))
    data = tmp_path / "data.csv"
    np.savetxt(data, np.column_stack([features, features @ [1, 2, -1]]), delimiter=",",
               header="a,b,c,label", comments="")
    reports = []
    for device, options in (("cpu", []), ("cpu", ["--packed"]),
                            ("sim", ["--packed", "--models=3"])):
        report = tmp_path / "report.json"
        assert main(["train", str(data), "--device", device, "--epochs", "3", "--batch", "4",
                     "--sweep", "step=0.01,0.03,0.1", "--quiet", "--report", str(report),
                     *options]) == 0
        reports.append(json.loads(report.read_text()))
    assert "bitstep train" not in capsys.readouterr().err
    ordinary, packed, sim = reports
    assert ordinary["sweep"] == packed["sweep"] == sim["sweep"]
    assert ordinary["coef"] == packed["coef"] == sim["coef"]
    # What all candidates cost, whichever is the best: one pass here, each its own in the model.
    assert np.argmin([entry["train_loss"] for entry in sim["sweep"]]) != 0
    assert 0 < sim["counters"]["cycles"] < packed["counters"]["cycles"]
    assert packed["counters"]["beats"] == 3 * sim["counters"]["beats"]
    assert sim["config"]["pipeline"]["packed"]
    assert not ordinary["config"]["pipeline"]["packed"]


def test_estimators():
    """The pipeline of ``SEVERAL`` again: three targets in one pass, of a search, too."""
    clone = pytest.importorskip("sklearn.base").clone
    X = np.random.default_rng(8).normal(size=(90, 3))
    Y = X @ [[1, 2, -1], [0, 1, 3], [2, 2, 2]] + 1
    plain = bitstep.LowPrecisionRegressor(bits=4, batch=4, epochs=3, random_state=0, device="cpu")
    packed = clone(plain).set_params(device={"name": "sim", "packed": True, "models": 3})
    expected = plain.fit(X, Y)
    np.testing.assert_array_equal(packed.fit(X, Y).coef_, expected.coef_)
    assert packed.counters_["cycles"] < expected.counters_["cycles"]
    steps = [{"step": 0.01}, {"step": 0.03}, {"step": 0.1}]
    for found, alone in zip(packed.fit_candidates(X, Y[:, 0], steps),
                            plain.fit_candidates(X, Y[:, 0], steps), strict=True):
        np.testing.assert_array_equal(found.coef_, alone.coef_)


@pytest.mark.parametrize("parameters, n_features, text", [
    ({}, 3, "packed=True does not go together with loss='log_loss': the pipeline"),
    ({"loss": "hinge", "refetch": False}, 17, "4 bits, which are 68 bits, on a bus of 64"),
    ({"loss": "hinge", "refetch": True}, 3, "packed=True does not go together with refetch=True")])
def test_estimators_that_packed_rows_cannot_train(parameters, n_features, text):
    pytest.importorskip("sklearn")
    X = np.random.default_rng(8).normal(size=(90, n_features))
    given = {"bits": 4, "device": {"name": "sim", "packed": True}} | parameters
    model = bitstep.LowPrecisionClassifier(**given)
    with pytest.raises(ValueError, match=text):
        model.fit(X, X[:, 0] > 0)


@pytest.mark.parametrize("options, text", [
    (["--packed", "--bits=8", "--scaler=maxabs"], ""),
    (["--packed", "--models=17", "--device=sim"], "from 1 to 16")])
def test_wrong_options(tmp_path, capsys, options, text):
    data = tmp_path / "data.csv"
    np.savetxt(data, np.random.default_rng(9).normal(size=(30, 3)), delimiter=",")
    try:
        code = main(["train", str(data), "--device=cpu", "--epochs=1", "--quiet", *options])
    except SystemExit as ended:
        code = ended.code
    assert code == (2 if text else 0)
    assert text in capsys.readouterr().err
