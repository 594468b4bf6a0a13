"""``bitstep report``: its figures, its sources, its errors."""

import argparse
import json
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from bitstep.cli import main
from bitstep.cli.options import UsageError
from bitstep.pipeline.boards import FACTS
from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.manifest import Manifest
from bitstep_lab.board_report import areas, boards, widths
from bitstep_lab.board_report.areas import KINDS, RECORDED, recorded
from bitstep_lab.board_report.boards import Board, board_named, board_of, largest_share
from bitstep_lab.commands import report

ROOT = Path(__file__).parents[3]
BUILT = PipelineConfig(bits=4, update_interval=4, lookahead=2, corrections=False)
SVM = ("--model", "ls-svm")      # whose default pipelines have been synthesized


@pytest.fixture
def two_classes(tmp_path):
    """A CSV file of 64 rows, 3 features, and a label that they decide."""
    features = np.random.default_rng(0).uniform(-1, 1, (64, 3))
    labels = np.where(features @ [1.0, -2.0, 0.5] > 0, 1, -1)
    path = tmp_path / "two.csv"
    np.savetxt(path, np.column_stack([features, labels]), delimiter=",", fmt="%.6g")
    return str(path)


@pytest.fixture
def manifest(tmp_path):
    """A manifest of a board that no other source knows."""
    path = tmp_path / "board.json"
    Manifest(board="ulx3s-85f", config=BUILT, identity=1,
             clock_mhz={"constraint": 40, "achieved": 56.8},
             resources={"LUT4": {"used": 20, "available": 80}}).write(path)
    return str(path)


def run(*arguments):
    """Exit code of the command, without an installed entry point."""
    parser = report.add_parser(argparse.ArgumentParser().add_subparsers())
    return report.run(parser.parse_args([*map(str, arguments)]))


def test_text_and_page(two_classes, tmp_path, capsys):
    out = tmp_path / "report.html"
    code = run(two_classes, *SVM, "--board", "pynq-z1", "--bits", 4,
               "--compare", 4, 8, 32, "--train-rows", 48, "--epochs", 3, "--out", out)
    said = capsys.readouterr().out
    assert code == 0
    assert said.startswith("two: ls-svm, 4 bits compensated, 48 rows of 3 features, on Digilent")
    assert "latency         17 cycles, 0.170 us" in said
    assert "100 MHz: the clock that this board's bitstreams are built for" in said
    assert re.search(r"^DSP +173 +220 +79%$", said, re.MULTILINE)
    (epoch,) = re.findall(r"^an epoch +(\S+ \S+) \(", said, re.MULTILINE)
    assert re.search(rf"^ *4 +compensated +1 +\S+ +{epoch} .*%  DSP 79%$", said, re.MULTILINE)
    assert re.search(r"^32 \(float\) +float +2 .*not synthesized$", said, re.MULTILINE)
    assert "test accuracy" in said
    assert max(map(len, said.replace(str(out), "").splitlines())) <= 120
    page = out.read_text("utf-8")
    assert page.count("<svg") == 1
    # The drawing is wider than paper and telephones.
    assert re.search(r"\bsvg \{ max-width: 100%; height: auto; \}", page)
    assert re.search(r"<svg [^>]*viewBox=", page)
    assert "DSP 79%" in page
    assert not re.search(r"(src|href)=.https?:", page)


def test_file_is_written_where_nobody_reads_the_output(two_classes, tmp_path, monkeypatch):
    def closed(_):
        raise BrokenPipeError

    out = tmp_path / "report.txt"
    monkeypatch.setattr("sys.stdout", SimpleNamespace(write=closed))
    with pytest.raises(BrokenPipeError):
        run(two_classes, *SVM, "--bits", 4, "--compare", 4, "--epochs", 3, "--quiet", "--out", out)
    assert out.read_text().startswith("two: ls-svm, 4 bits")


def test_time_of_an_epoch_is_what_the_cycle_model_counts(two_classes, capsys):
    # Nothing is corrected: rows are 4 cycles apart, and an epoch costs little beside them.
    run(two_classes, *SVM, "--bits", 4, "--encoding", "nearest", "--compare", 4,
        "--epochs", 10)
    cycles, = map(int, re.findall(r"\((\d+) cycles, by", capsys.readouterr().out))
    assert 64 * 4 < cycles < 64 * 4 + 150


