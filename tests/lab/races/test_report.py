"""The report of races: drawings, page, tables, and the commands' errors."""

import csv
import re

import pytest

from bitstep.cli import main
from bitstep_lab.races import plots
from bitstep_lab.races.board_profiles import profile
from bitstep_lab.races.contestants import FLOAT, Cpu, Pipeline, Sklearn
from bitstep_lab.races.experiments import Experiment
from bitstep_lab.races.judging import judge
from bitstep_lab.races.plot_styles import digits, style_of
from bitstep_lab.races.report import COLUMNS, SUMMARY, _write_tables, run_curves
from bitstep_lab.races.report_page import write_page

CONTESTANTS = (FLOAT, *(Pipeline(bits=bits, encoding="nearest", refetch=bits == 2)
                        for bits in (8, 4, 2)), Cpu(method="sgd"), Sklearn())
EXPERIMENT = Experiment(key="one", figure="12", title="A race", text="What it shows.",
                        data="cod-rna", model="svm", contestants=CONTESTANTS)


def made_race(**changes):
    """A race in which every loss halves its distance to the optimum, and one run failed."""
    from dataclasses import asdict
    results = []
    for at, contestant in enumerate(CONTESTANTS):
        results.append({
            "name": contestant.name, "kind": type(contestant).__name__.lower(),
            **asdict(contestant), "batch": 1, "step": 0.5, "status": "ok",
            "losses": [1 + 0.5 ** (3 * epoch) + at / 1000 for epoch in range(1, 5)],
            "accuracy": [0.9] * 4, "seconds": [(at + 1) * epoch for epoch in range(1, 5)],
            "gbps": 1.0, "host": {"quantize_s": 0.5, "transfer_s": 0.1},
            **({"cycles": [100 * contestant.bits * epoch for epoch in range(1, 5)],
                "refetched": 0.25 if contestant.refetch else None}
               if isinstance(contestant, Pipeline) else {})})
    results[2] = {**results[2], "status": "left the range <1>"}
    for name in ("losses", "seconds", "accuracy"):
        del results[2][name]
    race = {
        "experiment": "one", "figure": "12", "data": "cod-rna (8 of 59,535 x 8; synthetic)",
        "key": "cod-rna", "rows": 8, "all_rows": 59_535, "n_features": 8,
        "source": "synthetic, shaped like cod-rna", "outputs": 1, "model": "svm", "loss": "hinge",
        "profile": {**asdict(profile("paper"))}, "epochs": 4, "batch": 1, "schedule": "inverse",
        "l2": 0.0, "seed": 0, "step_tuned": True, "optimum": 1.0,
        "rtl": {"all": False, "check": {"name": "8 bits", "status": "ok", "cycles": 1000,
                                        "model_cycles": 1001}}, "results": results, **changes}
    judge(race)
    return race


def test_every_kind_is_drawn(tmp_path):
    race = made_race()
    for kind in plots.KINDS:
        assert plots.draw(kind, race, tmp_path / kind), kind
        assert (tmp_path / f"{kind}.png").read_bytes().startswith(b"\x89PNG")
        assert "</svg>" in (tmp_path / f"{kind}.svg").read_text("utf-8")
    assert set(plots.CAPTIONS) == set(plots.KINDS)


def test_drawings_are_reproducible(tmp_path):
    for name in ("a", "b"):
        plots.draw("time", made_race(), tmp_path / name)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def test_nothing_to_draw(tmp_path):
    race = made_race()
    for result in race["results"]:
        result["status"] = "failed"
    assert not any(plots.draw(kind, race, tmp_path / kind) for kind in plots.KINDS)
    race = made_race()
    race["results"] = race["results"][-2:]
    judge(race)
    assert not any(plots.draw(kind, race, tmp_path / kind)
                   for kind in ("speedup", "widths", "cycles", "refetched"))


def test_bars_start_at_zero():
    from matplotlib.figure import Figure
    race = made_race()
    results = [result for result in race["results"] if result["status"] == "ok"]
    for kind, axis in (("speedup", "x"), ("cycles", "x"), ("refetched", "y")):
        figure = Figure()
        assert plots.KINDS[kind](figure, race, results)
        axes = figure.axes[0]
        assert (axes.get_xlim() if axis == "x" else axes.get_ylim())[0] == 0


def test_contestants_look_different():
    race = made_race()
    results = [result for result in race["results"] if result["status"] == "ok"]
    looks = [(style["color"], style["marker"], style.get("linestyle"))
             for style in (style_of(result, results) for result in results)]
    assert len(set(looks)) == len(looks)


