"""``bitstep train`` on a cluster of this machine."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise

import numpy as np
import psutil
import pytest
from sharded import make_parts, train_parts
from sklearn.datasets import load_breast_cancer, load_diabetes

from bitstep import LowPrecisionClassifier, LowPrecisionRegressor
from bitstep.cli import main
from bitstep.dask import LowPrecisionRegressor as DaskRegressor
from bitstep.plugins import entry_points
from bitstep.training.files.model_file import load_model

pytestmark = pytest.mark.skipif("dask" not in entry_points("bitstep.clusters"),
                                reason="installed before there were clusters: pip install -e .")
X, Y = load_diabetes(return_X_y=True)
FEATURES, LABELS = load_breast_cancer(return_X_y=True)
NAMES = np.array(["bad", "good"])[LABELS]


@pytest.fixture
def data(tmp_path):
    for number, part in enumerate(np.split(np.column_stack([X, Y]), [150, 300])):
        np.save(tmp_path / f"part-{number}.npy", part)
    return tmp_path


def regressor(**options):
    return LowPrecisionRegressor(**{"solver": "bit-centred", "epochs": 3, "tol": 0.0,
                                    "random_state": 0} | options)


def train(client, *words):
    """Run the command on the cluster of a client; its exit code."""
    return main(["train", *map(str, words), "--scheduler", client.scheduler.address, "--quiet"])


def test_files_are_shards(client, data, capsys):
    assert train(client, data / "part-*.npy", "--epochs", 3, "--tol", 0, "--out", data / "m.npz",
                 "--report", data / "r.json") == 0
    expected = train_parts(regressor(), make_parts(X, Y, [0, 150, 300, 442]))
    model = load_model(data / "m.npz")
    np.testing.assert_array_equal(model.coef, expected.coefs[-1])
    assert "Shards: 3, of 3 files." in capsys.readouterr().out
    report = json.loads((data / "r.json").read_text())
    assert report["shards"] == {"parts": 3, "shards": 3}
    assert report["config"]["schedule"] == "constant"
    assert report["dataset"]["train_rows"] == 442
    loaded = LowPrecisionRegressor.load(data / "m.npz")
    np.testing.assert_allclose(loaded.predict(X), X @ model.coef[0] + model.intercept[0])


def write_part(path, rows, labels):
    """Write rows as a file of the kind that its name says."""
    names = [*(f"x{number}" for number in range(rows.shape[1])), "y"]
    values = np.column_stack([rows, labels])
    if path.suffix == ".csv":
        path.write_text("\n".join([",".join(names), *(
            ",".join(map(repr, row)) for row in values.tolist())]))
    elif path.suffix == ".svm":
        path.write_text("".join(
            " ".join([repr(row[-1]), *(f"{number}:{value!r}" for number, value in
                                       enumerate(row[:-1], start=1))]) + "\n"
            for row in values.tolist()))
    else:
        arrow = pytest.importorskip("pyarrow")
        table = arrow.table(dict(zip(names, values.T, strict=True)))
        if path.suffix == ".parquet":
            pytest.importorskip("pyarrow.parquet").write_table(table, path)
        else:
            pytest.importorskip("pyarrow.feather").write_feather(table, path)


@pytest.mark.parametrize("suffix", [".parquet", ".arrow", ".csv", ".svm"])
def test_kinds_of_files(client, tmp_path, suffix):
    """Parts of every kind train the model of their numbers."""
    ends = [0, 150, 300, 442]
    for number, (start, stop) in enumerate(pairwise(ends)):
        write_part(tmp_path / f"part-{number}{suffix}", X[start:stop], Y[start:stop])
    assert train(client, tmp_path / f"part-*{suffix}", "--epochs", 2, "--tol", 0, "--out",
                 tmp_path / "m.npz") == 0
    expected, found = train_parts(regressor(epochs=2), make_parts(X, Y, ends)), load_model(
        tmp_path / "m.npz")
    np.testing.assert_array_equal(found.coef, expected.coefs[-1])
    assert found.feature_names == (None if suffix == ".svm" else tuple(
        f"x{number}" for number in range(10)))


@pytest.mark.parametrize("suffix", [".parquet", ".arrow", ".csv", ".svm", ".npy", ".npz"])
@pytest.mark.parametrize("model", [[], ["--model", "linreg"]])
def test_a_file_without_rows_is_no_shard(client, tmp_path, suffix, model):
    """The first one too, by which the model is chosen; nor is what writers leave in a folder."""
    full = [X[:200], X[200:]]
    for number, (rows, labels) in enumerate([
            (X[:0], Y[:0]), (full[0], Y[:200]), (X[:0], Y[:0]), (full[1], Y[200:])]):
        path = tmp_path / f"part-{number}{suffix}"
        if suffix == ".npy":
            np.save(path, np.column_stack([rows, labels]))
        elif suffix == ".npz":
            np.savez(path, X=rows, y=labels)
        else:
            write_part(path, rows, labels)
    (tmp_path / "_SUCCESS").touch()
    (tmp_path / ".part-1.csv.crc").touch()
    out = tmp_path.parent / f"{tmp_path.name}.npz"
    assert train(client, tmp_path, "--epochs", 2, "--tol", 0, *model, "--out", out) == 0
    expected = train_parts(regressor(epochs=2), make_parts(X, Y, [0, 200, 442]))
    np.testing.assert_array_equal(load_model(out).coef, expected.coefs[-1])


def test_files_without_rows_alone(client, tmp_path, capsys):
    for name in ("a.csv", "b.csv"):
        (tmp_path / name).write_text("x,y\n")
    assert train(client, tmp_path) == 1
    assert "DATA must have at least one row, but of 2 files none has one" in capsys.readouterr().err
    assert train(client, tmp_path, "--model", "linreg") == 1
    assert "must have at least one row; all 2 parts are empty" in capsys.readouterr().err


def test_a_parquet_file_without_rows_has_columns_of_no_type(client, tmp_path):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    frame = pandas.DataFrame(np.column_stack([X, Y])).rename(columns=str)
    frame[:0].astype(object).to_parquet(tmp_path / "0.parquet")
    frame.to_parquet(tmp_path / "1.parquet")
    assert train(client, tmp_path, "--epochs", 1, "--tol", 0) == 0


def test_parquet_as_a_data_frame(client, tmp_path):
    """The same files as a collection train the same model."""
    dd = pytest.importorskip("dask.dataframe")
    for number, (start, stop) in enumerate([(0, 200), (200, 442)]):
        write_part(tmp_path / f"part-{number}.parquet", X[start:stop], Y[start:stop])
    data = dd.read_parquet(tmp_path / "part-*.parquet")
    model = DaskRegressor(client=client, epochs=2, tol=0.0, random_state=0)
    model.fit(data.drop(columns="y"), data["y"])
    assert model.n_shards_ == 2
    expected = train_parts(regressor(epochs=2), make_parts(X, Y, [0, 200, 442]))
    np.testing.assert_array_equal(model.coef_, expected.coefs[-1][0])
    assert list(model.feature_names_in_) == [f"x{number}" for number in range(10)]


def test_checkpoint_goes_on_bit_for_bit(client, data, capsys):
    pattern, kept = data / "part-*.npy", data / "c.npz"
    options = (pattern, "--epochs", 4, "--tol", 0, "--shard-rows", 100)
    assert train(client, *options, "--out", data / "whole.npz") == 0
    from bitstep.training.files import checkpoint_writer as writers
    keep = writers.CheckpointWriter.keep_centred

    def stopping(self, number, state):
        keep(self, number, state)
        if state.epochs_done == 2:
            raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writers.CheckpointWriter, "keep_centred", stopping)
        assert train(client, *options, "--checkpoint", kept) == 130
    assert train(client, *options, "--resume", kept, "--out", data / "m.npz") == 0
    one, other = load_model(data / "m.npz"), load_model(data / "whole.npz")
    np.testing.assert_array_equal(one.coef, other.coef)
    np.save(data / "part-0.npy", np.column_stack([X, Y[::-1]])[:150])
    capsys.readouterr()
    with pytest.raises(SystemExit):
        train(client, *options, "--resume", kept)
    assert "is the checkpoint of a training on other data: shards differ" in capsys.readouterr().err


def test_a_model_to_begin_with(client, data, capsys):
    """A single shard goes on from a model as one machine does; a model that is too large is
    refused before passes.
    """
    def run(*words):
        assert main(["train", str(data / "part-0.npy"), "--planes", "4", "--tol", "0", "--quiet",
                     *map(str, words)]) == 0

    first, many = data / "first.npz", ("--scheduler", client.scheduler.address)
    run("--epochs", 1, "--solver", "bit-centred", "--out", first)
    run("--epochs", 2, "--solver", "bit-centred", "--init", first, "--out", data / "one.npz")
    run("--epochs", 2, *many, "--init", first, "--out", data / "many.npz")
    one = load_model(data / "one.npz")
    np.testing.assert_array_equal(load_model(data / "many.npz").coef, one.coef)
    replace(one, coef=one.coef * 1e30).save(first)
    capsys.readouterr()
    assert train(client, data / "part-*.npy", "--init", first) == 1
    assert "first.npz: the model does not fit the scaling of these data" in capsys.readouterr().err


def test_names_of_classes_in_text(client, tmp_path):
    for number, (start, stop) in enumerate([(0, 300), (300, 569)]):
        rows = [",".join([*map(repr, row.tolist()), name]) for row, name in zip(
            FEATURES[start:stop, :4], NAMES[start:stop], strict=True)]
        (tmp_path / f"{number}.csv").write_text("\n".join(["a,b,c,d,label", *rows]))
    assert train(client, tmp_path / "*.csv", "--epochs", 2, "--tol", 0, "--out",
                 tmp_path / "m.npz") == 0
    model = load_model(tmp_path / "m.npz")
    assert model.classes.tolist() == ["bad", "good"]
    expected = train_parts(LowPrecisionClassifier(
        solver="bit-centred", epochs=2, tol=0.0, random_state=0),
        make_parts(FEATURES[:, :4], NAMES, [0, 300, 569]))
    np.testing.assert_array_equal(model.coef, expected.coefs[-1])


def test_names_that_may_be_values(client, tmp_path, capfd):
    """All files together tell; one of them may have as many names as rows."""
    for kinds, warned in ((31, True), (30, False)):
        for part in range(2):
            lines = [f"{row},{row * row % 7},{(row + 30 * part) % kinds} USD" for row in range(30)]
            (tmp_path / f"{part}.csv").write_text("\n".join(["a,b,label", *lines]))
        assert train(client, tmp_path / "*.csv", "--epochs", 1, "--tol", 0) == 0
        said = capfd.readouterr().err
        assert said.count("each the name of a class") == warned
        assert ("60 rows have 31 different labels ('0 USD', '1 USD', '10 USD', ...)" in said) \
            == warned


@pytest.mark.parametrize("asked, weight", [
    ("balanced", "balanced"), ("bad=3,good=0.5", {"bad": 3.0, "good": 0.5})])
def test_weights_of_classes(client, tmp_path, asked, weight):
    """Of names in text, and of numbers."""
    for number, (start, stop) in enumerate([(0, 300), (300, 569)]):
        rows = [",".join([*map(repr, row.tolist()), name]) for row, name in zip(
            FEATURES[start:stop, :4], NAMES[start:stop], strict=True)]
        (tmp_path / f"{number}.csv").write_text("\n".join(["a,b,c,d,label", *rows]))
        np.save(tmp_path / f"{number}.npy", np.column_stack([FEATURES[:, :4], LABELS])[start:stop])
    options = ("--epochs", 2, "--tol", 0, "--class-weight")
    assert train(client, tmp_path / "*.csv", *options, asked, "--out", tmp_path / "m.npz",
                 "--report", tmp_path / "r.json") == 0
    expected = train_parts(LowPrecisionClassifier(
        solver="bit-centred", epochs=2, tol=0.0, random_state=0, class_weight=weight),
        make_parts(FEATURES[:, :4], NAMES, [0, 300, 569]))
    np.testing.assert_array_equal(load_model(tmp_path / "m.npz").coef, expected.coefs[-1])
    assert json.loads((tmp_path / "r.json").read_text())["config"]["class_weight"] == weight
    numbers = asked.replace("bad", "0").replace("good", "1")
    assert train(client, tmp_path / "*.npy", *options, numbers, "--model", "logistic", "--out",
                 tmp_path / "n.npz") == 0
    np.testing.assert_array_equal(load_model(tmp_path / "n.npz").coef, expected.coefs[-1])


def test_weight_of_no_class(client, data, tmp_path, capsys):
    (tmp_path / "a.csv").write_text("a,label\n1,x\n2,y\n3,x\n")
    with pytest.raises(SystemExit):
        train(client, tmp_path / "a.csv", "--class-weight", "z=3")
    assert "--class-weight must name classes of the data, x, y, not 'z'" in capsys.readouterr().err


def test_libsvm_parts_whose_last_columns_are_empty(client, tmp_path):
    (tmp_path / "a.svm").write_text("1 1:1 2:2\n2 1:2\n3 2:-1\n")
    (tmp_path / "b.svm").write_text("2 1:1 3:4\n5 2:2\n")
    assert train(client, tmp_path, "--epochs", 1, "--tol", 0, "--model", "linreg", "--out",
                 tmp_path / "m.npz") == 0
    assert load_model(tmp_path / "m.npz").n_features == 3


def test_libsvm_parts_that_count_from_0(client, tmp_path):
    """One part has an index 0, as its rows together with those of the others would have."""
    texts = ["1 0:1 1:2 2:3\n2 1:2\n4 0:-1\n", "3 1:1 2:4\n5 2:2\n6 1:3\n"]
    models = []
    for name, parts in (("parts", texts), ("whole", ["".join(texts)])):
        (tmp_path / name).mkdir()
        for number, text in enumerate(parts):
            (tmp_path / name / f"{number}.svm").write_text(text)
        out = tmp_path / f"{name}.npz"
        assert train(client, tmp_path / name, "--epochs", 1, "--tol", 0, "--shard-rows", 3,
                     "--out", out) == 0
        models.append(load_model(out))
    assert models[0].n_features == 3
    np.testing.assert_array_equal(models[0].coef, models[1].coef)


@pytest.mark.parametrize("labels, classes", [
    ([[3.0] * 4, [5.0] * 4], 2), ([[3.0, 5.0] * 2, [5.0] * 4], 2), ([[], [3.0] * 4, [5.0] * 4], 2),
    ([[3.0, 5.0] * 2, [3.0, 4.0] * 2], 0), ([[3.0, 4.0] * 2, [3.5] * 4], 0),
    ([[1.0, 2.0, 3.0, 4.0], [1.0] * 4], 0)])
def test_labels_of_all_files_choose_the_model(client, tmp_path, labels, classes):
    """Two values are classes and more are a regression's, as of one file, wherever they are."""
    for number, part in enumerate(labels):
        np.save(tmp_path / f"{number}.npy", np.column_stack([X[:len(part), :2], part]))
    out = tmp_path.parent / f"{tmp_path.name}.npz"
    assert train(client, tmp_path, "--epochs", 1, "--tol", 0, "--out", out) == 0
    assert len(load_model(out).classes) == classes


