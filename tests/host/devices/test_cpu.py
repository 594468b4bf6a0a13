"""The native device against the golden model: every model, intercept, counter and ending."""

import dataclasses
import os
import pickle
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import bitstep
from bitstep.devices.golden import GoldenDevice
from bitstep.golden.dither import dithers
from bitstep.golden.sigmoid import sigmoid
from bitstep.golden.steps import MAX_DERIVATIVE_STEP, Overflowed, derivative_step, update_rule
from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.job import EpochSteps
from bitstep.pipeline.levels import decode
from bitstep.pipeline.memory import pack_codes, pack_floats, pack_labels
from bitstep.pipeline.parts.widths import BUS_WIDTHS
from bitstep.pipeline.registers import LabelFormat, Loss, Overflow
from bitstep.pipeline.results import (
    Ends,
    RangeOverflowError,
    RunTimeoutError,
    TrainingInterrupted,
)
from bitstep.quantization import quantize_bit_planes
from bitstep_sim.testing.random_jobs import random_job

pytest.importorskip("numba", reason="the native device needs numba")

from bitstep.devices.cpu import arithmetic, decoding, portions, words
from bitstep.devices.cpu.codes import DecodedRows
from bitstep.devices.cpu.device import CpuDevice
from bitstep.devices.cpu.numbers import rule_of
from bitstep_sim.testing.kernels import for_python

FEW_BITS = st.sampled_from([0, 2, 3, 5, 8, 15, 16])     # of the model and of updates
LINEAR = (Loss.LEAST_SQUARES, Loss.SQUARED_HINGE, Loss.HINGE, Loss.HUBER)
FORMATS = [("one_level", bits) for bits in range(1, 9)] \
    + [("two_levels", bits) for bits in range(2, 9)] + [("float32", 32)]


def outcome(kind, job):
    """Result of a job, and the epoch and reason of its overflow."""
    try:
        return kind(job.config).train(job), None
    except RangeOverflowError as error:
        return error.result, (error.epoch, error.overflow)


def compare(job):
    expected, ending = outcome(GoldenDevice, job)
    result, own_ending = outcome(CpuDevice, job)
    assert own_ending == ending
    assert np.array_equal(result.models, expected.models)
    assert np.array_equal(result.intercepts, expected.intercepts)
    known = {name: value for name, value in expected.counters.items() if value is not None}
    assert {name: result.counters[name] for name in known} == known
    return ending


@st.composite
def jobs(draw):
    """A job of any kind; one in some overflows."""
    row_format, bits = draw(st.sampled_from(FORMATS))
    solver = draw(st.sampled_from(["linear", "linear", "logistic"]))
    n_features = draw(st.one_of(st.sampled_from([1, 7, 8, 9, 31, 32, 33, 64]),
                                st.integers(1, 200)))
    batch = draw(st.sampled_from([1, 1, 2, 3, 16]))
    cell = 0
    if row_format == "one_level" and solver == "linear" and draw(st.booleans()):
        cell, batch = draw(st.integers(1, 2)) * (2 if bits == 1 else 1), 1
    tables = row_format == "one_level" and bits <= 5 and not cell and draw(st.booleans())
    config = PipelineConfig(
        bits=bits, row_format=row_format, codebooks=tables,
        bus_width=draw(st.sampled_from(BUS_WIDTHS)),
        max_features=n_features, loss_family=solver,
        update_interval=6 if solver == "logistic" else 2,
        lookahead=draw(st.integers(0, 8)), proximal=True, refetch=cell > 0)
    beats = config.rows.beats(n_features)
    least = config.ahead.of_rows(beats) + 1 if row_format == "float32" else 1
    periods = st.integers(0, 5).map(lambda count: count and batch * (count + least))
    proximal_period = draw(periods)
    # Proximal steps are made for updates that fit.
    speeds = [0.5, 0.5, 4.0] if proximal_period else [0.5, 4.0, 1e3, 1e6]
    loss = Loss.LOGISTIC if solver == "logistic" else Loss.HINGE if cell else \
        draw(st.sampled_from(LINEAR))
    job = random_job(
        config, n_features=n_features, n_rows=draw(st.integers(1, 50)), loss=loss, batch=batch,
        seed=draw(st.integers(0, 1 << 30)), epochs=draw(st.integers(1, 3)),
        correction_period=draw(periods), proximal_period=proximal_period, cell_half_levels=cell,
        label_format=draw(st.sampled_from(list(LabelFormat))), copies=draw(st.integers(1, 3)),
        intercept=draw(st.booleans()), warm=draw(st.booleans()),
        speed=draw(st.sampled_from(speeds)))
    if cell or row_format == "float32" or draw(st.booleans()):
        return job
    return dataclasses.replace(job, model_bits=draw(FEW_BITS), update_bits=draw(FEW_BITS))