def test_nobody_is_left_out_of_a_drawing():
    from matplotlib.figure import Figure
    race = made_race()
    results = [result for result in race["results"] if result["status"] == "ok"]
    shown = {}
    for kind in ("time", "speedup", "cycles"):
        figure = Figure()
        assert plots.KINDS[kind](figure, race, results)
        axes = figure.axes[0]
        shown[kind] = {text.get_text() for text in axes.get_yticklabels()} if kind != "time" \
            else {line.get_label() for line in axes.lines}
        notes = {text.get_text() for text in axes.texts}
        assert kind != "speedup" or "no result" in notes
    assert shown["time"] >= {result["name"] for result in results} | {"4 bits nearest: no result"}
    assert shown["speedup"] == {result["name"] for result in race["results"]}
    assert shown["cycles"] == {
        result["name"] for result in results if result["kind"] == "pipeline"}


def test_a_column_has_one_unit(tmp_path):
    """Seconds of a run are milliseconds of the page, with digits that can be read."""
    page = page_of(tmp_path, made_race())
    row = re.search(r"<tr class='other'><td>.*?</tr>", page)
    assert row is not None
    cells = re.findall(r"<td>(.*?)</td>", row[0])
    assert "<th>time an epoch, ms</th>" in page
    assert cells[6:] == ["5,000", "1.00", "600", "15,600"]
    assert [digits(value) for value in (None, 0.0123456, 9.996, 1234.5)] \
        == ["-", "0.0123", "10.00", "1,234"]


def page_of(tmp_path, race, drawn=()):
    about = {"quick": True, "machine": {"cpu": "C", "cores": 2, "system": "S"}, "code": "c0de",
             "seconds": 61.0, "skipped": ["cadata is not there"],
             "ceilings": {"copy, 1 thread": 9.5}}
    return write_page(tmp_path, [(EXPERIMENT, race, list(drawn))], about).read_text("utf-8")


def test_page_stands_alone(tmp_path):
    (tmp_path / "plots").mkdir()
    race = made_race()
    plots.draw("epochs", race, tmp_path / "plots" / "one-epochs")
    page = page_of(tmp_path, race, ["epochs"])
    assert page.count("src='data:image/png;base64,") == page.count("<img") == 1
    assert not re.search(r"(src|href)='(?!data:|#)", page)
    for text in ("Counterpart of figure 12", "synthetic", "<b>Reduced:</b> 8 of 59,535 rows",
                 "left the range &lt;1&gt;", "cadata is not there", "copy, 1 thread 9.5 GB/s",
                 "1,000 cycles (cycle model: 1,001)",
                 "python -m bitstep_lab.level_points", "1.01 x the optimum", "6.5 GB/s"):
        assert text in page, text


def test_page_says_when_the_line_is_floats(tmp_path):
    page = page_of(tmp_path, made_race(optimum=0.5))
    assert "1.01 x float's last loss (float does not reach 1.01 x the optimum)" in page


def test_page_without_a_winner(tmp_path):
    race = made_race()
    for result in race["results"]:
        if result["kind"] == "pipeline" and result["encoding"] != "float":
            result["finish"] = {"optimum": None}
    assert "none reaches the line" in page_of(tmp_path, race)


def test_page_and_tables_without_times(tmp_path):
    race = made_race()
    for result in race["results"][1:4]:
        result |= {"seconds": None, "cycles": None, "gbps": None, "model_bits": 4}
    judge(race)
    (tmp_path / "plots").mkdir()
    for kind in ("epochs", "time"):
        assert plots.draw(kind, race, tmp_path / "plots" / f"one-{kind}")
    page = page_of(tmp_path, race, ["epochs", "time"])
    assert "none reaches the line" in page          # no time, no fastest one
    assert [one["finish"]["optimum"]["epochs"] for one in race["results"][1:4:2]] == [3, 3]
    _write_tables(tmp_path, [(EXPERIMENT, race, [])])
    with open(tmp_path / "curves.csv", encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["contestant"] == CONTESTANTS[1].name]
    assert [row["seconds"] for row in rows] == [""] * 4