def test_names_of_classes_are_no_numbers(client, tmp_path, capsys):
    for number in range(2):
        (tmp_path / f"part-{number}.csv").write_text("a,y\n1,no\n2,yes\n3,no\n")
    assert train(client, tmp_path, "--model", "linreg") == 1
    assert "the labels are names (no, yes), and a regression needs numbers" in \
        capsys.readouterr().err


@pytest.mark.parametrize("words, message", [
    (["--workers", 2], "leave one of the two out"),
    (["--sweep", "step=1,2"], "--sweep does not go with --scheduler"),
    (["--solver", "sgd"], "--solver sgd does not go with --scheduler"),
    (["--train-rows", 3], "--train-rows does not go with --scheduler"),
    (["--early-stopping"], "--early-stopping does not go with --scheduler"),
    (["--model", "svm"], "--scheduler (solver bit-centred) does not go together with --model svm"),
    (["--model", "huber"], "choose another --model, or train without --scheduler"),
    (["--bits", 4], "--scheduler (solver bit-centred) does not go together with --bits 4"),
    (["--l1", 1], "--scheduler (solver bit-centred) does not go together with --l1")])
def test_options_that_need_one_machine(client, data, words, message, capsys):
    with pytest.raises(SystemExit) as ended:
        train(client, data / "part-*.npy", *words)
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


