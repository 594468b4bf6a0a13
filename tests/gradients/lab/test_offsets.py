"""Messages of codecs in bit-centred training over shards."""

import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("sklearn")
pytest.importorskip("numba")

from bitstep.data.dataset import DataError
from bitstep.pipeline.job import EpochSteps
from bitstep.pipeline.results import GradientSum
from bitstep.training.shards.shard import Sums
from bitstep_gradients import Key
from bitstep_gradients.lab import offsets
from bitstep_gradients.lab.offsets import CodedShards, coded_training, rows_of

FEATURES, LABELS = rows_of("3000x12", None)


@pytest.mark.by_day(1)
@pytest.mark.parametrize("offsets, gradients, share", [
    ({"bits": 8}, None, 0.9), ({"bits": 4}, {"bits": 8}, 0.6)])
def test_few_bits_keep_the_optimum(offsets, gradients, share):
    plain, plain_bytes = coded_training(FEATURES, LABELS, 4, 20, None, None)
    coded, sent = coded_training(FEATURES, LABELS, 4, 20, offsets, gradients)
    assert plain_bytes == pytest.approx(2 * 13 * 8 * 20 / 20, rel=0.06)
    assert sent < share * plain_bytes
    assert plain[-1] < 1e-8
    assert coded[-1] < 1e-8
    assert not np.array_equal(plain, coded)


def test_vectors_on_their_way():
    """Bytes of messages with their scale, or 8 a number; of a shard with words of its own."""
    vector = np.random.default_rng(1).normal(size=100) * 1e-60      # below float32
    plain, coded = CodedShards([], None, None, None), CodedShards([], None, {"bits": 4}, None)
    assert plain._through(None, 0, vector) is vector
    assert plain.sent == 800
    codec: Any = coded._offsets
    scale = np.abs(vector).max()
    first, second = (coded._through(codec, number, vector) for number in (0, 1))
    n_bytes = [len(codec.encode((vector / scale).astype(np.float32), Key(0, rank=rank)))
               for rank in (0, 1)]
    assert coded.sent == sum(n_bytes) + 2 * 8
    assert np.abs(first - vector).max() <= 1.01 * scale / 7
    assert (first != second).any()
    assert not coded._through(codec, 0, np.zeros(9)).any()


def test_gradients_are_sent_as_differences():
    """What is left of an error is that of the last difference, in whatever unit the sums are."""
    coded, rng = CodedShards([], None, None, {"bits": 8}), np.random.default_rng(2)  # type: ignore
    gradient = 1e3 * rng.normal(size=40)
    for shift, planes, change in ((0, 4, 0.0), (3, 4, 10.0), (3, 6, 0.1)):
        change *= rng.normal(size=40)
        gradient += change
        step = EpochSteps(1, 1, planes=planes)
        unit = 2.0**-shift / (EpochSteps.scale(1, 1) * 4.0**planes)
        words = np.rint(gradient / unit).astype(np.int64)
        order: Any = SimpleNamespace(epochs=(step,), parts={"label_shift": shift})
        (found,) = coded._sums(0, Sums([GradientSum(words[:-1], int(words[-1]))], None),
                               order).outputs                       # type: ignore[arg-type]
        told = unit * np.append(found.words, found.intercept)
        sent = np.abs(change if change.any() else gradient).max() / 127
        assert np.abs(told - gradient).max() <= 2 * sent + unit


def test_first_outer_step_of_a_goal():
    assert [offsets._first(np.array([1.0, 1e-4, 1e-9]), goal) for goal in (1, 1e-4, 1e-8, 0)] == [
        "1", "2", "3", "-"]


def test_rows_of_a_set_keep_their_labels(monkeypatch):
    features = np.arange(40.0).reshape(20, 2)
    monkeypatch.setattr(offsets, "load", lambda name, **options: SimpleNamespace(
        features=features, labels=features[:, 0] / 2, n_rows=20))
    found, labels = rows_of("cadata", None)
    np.testing.assert_array_equal(labels, found[:, 0] / 2)
    assert sorted(labels) == sorted(features[:, 0] / 2) != labels.tolist()


def test_data_that_are_not_there(capsys, monkeypatch):
    """An error before the table, as of a machine without a network."""
    def load(name, **options):
        raise DataError(f"{name}: the download failed")

    monkeypatch.setattr(offsets, "load", load)
    for options, text in (([], "cadata: the download failed"),
                          (["--sets", "10x2", "2x2x2"], "2x2x2: the download failed")):
        monkeypatch.setattr(sys, "argv", ["offsets", *options])
        with pytest.raises(SystemExit, match=f"^error: {text}$"):
            offsets.main()
        assert capsys.readouterr().out == ""


@pytest.mark.parametrize("name", ["0x3", "20x0"])
def test_drawn_sets_of_nothing(name):
    with pytest.raises(DataError, match=f"^{name}: a drawn set must have at least one row and one"):
        rows_of(name, None)


@pytest.mark.parametrize("option", ["--shards", "--steps"])
def test_numbers_that_are_too_small(option, capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["offsets", option, "0"])
    with pytest.raises(SystemExit):
        offsets.main()
    assert f"{option}: must be an integer of at least 1, not '0'" in capsys.readouterr().err