def test_cycles_of_a_row_are_those_of_one_class(tmp_path, capsys):
    features = np.random.default_rng(0).uniform(-1, 1, (60, 3))
    path = tmp_path / "three.csv"
    np.savetxt(path, np.column_stack([features, features.argmax(axis=1)]), delimiter=",",
               fmt="%.6g")
    assert run(path, *SVM, "--bits", 4, "--compare", 4, "--epochs", 2) == 0
    said = capsys.readouterr().out
    assert "for 3 classes, one after the other" in said
    (row,) = re.findall(r"^cycles a row +(\S+),", said, re.MULTILINE)
    (epoch,) = re.findall(r"\(([\d,]+) cycles, by", said)
    assert float(row) == pytest.approx(int(epoch.replace(",", "")) / 60 / 3, rel=1e-3)


def test_loss_is_that_of_the_last_epoch(two_classes, capsys):
    losses = []
    for epochs in (1, 30):
        run(two_classes, *SVM, "--bits", 8, "--compare", 8, "--epochs", epochs, "--step", 0.01)
        (row,) = re.findall(r"^ *8 +compensated +(.*)$", capsys.readouterr().out, re.MULTILINE)
        losses.append(float(re.split("  +", row)[3]))
    assert losses[1] < 0.9 * losses[0]


def test_accuracy_by_hand():
    """Of the last model, by the rows to test with, or else by those to train with."""
    rows, labels = np.array([[1.0], [2.0], [-3.0], [4.0]]), np.array([1, 1, -1, -1])
    part = SimpleNamespace(features=rows, labels=labels, n_rows=4)
    half = SimpleNamespace(features=rows[:2], labels=labels[:2], n_rows=2)
    none = SimpleNamespace(features=rows[:0], labels=labels[:0], n_rows=0)
    model: Any = SimpleNamespace(coefs=np.array([[[-1.0]], [[1.0]]]), intercepts=np.zeros((2, 1)))
    for train, test, share in ((half, part, 0.75), (part, none, 0.75), (part, None, 0.75),
                               (part, half, 1.0)):
        problem: Any = SimpleNamespace(train_set=train, test_set=test, task="classification",
                                       classes=np.array([-1, 1]))
        assert widths._accuracy(problem, model) == share


def test_cycles_are_those_of_the_memory_of_the_board(two_classes, monkeypatch, capsys):
    """A memory that answers after 1,000 cycles costs an epoch as many, or more."""
    cycles = []
    for latency in (10, 1010):
        board = replace(board_named("pynq-z2"), memory={"memory_latency": latency})
        monkeypatch.setattr(boards, "board_named", lambda name, board=board: board)
        run(two_classes, *SVM, "--bits", 4, "--compare", 4, "--epochs", 2)
        cycles += re.findall(r"\(([\d,]+) cycles, by", capsys.readouterr().out)
    first, second = (int(one.replace(",", "")) for one in cycles)
    assert second - first >= 1000


@pytest.mark.parametrize("built", [False, True])
@pytest.mark.parametrize("trained", [False, True])
def test_rows_are_read_again_where_both_do(built, trained):
    """At another width than that of the manifest."""
    config = PipelineConfig(bits=4, refetch=built)
    board = Board("", 1e8, "", {}, manifest=Manifest(
        board="ulx3s-85f", config=config, identity=1, clock_mhz={"constraint": 40}))
    found = board.pipeline(PipelineConfig(bits=8, refetch=trained), 3)
    assert (found.bits, found.refetch) == (8, built and trained)
    assert board.pipeline(PipelineConfig(bits=4, refetch=trained), 3) == config


def test_the_width_is_that_of_the_model_if_nobody_asks(two_classes, capsys):
    for model, title in (("ls-svm", "4 bits compensated"), ("logistic", "8 bits stochastic")):
        assert run(two_classes, "--model", model, "--compare", 8, "--epochs", 1) == 0
        assert capsys.readouterr().out.startswith(f"two: {model}, {title},")
    assert run(two_classes, "--compare", 8, "--epochs", 1) == 0     # by the labels
    assert capsys.readouterr().out.startswith("two: logistic, 8 bits stochastic,")


