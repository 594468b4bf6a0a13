"""Speed at a desk: the table, and processes of contestants."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("sklearn")
pytest.importorskip("numba")

from sklearn.linear_model import LogisticRegression

from bitstep_lab.desk import __main__ as desk


@pytest.mark.slow
def test_table(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["desk", "--shapes", "300x4", "--tasks", "regression"])
    desk.main()
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(" | ")[2] for line in lines[2:]] == ["scikit-learn", "bit-centred", "sgd"]
    assert all("300 x 4" in line for line in lines[2:])
    assert lines[2].split(" | ")[5:7] == ["1.00", "1.00"]


def test_rows_are_float32_and_the_same_again():
    features, labels = desk.drawn(50, 3, "classification")
    assert features.dtype == np.float32
    assert set(labels) == {0, 1}
    np.testing.assert_array_equal(features, desk.drawn(50, 3, "regression")[0])


def test_labels_of_several_classes():
    """Drawn by the softmax of some outputs: those that they come from predict them far better
    than by chance, and not all.
    """
    features, labels = desk.drawn(4000, 5, "classification", 4)
    np.testing.assert_array_equal(features, desk.drawn(4000, 5, "regression")[0])
    assert np.bincount(labels).min() > 400
    found = LogisticRegression().fit(features[:2000], labels[:2000])
    assert 0.6 < found.score(features[2000:], labels[2000:]) < 0.95


def test_one_class_is_refused(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["desk", "--classes", "1"])
    with pytest.raises(SystemExit):
        desk.main()
    assert "--classes must be at least 2, not 1" in capsys.readouterr().err


@pytest.mark.parametrize("shape", ["20", "0x5", "axb", "1x2x3"])
def test_bad_shapes(shape, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["desk", "--shapes", shape])
    with pytest.raises(SystemExit):
        desk.main()
    assert "--shapes must be such as 20000x20" in capsys.readouterr().err


def test_a_shape_that_no_contestant_takes(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["desk", "--shapes", "1x1", "--tasks", "classification"])
    with pytest.raises(SystemExit, match=r"^error: classification of 1 x 1 by scikit-learn: .*"
                       "at least 2 classes"):
        desk.main()


def test_a_process_that_ends_without_a_word(monkeypatch):
    """As where it took too much memory."""
    monkeypatch.setattr(sys, "argv", ["desk", "--shapes", "300x4", "--tasks", "regression"])
    monkeypatch.setattr(desk.subprocess, "run", lambda *arguments, **options: SimpleNamespace(
        returncode=-9, stdout="", stderr=""))
    with pytest.raises(SystemExit, match=r"^error: regression of 300 x 4 by scikit-learn: its "
                       r"process ended with -9$"):
        desk.main()
