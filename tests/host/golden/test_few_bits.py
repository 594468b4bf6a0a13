"""A model and updates of few bits: values worked out by hand, and means over all dithers."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from fakes import make_job, models, words

from bitstep.golden import rounded_model as rounding
from bitstep.golden.dither import epoch_key, round_dithered, round_floating
from bitstep.golden.rounded_model import model_exponent, rounded_model, word_dithers
from bitstep.golden.sgd import train
from bitstep.golden.threefry import threefry
from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.job import EpochSteps
from bitstep.pipeline.parts.formats import BIT_PLANES
from bitstep.pipeline.registers import LabelFormat, Loss, Overflow
from bitstep.pipeline.shapes import check_few_bits
from bitstep_sim.testing.random_jobs import random_job

HALF = 1 << 15          # the dither 1/2


def array(*values):
    return np.array(values, np.int64)


# By hand

@pytest.mark.parametrize("model, bits, exponent", [
    ((7, -3), 4, 0), ((-7,), 4, 0), ((8,), 4, 1), ((14, -14), 4, 1), ((15,), 4, 2), ((0, 0), 2, 0),
    ((1,), 2, 0), ((2,), 2, 1), ((3,), 2, 2), ((-2**31,), 2, 31), ((2**31 - 1,), 16, 17),
    ((2**31 - 2**16,), 16, 16), ((100, -57, 3), 4, 4)])
def test_exponent(model, bits, exponent):
    assert model_exponent(array(*model), bits) == exponent


@pytest.mark.parametrize("dither, expected", [
    # 6.25, -3.5625 and 0.1875 times 16; d = dither + 1/2 in units of 2^-16.
    (0, (96, -64, 0)), (0.5, (96, -64, 0)), (0.57, (96, -48, 0)), (0.76, (112, -48, 0)),
    (0.82, (112, -48, 16)), (0.999, (112, -48, 16))])
def test_rounded_model(monkeypatch, dither, expected):
    monkeypatch.setattr(rounding, "word_dithers",
                        lambda key, batch, n_features: np.full(n_features, int(dither * 2**16)))
    found = rounded_model(array(100, -57, 3), 4, key=0, batch=0)
    assert found.tolist() == list(expected)


def test_a_model_of_few_bits_stays():
    model = array(7, -6, 0)
    assert np.array_equal(rounded_model(model, 4, 5, 9), model)
    # Multiples of the power of two have no place to be rounded to either.
    assert np.array_equal(rounded_model(model << 20, 4, 5, 9), model << 20)


def test_the_largest_words():
    # 2^31 is beyond a model word, and the integer of 2 bits is 1 all the same.
    found = {rounded_model(array(2**31 - 1, -2**31), 2, key, 0)[0] for key in range(3)}
    assert found == {2**31}
    assert rounded_model(array(-2**31, 0), 2, 1, 0).tolist() == [-2**31, 0]


def test_dithers_of_words():
    # Four groups of 64 features are a block, whose counter has the number of the batch.
    found = word_dithers(77, 3, 600)
    for block in range(3):
        first, second = (int(word) for word in threefry((77, 2), (block, 3)))
        for group, word in enumerate((first & 0xFFFF, first >> 16, second & 0xFFFF, second >> 16)):
            start = 256 * block + 64 * group
            if start < 600:
                part = found[start:start + 64]
                assert part.tolist() == [(word + 40503 * j) % 2**16 for j in range(len(part))]
    assert not np.array_equal(found, word_dithers(77, 4, 600))
    assert not np.array_equal(found, word_dithers(78, 3, 600))


@pytest.mark.parametrize("value, bits, low, high, odds", [
    # 500 = 7.8125 * 64 is in 4 bits 7 or 8 times 64; -500 is -8 or -7 times 64.
    (500, 4, 448, 512, 0.8125), (-500, 4, -512, -448, 0.1875),
    # In 2 bits a power of two, the least integer -2 included.
    (500, 2, 256, 512, 244 / 256), (-5, 2, -8, -4, 0.75), (3, 2, 2, 4, 0.5), (-2, 2, -2, -2, 1),
    (-4, 3, -4, -4, 1), (4, 3, 4, 4, 1), (0, 2, 0, 0, 1), (12345, 16, 12345, 12345, 1)])
def test_updates(value, bits, low, high, odds):
    shift = 3
    found = [round_floating(value << shift, shift, dither, bits) for dither in range(1 << 16)]
    assert set(found) == {low, high}
    assert low == high or found.count(high) == odds * 2**16


def test_updates_below_one_are_as_without():
    for value in (1, -1, 100, -200, 255):
        for dither in (0, 1000, HALF, 65535):
            assert round_floating(value, 8, dither, 2) == round_dithered(value, 8, dither)


# Over all dithers

@pytest.mark.parametrize("exponent", [1, 7, 13, 16])
def test_words_are_right_on_average(monkeypatch, exponent):
    model = array(3 << exponent, (5 << exponent) // 3, -(7 << exponent) // 5, 1, -1, 0)
    monkeypatch.setattr(rounding, "model_exponent", lambda model, bits: exponent)
    total = np.zeros(len(model), np.int64)
    for dither in range(0, 1 << 16, 1 << 16 - min(exponent, 8)):
        # Dithers half a step apart have the mean of all of them if the words do not split a step.
        place = 1 << max(0, exponent - 8)
        monkeypatch.setattr(rounding, "word_dithers", lambda key, batch, n, dither=dither:
                            np.full(n, dither))
        total += rounded_model(model // place * place, 4, 0, 0)
    assert np.array_equal(total, (model // place * place) << min(exponent, 8))


def test_neighbours_are_rounded_apart():
    """Sums of words that are alike have less noise than with dithers of their own."""
    model = np.full(640, 1000, np.int64)
    model[0] = 7 << 11
    sums = [int(rounded_model(model, 4, key, 0)[1:].sum()) for key in range(400)]
    share = 1000 / 2048
    own = 639 * share * (1 - share) * 2048**2
    assert np.var(sums) < 0.6 * own
    assert abs(np.mean(sums) - 639 * 1000) < 4 * np.std(sums) / 20


# Training

def test_batches_meet_the_rounded_model(monkeypatch):
    # X = (100, -57) in 4 bits, rounded down: (96, -64). Step 64 / 256, labels 0:
    # row 1: z = 2 * 96 - 64 = 128, c = 32. Row 2: z = 96 + 64 = 160, c = 40.
    monkeypatch.setattr(rounding, "word_dithers", lambda key, batch, n: np.zeros(n, np.int64))
    job = make_job([[2, 1], [1, -1]], [0, 0], mantissa=64, batch=2, model_bits=4,
                   model=words(100, -57))
    assert models(job) == [([100 - 64 - 40, -57 - 32 + 40], 0)]
    # In batches of 1, row 2 meets (36, -89) rounded down, in 4 bits to multiples of 16:
    # (32, -96): z = 128, c = 32.
    assert models(replace(job, batch=1)) == [([36 - 32, -89 + 32], 0)]
    # An intercept is not rounded: z = 128 + 7 * 3 = 149 -> c = 37, then 160 + 21 -> 45.
    found = models(replace(job, intercept=3, intercept_level=7))
    assert found[0][1] == 3 - 7 * (37 + 45)


def test_numbers_of_batches(monkeypatch):
    asked = []
    monkeypatch.setattr(rounding, "word_dithers", lambda key, batch, n: asked.append(
        (key, batch)) or np.zeros(n, np.int64))
    job = make_job([[1, 1]] * 7, [0] * 7, batch=3, model_bits=2, model=words(1000, 3))
    models(replace(job, epochs=(EpochSteps(0, 1, key=5), EpochSteps(0, 1, key=6))))
    assert asked == [(5, 0), (5, 1), (5, 2), (6, 0), (6, 1), (6, 2)]


def test_updates_of_few_bits():
    # Row 1: z - t = -2000, v = -500: in 2 bits -2 * 256 or -1 * 256; key 0 has the dither 0.005.
    job = make_job([[1]], [500], mantissa=64, label_shift=2, update_bits=2)
    assert models(job) == [([512], 0)]
    # 4 bits: -500 is -8 or -7 times 64.
    assert models(replace(job, update_bits=4)) == [([512], 0)]
    assert models(replace(job, update_bits=10)) == [([500], 0)]


@pytest.mark.parametrize("loss", [Loss.LEAST_SQUARES, Loss.HINGE])
def test_an_update_that_rounds_out_of_range(loss):
    # v = 7 * 2^28: in 2 bits 2^30, or 2^31, which is beyond an update.
    label_format = LabelFormat.SIGN if loss == Loss.HINGE else LabelFormat.INT16
    job = make_job([[1]], [-1], loss=loss, mantissa=7 << 10, shift=1, label_shift=26,
                   label_format=label_format)
    assert models(job) == [([-7 << 28], 0)]
    endings = []
    for key in range(40):
        few = replace(job, update_bits=2, epochs=(replace(job.epochs[0], key=key),))
        epoch, = train(few)
        endings.append(epoch.overflow)
        assert epoch.overflow == Overflow.UPDATE or epoch.model.tolist() == [-1 << 30]
    assert 20 < endings.count(Overflow.UPDATE) < 40


@pytest.mark.parametrize("bits", [{"model_bits": 2}, {"update_bits": 2},
                                  {"model_bits": 3, "update_bits": 3}])
def test_the_mean_gradient_is_that_of_the_whole_model(bits):
    """Over many keys the mean change of a batch is that of least squares with all bits."""
    rng = np.random.default_rng(0)
    levels, labels = rng.integers(-7, 8, (16, 70)), rng.integers(-500, 500, 16)
    model = rng.integers(-2000, 2000, 70).astype(np.int32)
    job = make_job(levels, labels, mantissa=64, shift=1, label_shift=3, batch=16, model=model)
    residuals = levels @ model - labels * 8
    expected = -(residuals / 4) @ levels
    jobs = [replace(job, **bits, epochs=(replace(job.epochs[0], key=epoch_key(1, number)),))
            for number in range(300)]
    found = np.array([models(one)[0][0] for one in jobs]) - model
    error = found.std(axis=0) / len(jobs) ** 0.5
    far = np.abs(found.mean(axis=0) - expected) / error
    assert far.max() < 4.5
    assert np.mean(far ** 2) < 2
    assert np.abs(expected / error).max() > 15          # there is something to be found


# Checks

@pytest.mark.parametrize("options, text", [
    ({"model_bits": 1}, "model_bits must be an integer from 2 to 16, or 0 for all bits, not 1"),
    ({"update_bits": 17}, "update_bits must be an integer from 2 to 16, or 0 .* not 17"),
    ({"model_bits": True}, "model_bits must be an integer .* not True"),
    ({"model_bits": 4.0}, "model_bits must be an integer .* not 4.0")])
def test_bits_out_of_range(options, text):
    with pytest.raises(ValueError, match=text):
        make_job([[1]], [0], **options)


@pytest.mark.parametrize("bits", ["model_bits", "update_bits"])
def test_rows_that_have_none(bits):
    for config, options in [
            (PipelineConfig(bits=32, row_format="float32"), {}),
            (PipelineConfig(refetch=True), {"loss": Loss.HINGE, "cell_half_levels": 1})]:
        job = random_job(config, n_features=3, n_rows=4, epochs=1, seed=0, **options)
        with pytest.raises(ValueError, match="do not go together with"):
            replace(job, **{bits: 4})
    bit_planes = SimpleNamespace(config=PipelineConfig(bits=16, row_format=BIT_PLANES),
                                 cell_half_levels=0, few_bits=True,
                            **{"model_bits": 0, "update_bits": 0, bits: 2})
    with pytest.raises(ValueError, match=r"row format 'bit_planes': .* rows of 1 to 8"):
        check_few_bits(bit_planes)
