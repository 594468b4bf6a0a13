"""``bitstep info`` of a data set: times in every place, and what is fastest."""

import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from bitstep.cli import main, times
from bitstep.cli.times import Place, board_seconds, measured, on_boards, print_times, verdict
from bitstep.data.dataset import Dataset
from bitstep.pipeline.boards import FACTS


def dataset(n_rows=60, n_features=3, n_classes=2):
    rng = np.random.default_rng(0)
    labels = rng.standard_normal(n_rows) if n_classes == 0 else np.arange(n_rows) % n_classes + 0.0
    return Dataset("drawn", rng.standard_normal((n_rows, n_features)), labels,
                   "classification" if n_classes else "regression")


@pytest.mark.parametrize("n_classes", [0, 2, 3])
def test_places(n_classes, capsys):
    print_times(dataset(n_classes=n_classes))
    text = capsys.readouterr().out
    for name in ("bitstep, device", "scikit-learn's Ridge" if n_classes == 0 else
                 "scikit-learn's LogisticRegression", *(f"board {board}" for board in FACTS)):
        assert name in text
    assert text.splitlines()[-1].startswith("Fastest: ")


def test_verdict_by_hand():
    ours, peer = Place("bitstep", 2.0, ""), Place("scikit-learn", 0.5, "")
    board = Place("board kv260", 0.125, "")
    assert verdict([ours, peer], []) == \
        "Fastest: scikit-learn, 500 ms; bitstep takes 4.0 times as long."
    assert verdict([ours, peer], [board]).startswith("Fastest: board kv260, 125 ms (a prediction")
    assert verdict([ours, peer], [board]).endswith("; scikit-learn takes 4.0 times as long.")
    assert verdict([ours], [board]).endswith("; bitstep takes 16 times as long.")
    assert verdict([ours], []) == "Fastest: bitstep, 2.00 s."
    assert verdict([], []) == "Nothing is known about the time of these data."


def test_boards_by_hand():
    """Rows of 1,000 features of 4 bits are 32 beats of 128 bits, or 8 of 512, and 20 epochs of a
    million take 32 or 8 cycles a row, and those of 1 or 3 rows without data after each batch of
    64; three classes take thrice as long as one.
    """
    for name, cycles, clock_hz in (("pynq-z1", 32e6 * 65 / 64, 100e6),
                                   ("kv260", 8e6 * 67 / 64, 125e6)):
        seconds = board_seconds(FACTS[name], 10 ** 6, 1000)
        assert seconds == pytest.approx(20 * cycles / clock_hz, rel=1e-3)
    # 16 beats of 256 bits and a label of 2 bytes a row, of a memory that gives less than a beat.
    assert board_seconds(FACTS["ultra96"], 10 ** 6, 1000) == pytest.approx(
        20e6 * (16 * 32 + 2) / (1e9 * FACTS["ultra96"].memory_gbps), rel=1e-3)
    assert board_seconds(FACTS["pynq-z1"], 10, 1 << 16) is None     # beyond the pipeline's rows
    assert not on_boards(dataset(2, 1 << 13))
    two, three = (float(on_boards(dataset(n_classes=count))[0].source.split(", ")[1].split()[0])
                  for count in (2, 3))
    assert three == pytest.approx(3 * two, rel=0.01)


def test_without_scikit_learn(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.linear_model", None)
    places, missing = measured(dataset())
    assert [place.name.split(",")[0] for place in places] == ["bitstep"]
    assert missing == "The time of scikit-learn is not known: it is not installed."


def test_more_features_than_bit_plane_rows_have(tmp_path, capsys):
    np.savez(tmp_path / "wide.npz", X=dataset(4, (1 << 16) + 1).features, y=np.arange(4.0))
    assert main(["info", str(tmp_path / "wide.npz")]) == 0
    found = capsys.readouterr()
    assert ("The time of bitstep here is not known: it is measured on bit-plane rows, which are "
            "for up to 65,536 features.\n") in found.out
    assert "scikit-learn's Ridge, here" in found.out
    assert not found.err
    with pytest.raises(SystemExit):
        main(["quantize", str(tmp_path / "wide.npz"), "--bit-planes", "--out",
              str(tmp_path / "rows.npz")])
    assert ("--bit-planes does not go together with 65537 features: bit-plane rows are for up to "
            "65,536 features; leave it out") in capsys.readouterr().err


def test_one_class_in_the_sample():
    """A class that no row of the sample has: no time is claimed."""
    data = dataset(1000)
    data.labels[:] = 1.0
    assert measured(data) == ([], "The time of this machine needs rows of two classes.")


def test_large_data_are_measured_on_some_rows(monkeypatch):
    seen = []
    monkeypatch.setattr(times, "_train", lambda features, *_: seen.append(features.shape))
    monkeypatch.setattr("sklearn.linear_model.LogisticRegression.fit",
                        lambda self, features, labels: seen.append(features.shape))
    places, _ = measured(dataset(40_000, 20))
    assert len(places) == 2
    assert all(place.source == "measured on 26,214 rows, times 1.526" for place in places)
    assert set(seen) == {(26_214, 20)}
    assert len(seen) == 6           # of a training twice, of the peer so also with one thread


@pytest.mark.parametrize("repeats, calls, least", [(1, 2, 0.125), (2, 3, 0.0625), (5, 4, 0.0625)])
def test_a_measurement_is_the_least_of_some(monkeypatch, repeats, calls, least):
    """The first call may compile; five are not begun after 0.3 s."""
    took, now = iter([9.0, 0.125, 0.0625, 0.25, 0.0]), [1.0]

    def work():
        now.append(now[-1] + next(took))

    monkeypatch.setattr(times, "REPEATS", repeats)
    monkeypatch.setattr(times, "time", SimpleNamespace(perf_counter=lambda: now[-1]))
    assert times._seconds(work) == least
    assert len(now) == 1 + calls


def test_command(tmp_path, capsys):
    path = tmp_path / "rows.csv"
    np.savetxt(path, np.column_stack([dataset().features, dataset().labels]), delimiter=",")
    assert main(["info", str(path)]) == 0
    text = capsys.readouterr().out
    assert "rows              60" in text
    assert "Fastest: " in text


def test_the_peer_has_standardized_columns(monkeypatch):
    """On columns of 1 and a million it would end long before its optimum."""
    seen = []
    monkeypatch.setattr("sklearn.linear_model.LogisticRegression.fit",
                        lambda self, features, labels: seen.append(features.std(axis=0)))
    data = dataset(n_features=2)
    measured(replace(data, features=data.features * [1, 1e6]))
    assert len(seen) >= 4
    assert all(spread == pytest.approx([1, 1]) for spread in seen)