@settings(max_examples=200,
          suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(jobs())
def test_any_job(job):
    compare(job)


@pytest.mark.covering(1)
@pytest.mark.parametrize("row_format, bits", FORMATS)
@pytest.mark.parametrize("n_features, batch, period", [(256, 64, 64), (256, 256, 256), (4096, 1, 7),
                                                       (4095, 64, 128), (1000, 1, 0)])
def test_sizes_that_users_have(row_format, bits, n_features, batch, period):
    config = PipelineConfig(bits=bits, row_format=row_format, bus_width=512, max_features=4096,
                            lookahead=2)
    job = random_job(config, n_features=n_features, n_rows=300, batch=batch, seed=n_features + bits,
                     correction_period=period, epochs=2, speed=0.2)
    assert compare(job) is None


@pytest.mark.covering(1)
@pytest.mark.parametrize("bits", range(1, 6))
@pytest.mark.parametrize("n_features, batch", [(256, 256), (4095, 64), (1000, 1)])
def test_tables_of_levels(bits, n_features, batch):
    config = PipelineConfig(bits=bits, max_features=4096, lookahead=2, codebooks=True)
    job = random_job(config, n_features=n_features, n_rows=300, batch=batch, seed=bits, epochs=2,
                     correction_period=2 * batch, speed=0.2)
    assert compare(job) is None


@pytest.mark.parametrize("n_rows, n_features, threads, least", [
    (40_000, 1000, 8, 16), (40_000, 1000, 1, 3), (1_000_000, 100, 2, 16), (5000, 100, 8, 1),
    (7, 3, 8, 1)])
def test_shares_of_rows(n_rows, n_features, threads, least):
    """Several for each thread if rows suffice; all rows, each once, from multiples of 8 on."""
    job: Any = SimpleNamespace(n_rows=n_rows, n_features=n_features)
    found = list(portions.shares(job, threads))
    assert least <= len(found) <= 2 * least
    assert [first for first, _ in found] == np.cumsum([0, *(n for _, n in found[:-1])]).tolist()
    assert sum(n for _, n in found) == n_rows
    assert not any(first % 8 for first, _ in found)


@pytest.mark.parametrize("row_format, bits", FORMATS)
def test_more_rows_than_a_portion(row_format, bits, monkeypatch):
    monkeypatch.setattr(portions, "PORTION_ROWS", 24)
    config = PipelineConfig(bits=bits, row_format=row_format, max_features=24, proximal=True)
    for label_format in LabelFormat:
        compare(random_job(config, n_features=21, n_rows=1003, batch=5, correction_period=35,
                           proximal_period=20, label_format=label_format, seed=bits))


@pytest.mark.parametrize("bits, cell", [(1, 2), (1, 4), (2, 1), (4, 2), (8, 1), (8, 2)])
@pytest.mark.parametrize("n_features", [256, 1000])
def test_refetching_of_many_rows(bits, cell, n_features):
    config = PipelineConfig(bits=bits, max_features=n_features, lookahead=3, refetch=True)
    job = random_job(config, n_features=n_features, n_rows=400, loss=Loss.HINGE,
                     cell_half_levels=cell, seed=bits, speed=0.1)
    compare(job)
    fetched = CpuDevice(config).train(job).counters["refetched_rows"]
    assert fetched is not None
    assert fetched < 800
    assert fetched > 0 or bits == 8         # a row of 8 bits is hardly ever undecided


def extreme_job(row_format, bits, sign, loss, n_features=1024):
    """The largest levels against the largest words: every sum at the end of its range."""
    config = PipelineConfig(bits=bits, row_format=row_format, bus_width=512, max_features=1024,
                            lookahead=3,
                            loss_family="logistic" if loss == Loss.LOGISTIC else "linear",
                            update_interval=6 if loss == Loss.LOGISTIC else 2)
    job = random_job(config, n_features=n_features, n_rows=12, seed=bits, loss=loss, epochs=2,
                     label_format=LabelFormat.SIGN)
    if row_format == "float32":
        rows = pack_floats(np.full((12, n_features), sign, np.float32), 512)
    else:
        level = np.arange(1 << bits, dtype=np.uint8)
        dots, _ = decode(level, bits=bits, row_format=row_format)
        code = level[dots.argmax() if sign > 0 else dots.argmin()]
        rows = pack_codes(np.full((12, n_features), code, np.uint8), bits, 512)
    limit = (1 << 31) - 1
    return dataclasses.replace(
        job, rows=(rows,), model=np.full(n_features, limit, np.int32), intercept=-limit,
        labels=pack_labels(np.ones(12, np.int64), LabelFormat.SIGN),
        label_shift=config.rows.max_label_shift - 4,
        epochs=tuple(EpochSteps(mantissa, 7, key=bits) for mantissa in (1, (1 << 18) - 1)))


@pytest.mark.covering(2)
@pytest.mark.parametrize("row_format, bits", FORMATS)
@pytest.mark.parametrize("sign", [-1, 1])
@pytest.mark.parametrize("loss", Loss)
def test_sums_at_the_ends_of_their_ranges(row_format, bits, sign, loss):
    compare(extreme_job(row_format, bits, sign, loss))


@pytest.mark.parametrize("row_format, bits", [("one_level", 4), ("two_levels", 5), ("float32", 32)])
@pytest.mark.parametrize("sign", [-1, 1])
def test_words_at_the_ends_of_their_range(row_format, bits, sign):
    """A word that just fits, and one that just does not, moved outwards by the same updates."""
    job = extreme_job(row_format, bits, 1, Loss.LEAST_SQUARES, n_features=2)
    job = dataclasses.replace(
        job, labels=pack_labels(np.full(12, sign), LabelFormat.SIGN), intercept=0,
        label_shift=24 + (22 if row_format == "float32" else 0),
        epochs=(EpochSteps(1 << 14, 3 + 3 * (row_format == "float32")),))

    def start(size):        # their dot product is 0, so updates follow the label
        return dataclasses.replace(job, model=np.array([sign * size, -sign * size], np.int32))
    fits, too_large = 0, (1 << 31) - 1
    assert compare(start(fits)) is None
    assert compare(start(too_large)) == (1, Overflow.MODEL)
    while too_large - fits > 1:
        middle = (fits + too_large) // 2
        fits, too_large = (fits, middle) if compare(start(middle)) else (middle, too_large)
    assert fits > 1 << 30


def test_derivative_step_that_does_not_fit():
    config = PipelineConfig(bits=4, max_features=8)
    job = random_job(config, n_features=8, n_rows=5, loss=Loss.HINGE)
    steps = (EpochSteps(1, 7), EpochSteps(1 << 17, 1))
    job = dataclasses.replace(job, label_shift=38, epochs=steps)
    assert derivative_step(job, job.epochs[1]) >= MAX_DERIVATIVE_STEP
    assert compare(job) == (2, Overflow.UPDATE)


def test_rows_mapped_from_a_file(tmp_path):
    config = PipelineConfig(bits=3, max_features=100)
    job = random_job(config, n_features=100, n_rows=64)
    np.save(tmp_path / "rows.npy", job.rows[0])
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    compare(dataclasses.replace(job, rows=(mapped,)))


def test_second_run_is_as_the_first():
    config = PipelineConfig(bits=4, max_features=40, lookahead=3)
    native = CpuDevice(config)
    job = random_job(config, n_features=33, n_rows=65, epochs=3, correction_period=3)
    first = native.train(job).models
    with pytest.raises(RangeOverflowError):
        native.train(random_job(config, n_features=40, n_rows=20, speed=1e9, correction_period=2))
    assert np.array_equal(native.train(job).models, first)


@given(st.integers(0, 2**32 - 1), st.integers(0, 1 << 20), st.integers(1, 40))
def test_dithers(key, block, n_rows):
    own = np.empty(n_rows, np.int64)
    arithmetic.fill_dithers(key, 4 * block, own)
    if block < 1 << 12:
        assert np.array_equal(own, dithers(key, 4 * block + n_rows)[4 * block:])
    assert own.min() >= 0
    assert own.max() < 1 << 16


@given(st.integers(-(1 << 17), 1 << 17))
def test_sigmoid(argument):
    assert for_python(arithmetic.sigmoid)(argument) == sigmoid(argument)


WIDE = st.one_of(st.integers(-(1 << 75), 1 << 75), st.integers(-(1 << 40), 1 << 40))


@given(st.sampled_from(LINEAR), WIDE, st.integers(-(1 << 62), 1 << 62), st.integers(0, 2**16 - 1),
       st.integers(0, (1 << 18) - 1), st.integers(1, 7), FEW_BITS)
@example(Loss.HINGE, 1 << 30, 1 << 30, 0, 1, 1, 0)
@example(Loss.SQUARED_HINGE, -(1 << 30), -(1 << 30), 0, 1, 1, 0)
def test_updates_of_wide_dot_products(loss, value, target, dither, mantissa, shift, bits):
    job = random_job(PipelineConfig(bits=4, max_features=8), n_features=8, n_rows=1, loss=loss)
    job = dataclasses.replace(job, update_bits=bits)
    steps = EpochSteps(mantissa, shift)
    if derivative_step(job, steps) >= MAX_DERIVATIVE_STEP:
        return
    rule = rule_of(job, steps)
    own = for_python(arithmetic.update_of)(rule, value >> 24, value & (1 << 24) - 1, target, dither)
    try:
        expected = update_rule(job, steps)(value, target, dither)
    except Overflowed:
        expected = arithmetic.TOO_LARGE
    assert own == expected


@given(st.integers(-(1 << 31), (1 << 31) - 1), st.integers(-(1 << 17), (1 << 17) - 1),
       st.integers(0, (1 << 18) - 1), st.integers(1, 7))
def test_correction(word, coefficient, mantissa, shift):
    exact = word * coefficient * mantissa
    expected = exact + (1 << 8 * shift - 1) >> 8 * shift
    assert for_python(words.correction)(word, coefficient * mantissa, 8 * shift) == expected


@pytest.mark.covering(1)
@pytest.mark.parametrize("row_format, bits", FORMATS[:-1])
@pytest.mark.parametrize("bus_width", BUS_WIDTHS)
def test_levels_of_every_code_in_every_place(row_format, bits, bus_width):
    decode_row = for_python(decoding.decode_row)
    config = PipelineConfig(bits=bits, row_format=row_format, bus_width=bus_width,
                            max_features=4096)
    codes = np.random.default_rng(bits).permutation(np.arange(1100) % (1 << bits))
    for n_features in (1, 7, 8, config.rows.lanes, config.rows.lanes + 1, 1100):
        rows = pack_codes(codes[None, :n_features].astype(np.uint8), bits, bus_width)
        shape = decoding.row_format(config, n_features)
        levels = np.full(decoding.padded(n_features), 99, np.int8)
        for use, level in enumerate((shape.dot, shape.gradient)):
            decode_row(rows, 0, shape, level, decoding.byte_tables(config)[use], levels)
            expected = decode(codes[:n_features].astype(np.uint8), bits=bits,
                              row_format=row_format)[use]
            assert np.array_equal(levels[:n_features], expected)
            assert not levels[n_features:n_features + 8].any()


def test_time_limit():
    config = PipelineConfig(bits=4, max_features=40)
    with pytest.raises(RunTimeoutError, match="a portion of an epoch") as caught:
        CpuDevice(config).train(random_job(config, n_features=33, n_rows=65), timeout_s=1e-9)
    assert caught.value.result.epochs_done == 0


def test_interrupt_keeps_the_finished_epochs():
    config = PipelineConfig(bits=4, max_features=40)
    job = random_job(config, n_features=33, n_rows=65, epochs=5)

    def on_epoch(epochs_done):
        if epochs_done == 2:
            raise KeyboardInterrupt
    with pytest.raises(TrainingInterrupted) as caught:
        CpuDevice(config).train(job, on_epoch=on_epoch)
    expected = GoldenDevice(config).train(job).models[:2]
    assert np.array_equal(caught.value.result.models, expected)


def test_kernels_are_loaded_from_the_cache(tmp_path):
    """The second process compiles nothing, wherever the sources lie."""
    script = ("import numpy as np; from bitstep.devices.cpu import arithmetic as a; "
              "a.fill_dithers(1, 0, np.empty(4, np.int64)); "
              "print(len(a.fill_dithers.stats.cache_misses), a.__file__)")
    elsewhere = tmp_path / "elsewhere"
    shutil.copytree(Path(bitstep.__file__).parent, elsewhere / "bitstep",
                    ignore=shutil.ignore_patterns("__pycache__"))
    runs = [subprocess.run([sys.executable, "-c", script], capture_output=True, text=True,
                           check=True, env=os.environ | {
                               "XDG_CACHE_HOME": str(tmp_path / "cache"),
                               "PYTHONPATH": ":".join([*first, *sys.path])})
            for first in ([], [str(elsewhere)])]
    misses, files = zip(*(run.stdout.split() for run in runs), strict=True)
    assert misses == ("1", "0")
    assert [Path(file).is_relative_to(elsewhere) for file in files] == [False, True]


def test_threads_share_decoded_rows():
    """Workers of Dask have a device for all of their threads."""
    rows = [quantize_bit_planes(np.random.default_rng(number).random((40, 3))).stored
            for number in range(8)]
    decoded, failed = DecodedRows(), []

    def work(first):
        try:
            for turn in range(1500):
                stored = rows[(3 * turn + first) % len(rows)]
                job: Any = SimpleNamespace(rows=stored, n_rows=40, n_features=3)
                decoded.kept(job, 0)
        except RuntimeError as error:
            failed.append(error)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work, args=(first,)) for first in range(4)]
        for one in threads:
            one.start()
        for one in threads:
            one.join(60)
    finally:
        sys.setswitchinterval(interval)
    assert not failed