def test_options_that_need_a_cluster(data, capsys):
    for words in (["--shard-rows", "3"], ["--resource", "bitstep"]):
        with pytest.raises(SystemExit):
            main(["train", str(data / "part-0.npy"), *words])
        assert f"{words[0]} is for --scheduler or --workers" in capsys.readouterr().err


def test_several_files_need_a_cluster(data, capsys):
    for source, words in ((data / "part-*.npy", "a pattern of files"), (data, "a folder")):
        with pytest.raises(SystemExit):
            main(["train", str(source)])
        assert (f"DATA must be one file or a data set's name, not {words}, {source}: give "
                "--workers N or --scheduler ADDRESS, too") in capsys.readouterr().err
    (data / "part-[0].npy").write_bytes((data / "part-0.npy").read_bytes())
    assert main(["train", str(data / "part-[0].npy"), "--epochs", "2", "--quiet"]) == 0


def test_files_that_cannot_be_used(client, data, tmp_path, capsys):
    with pytest.raises(SystemExit):
        train(client, data / "none-*.npy")
    assert "found no file" in capsys.readouterr().err
    np.save(data / "part-1.npy", np.column_stack([X[:, 1:], Y]))
    assert train(client, data / "part-*.npy") == 1
    assert "part-1.npy has 10 columns" not in (error := capsys.readouterr().err)
    assert "part-1.npy has 9 columns" in error