def test_run_curves(tmp_path, monkeypatch):
    """Everything but the races: what is skipped, tables, files, progress."""
    skipped = Experiment(key="two", title="Other", text="", data="cadata", model="linreg",
                         contestants=(FLOAT,))
    monkeypatch.setattr("bitstep_lab.races.report.experiments", lambda quick: [EXPERIMENT, skipped])
    monkeypatch.setattr("bitstep_lab.races.report.run_race", lambda race, track: made_race())
    monkeypatch.setattr("bitstep_lab.races.report._ceilings", lambda store: None)
    page = run_curves(tmp_path / "out", quick=True, data_home=str(tmp_path), progress=print)
    text = page.read_text("utf-8")
    assert "Other: there is no file of cadata" in text
    with open(tmp_path / "out" / "curves.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert tuple(rows[0]) == COLUMNS
    assert len(rows) == 5 * 4
    assert rows[0]["experiment"] == "one"
    assert (rows[0]["contestant"], rows[0]["epoch"], rows[0]["loss"]) == ("float", "1", "1.125")
    with open(tmp_path / "out" / "summary.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert tuple(rows[0]) == SUMMARY
    assert [row["status"] for row in rows].count("ok") == 5
    with pytest.raises(ValueError, match=r"^There is no experiment 'three'; there are one, two$"):
        run_curves(tmp_path / "out", quick=True, only=["three"], progress=print)


@pytest.mark.parametrize("options, message", [
    (["noisy-8", "--model", "ls-svm"], "--model ls-svm is for a classification, and noisy-8"),
    (["noisy-8", "--bits", "1", "--encoding", "double"],
     "--encoding double does not go together with --bits 1: a code of two samples"),
    (["breast_cancer", "--model", "svm", "--encoding", "compensated"],
     "--encoding compensated does not go together with --model svm: its codes are corre"),
    (["noisy-8", "--refetch"], "--refetch needs --model svm"),
    (["noisy-8", "--no-float", "--bits", "32", "--cpu"], "No contestant selected"),
    (["noisy-8", "--update-interval", "6"], "must be one of 1, 2, 4, not 6"),
    (["breast_cancer", "--model", "svm", "--encoding", "nearest", "--refetch",
      "--update-interval", "1"], "--update-interval 1 does not go together with --refetch: "),
    (["breast_cancer", "--model", "logistic", "--update-interval", "2"],
     "of --model logistic must be one of 1, 6, not 2"),
    (["noisy-8", "--rows", "200", "--batch", "1", "200"],
     "--batch must be at most 199 with 200 rows, since L2 or the encoding needs corrections"),
    (["noisy-8", "--rows", "200", "--batch", "201", "--encoding", "nearest"],
     "--batch must be at most 200 with 200 rows, not 201"),
    (["noisy-8", "--memory-gbps", "0.001"], "must be a number between 0.01 and 1e+06"),
    (["noisy-8", "--memory-latency", "100001"], "must be an integer from 1 to 100000"),
    (["noisy-8", "--clock-mhz", "1e308"], "must be a number between 0 and 1e+06")])
def test_wrong_use_of_bench(options, message, capsys):
    with pytest.raises(SystemExit) as caught:
        main(["bench", *options])
    assert caught.value.code == 2
    assert message in capsys.readouterr().err


def test_list_of_profiles(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["bench", "--list-profiles"])
    assert not caught.value.code
    out = capsys.readouterr().out
    assert re.search(r"^paper +512 +200 +6\.5 +60 +6\.5$", out, re.MULTILINE)


def test_list_of_experiments(tmp_path, capsys):
    assert main(["curves", "--quick", "--list", "--out", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "batch-noisy-100: Mini-batches of 16 and 256 rows, figure 6, 8 contestants" in out
    assert out.endswith("1 pipelines to compile\n")


def test_list_of_one_experiment(tmp_path, capsys):
    assert main(["curves", "--list", "--only", "pynq-year"]) == 0
    first, last = capsys.readouterr().out.splitlines()
    assert first.startswith("pynq-year: ")
    assert last.endswith(" pipelines to compile")
    out = tmp_path / "report"
    for options in (["--list"], ["--out", str(out)]):
        with pytest.raises(SystemExit, match="2"):      # wrong use
            main(["curves", "--only", "nothing", *options])
        assert "There is no experiment 'nothing'; there are" in capsys.readouterr().err
    assert not out.exists()


def test_report_folder_is_a_file(tmp_path, capsys):
    path = tmp_path / "file"
    path.write_text("")
    with pytest.raises(SystemExit):
        main(["curves", "--out", str(path)])
    assert "--out must be a folder" in capsys.readouterr().err