def test_a_training_counts_no_cycles_unless_asked(monkeypatch):
    """Counting rows that are fetched again takes ten times as long as training on them."""
    from bitstep import LowPrecisionClassifier
    from bitstep.cycles.run import RunClock

    def count(*arguments):
        raise AssertionError(f"nobody asked for cycles of {arguments}")

    features = np.random.default_rng(0).uniform(-1, 1, size=(60, 3))
    svm = LowPrecisionClassifier(loss="hinge", bits=2, epochs=3, random_state=0)
    with monkeypatch.context() as patched:
        patched.setattr(RunClock, "run", count)
        svm.fit(features, features[:, 0] > 0.2)
        with pytest.raises(AssertionError, match="nobody asked"):
            dict(svm.counters_)
    assert (svm.counters_["refetched_rows"] or 0) > 0


def test_ends_of_epochs():
    asked = []
    ends = Ends(lambda: asked.append(1) or [5, 9, 20], 3)
    some = ends[1:]
    assert (len(ends), len(some), len(ends[:0]), asked) == (3, 2, 0, [])
    assert (ends[0], ends[-1], list(some), list(ends)) == (5, 20, [9, 20], [5, 9, 20])
    assert repr(some) == "[9, 20]"
    assert pickle.loads(pickle.dumps(ends)) == [5, 9, 20]
    assert asked == [1]


@pytest.mark.parametrize("options, message", [
    ({"memory_gbps": 1e-6},
     "memory_gbps must be None or a number between 0.01 and 1e\\+06, not 1e-06"),
    ({"clock_hz": 1e300}, "clock_hz must be a number between 0 and 1e\\+12, not 1e\\+300"),
    ({"memory_gbps": 1e300}, "memory_gbps must be None or a number between"),
    ({"clock_hz": "1e8"}, "clock_hz must be a number between 0 and 1e\\+12, not '1e8'"),
    ({"memory_gbps": "fast"}, "memory_gbps must be None or a number between .*, not 'fast'"),
    ({"memory_latency": 1.5}, "memory_latency must be an integer from 1 to 100000, not 1.5"),
    ({"memory_latency": 10 ** 7},
     "memory_latency must be an integer from 1 to 100000, not 10000000")])
def test_memory_that_takes_hours_to_count(options, message):
    with pytest.raises(ValueError, match=message):
        CpuDevice(PipelineConfig(), **options)