@pytest.mark.parametrize("option", ["--out", "--report"])
@pytest.mark.parametrize("pattern", ["part-*.npy", "."])
def test_files_of_the_data_are_not_replaced(client, data, option, pattern, capsys):
    before = (data / "part-1.npy").read_bytes()
    with pytest.raises(SystemExit):
        train(client, data / pattern, "--epochs", 1, option, data / "part-1.npy")
    assert "part-1.npy cannot be written: this command reads it" in capsys.readouterr().err
    assert (data / "part-1.npy").read_bytes() == before


def test_no_scheduler(data, capsys, monkeypatch):
    monkeypatch.setattr("bitstep.dask.command.CONNECT_S", 0.2)
    assert main(["train", str(data / "part-0.npy"), "--scheduler", "tcp://127.0.0.1:9"]) == 1
    assert "No scheduler answers at tcp://127.0.0.1:9" in capsys.readouterr().err


@pytest.mark.parametrize("later_s", [0.2, pytest.param(0.5, marks=pytest.mark.slow)])
def test_ctrl_c_while_workers_start(data, later_s):
    """One line, and no process is left: a terminal sends the signal to all of them."""
    # Jobs in the background of a shell ignore the signal.
    program = ("import signal, sys; from bitstep.cli import main; "
               "signal.signal(signal.SIGINT, signal.default_int_handler); "
               "sys.exit(main(sys.argv[1:]))")
    with subprocess.Popen(
            [sys.executable, "-c", program, "train", data / "part-*.npy", "--workers", "2",
             "--quiet"], stderr=subprocess.PIPE, text=True, start_new_session=True) as command:
        try:
            seen = psutil.Process(command.pid)
            while len(seen.children()) < 3:         # two workers, beside multiprocessing's tracker
                assert command.poll() is None
                time.sleep(0.01)
            processes = seen.children(recursive=True)
            time.sleep(later_s)
            os.killpg(command.pid, signal.SIGINT)
            _, said = command.communicate(timeout=60)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(command.pid, signal.SIGKILL)
    assert (command.returncode, said) == (130, "bitstep train: interrupted\n")
    _, left = psutil.wait_procs(processes, timeout=10)
    assert not left