def test_regression_without_a_test_set(tmp_path, capsys):
    rng = np.random.default_rng(1)
    table = np.column_stack([rng.uniform(size=(40, 2)), rng.normal(size=40)])
    np.save(tmp_path / "line.npy", table)
    assert run(tmp_path / "line.npy", "--compare", 2, "--epochs", 2, "--model", "linreg") == 0
    said = capsys.readouterr().out
    assert "accuracy" not in said
    assert "test loss" not in said
    assert "Loss: 1/(2K) sum of squared residuals" in said


def test_manifest_gives_pipeline_clock_and_resources(two_classes, manifest, tmp_path, capsys):
    out = tmp_path / "report.txt"
    assert run(two_classes, *SVM, "--manifest", manifest, "--encoding", "stochastic",
               "--compare", 8, "--epochs", 2, "--out", out) == 0
    said = capsys.readouterr().out
    assert said.startswith(out.read_text("utf-8"))
    joined = " ".join(said.split())
    assert BUILT.name in said
    assert "40 MHz: placed and routed for 40 MHz, 56.8 MHz reached, by the manifest" in joined
    assert re.search(r"^LUT4 +20 +80 +25%$", said, re.MULTILINE)
    assert re.search(r"^ *8 +stochastic .*not synthesized$", said, re.MULTILINE)


def test_a_pipeline_that_cannot_run_the_training_is_an_error(two_classes, manifest):
    with pytest.raises(RuntimeError, match="corrections"):
        run(two_classes, *SVM, "--manifest", manifest, "--encoding", "compensated", "--compare", 4)


def test_a_width_that_cannot_be_trained_is_told(two_classes, capsys):
    assert run(two_classes, *SVM, "--bits", 4, "--encoding", "double", "--compare", 1, 4,
               "--epochs", 1) == 0
    assert re.search(r"^ *1 +compensated", capsys.readouterr().out, re.MULTILINE)
    assert run(two_classes, *SVM, "--bits", 4, "--encoding", "double", "--compare", 2,
               "--epochs", 1) == 0
    assert re.search(r"^ *2 +double", capsys.readouterr().out, re.MULTILINE)    # its least bits
    assert run(two_classes, *SVM, "--bits", 4, "--levels", "optimal", "--compare", 4, 8,
               "--epochs", 1) == 0
    assert re.search(r"^ *8: .*room for 32 levels", capsys.readouterr().out, re.MULTILINE)


def test_bit_plane_rows(two_classes, tmp_path, capsys):
    """The default pipeline of the board, at the planes asked for."""
    path = tmp_path / "bit-planes.npz"
    assert main(["quantize", two_classes, "--bit-planes", "--out", str(path)]) == 0
    assert run(path, *SVM, "--planes", 4, "--epochs", 1) == 0
    text = capsys.readouterr().out
    assert FACTS["pynq-z2"].bit_plane_config().name in text
    assert "at least 4 (1 slot, an update every 4 cycles)" in text
    assert re.search(r"^bits +encoding +slots +cycles a row", text, re.MULTILINE)
    for data in (two_classes, str(tmp_path / "codes.npz")):
        if data != two_classes:
            assert main(["quantize", two_classes, "--bits", "4", "--out", data]) == 0
        with pytest.raises(UsageError, match="--planes needs a file of bit-plane rows"):
            run(data, "--planes", 4)


@pytest.mark.parametrize("bus", [[], ["--bus-width", 128]])
def test_quantized_file_has_the_bus_of_the_board(two_classes, tmp_path, capsys, bus):
    """As the values that it was made of."""
    path = tmp_path / "codes.npz"
    assert main(["quantize", two_classes, "--bits", "4", "--encoding", "nearest", "--out",
                 str(path)]) == 0
    said = []
    for data in (path, two_classes):
        assert run(data, *SVM, "--bits", 4, "--encoding", "nearest", "--compare", 4, "--board",
                   "kv260", "--epochs", 1, *bus) == 0
        said.append(capsys.readouterr().out.partition("\npipeline ")[2].partition("\nbits ")[0])
    assert f"on a bus of {bus[-1] if bus else 512} bits" in said[0]
    assert said[0] == said[1]


def test_manifest_with_another_look_ahead_for_floating_point(two_classes, tmp_path, capsys):
    """Which is part of the result, so the training takes it from the manifest."""
    path = tmp_path / "board.json"
    for config in (PipelineConfig(bits=32, row_format="float32", update_interval=4, lookahead=0),
                   PipelineConfig(bits=4, lookahead=0)):
        Manifest(board="pynq-z2", config=config, identity=1,
                 clock_mhz={"constraint": 100}).write(path)
        assert run(two_classes, *SVM, "--manifest", path, "--compare", 32, "--epochs", 1) == 0
        assert re.search(r"^32 \(float\) +float +2 ", capsys.readouterr().out, re.MULTILINE)