def test_a_scheduler_is_waited_for_no_longer_than_the_timeout(data, capsys):
    started = time.monotonic()
    assert main(["train", str(data / "part-0.npy"), "--scheduler", "tcp://127.0.0.1:9",
                 "--timeout", "0.5"]) == 1
    assert time.monotonic() - started < 10
    assert "after 0.5 s): start one with `dask scheduler`" in capsys.readouterr().err


@pytest.mark.parametrize("address", [
    "nonsense", "", "tcp://host", "tcp://host:port", "http://host:8786", "inproc://10.0.0.1/1/1"])
def test_no_address(data, address, capsys, monkeypatch):
    """No client is made, which would close itself for a minute."""
    monkeypatch.setattr("bitstep.dask.command.Client", None)
    with pytest.raises(SystemExit) as ended:
        main(["train", str(data / "part-0.npy"), "--scheduler", address])
    assert ended.value.code == 2
    assert ("--scheduler must be an address such as tcp://host:8786, not "
            f"{address!r} (") in capsys.readouterr().err


def test_a_transport_that_is_not_installed(data, capsys):
    """Newer versions of Dask do not have this one, older ones not without its library."""
    try:
        code = main(["train", str(data / "part-0.npy"), "--scheduler", "ucx://127.0.0.1:9"])
    except SystemExit as ended:
        code = ended.code
    assert code in (1, 2)
    assert re.search(r"No scheduler answers at ucx://127.0.0.1:9 \(|not 'ucx://127.0.0.1:9' \(",
                     capsys.readouterr().err)