def test_manifest_of_bit_plane_rows(two_classes, tmp_path):
    path = tmp_path / "board.json"
    Manifest(board="pynq-z2", config=FACTS["pynq-z2"].bit_plane_config(), identity=1,
             clock_mhz={"constraint": 100}).write(path)
    with pytest.raises(UsageError, match=r"for bit-plane rows, which .*two\.csv has not: give a"):
        run(two_classes, "--manifest", path)


@pytest.mark.parametrize("options, message", [
    (("--board", "kv260", "--manifest", "x.json"), "leave one out"),
    (("--out", "report.pdf"), r"must be a file name that ends in \.html or \.txt"),
    (("--out", "nowhere/report.html"), "there is no folder")])
def test_wrong_use(two_classes, options, message):
    with pytest.raises(UsageError, match=message):
        run(two_classes, *options)


def test_bus_wider_than_the_memory_ports(two_classes):
    with pytest.raises((ValueError, UsageError),
                       match="the 128 bits of 2 memory ports of pynq-z2, not 256"):
        run(two_classes, *SVM, "--bus-width", 256, "--compare", 4)


@pytest.mark.parametrize("name", FACTS)
def test_recorded_resources(name):
    """Those that docs/board-report.md says."""
    board, found = board_named(name), {}
    for interval, family in ((2, "linear"), (6, "logistic")):
        found[family] = [bits for bits in range(1, 9) if recorded(board.pipeline(
            PipelineConfig(bits=bits, bus_width=board.bus_width(bits), loss_family=family,
                           update_interval=interval), 100))]
    assert found == {"linear": [1, 2, 4, 8], "logistic": []}
    assert recorded(FACTS[name].bit_plane_config())


def test_synthesizer_is_a_plug_in(two_classes, monkeypatch, capsys):
    class Point:
        def load(self):
            return lambda config: dict.fromkeys(KINDS, float(config.bits))

    monkeypatch.setattr(areas, "entry_points", lambda group: {"xc7": Point()})
    arguments = (two_classes, "--bits", 3, "--compare", 3, "--epochs", 1)
    assert run(*arguments) == 0
    assert "it is not synthesized" in capsys.readouterr().out
    assert run(*arguments, "--synthesize") == 0
    assert re.search(r"^LUT +3 +53,200", capsys.readouterr().out, re.MULTILINE)
    monkeypatch.setattr(areas, "entry_points", lambda group: {})
    with pytest.raises(RuntimeError, match="--synthesize needs the RTL and Yosys"):
        run(*arguments, "--synthesize")


def test_recorded_resources_are_those_of_the_pages():
    told = {}
    for page in ("boards-pynq.md", "results/performance.md", "results/clocks.md"):
        for line in (ROOT / "docs" / page).read_text("utf-8").splitlines():
            name, *cells = line.strip("| \n").split(" | ")
            if re.fullmatch(r"`w\d+-b\d+-\w+-n\d+-d\d+-c\d[-\w]*`", name):
                told[name.strip("`")] = tuple(float(cell.replace(",", "")) for cell in cells[:4])
    assert told == RECORDED


@pytest.mark.parametrize("name", FACTS)
def test_default_pipelines_have_recorded_resources(name):
    board, facts = board_named(name), FACTS[name]
    for config in (*map(facts.config, facts.bus_widths), facts.bit_plane_config()):
        found = board.resources(config)
        share = largest_share(found)
        assert share is not None
        assert 0 < share[1] < 0.9
        assert ("wider multipliers" in found["source"]) == (facts.device != "xc7z020")
    assert recorded(PipelineConfig(bits=3)) is None


def test_manifest_of_a_pynq_board(tmp_path):
    path = tmp_path / "built.json"
    path.write_text(json.dumps({"board": "kv260", "config": BUILT.to_dict(), "identity": "1",
                                "clock_mhz": {"constraint": 100}}), "utf-8")
    board = board_of(str(path))
    assert board.clock_source == "placed and routed for 100 MHz, by the manifest"
    assert board.memory["memory_gbps"] == FACTS["kv260"].memory_gbps
    assert board.resources(BUILT)["source"] == "not synthesized"
