"""``bitstep doctor`` where no board is needed: the report, opening, facts, the golden model."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from fakes import FakeDevice

from bitstep.cli import main
from bitstep.devices.golden import GoldenDevice
from bitstep.doctor import Verdict, examine, facts, jobs, runs
from bitstep.doctor.report import Report
from bitstep.doctor.session import NotDone, Session
from bitstep.golden.sgd import train
from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.registers import MAP_VERSION
from bitstep.pipeline.results import beats_read

CONFIG = PipelineConfig(bits=3, max_features=40)


def test_golden(tmp_path, capsys):
    path = tmp_path / "report.txt"
    assert main(["doctor", "--device", "golden", "--bits", "3", "--out", str(path)]) == 0
    shown = capsys.readouterr().out
    assert path.read_text() in shown
    for section in ("Clock", "Registers", "Interrupt", "Memory", "Abort", "Speed"):
        assert f"\n{section}\n  skipped  all checks: do not apply: device 'golden' has no" in shown
    assert "ok       training (plain): 3 epochs of 60 rows of 43 features" in shown
    assert "ok       counters: beats 540" in shown
    assert "RESULT: all is well (6 checks passed, 0 failed, 0 with a warning, 6 skipped)" in shown


def test_pipelines_of_few_bits_and_of_codebooks_are_sound(capsys):
    for choice in (["--levels", "optimal"], ["--model-bits", "3"]):
        assert main(["doctor", "--device", "golden", *choice]) == 0
        assert "RESULT: all is well" in capsys.readouterr().out


def test_sample_of_the_page_is_of_this_register_map():
    page = (Path(__file__).parents[3] / "docs" / "doctor.md").read_text("utf-8")
    registers = PipelineConfig(bits=4).registers
    writable = sum(register.access == "rw" for register in registers)
    for said in (f"version of the register map: {MAP_VERSION}\n",
                 f"bits of the writable registers: {writable} registers gave back"):
        assert page.count(f"    ok       {said}") == 1


class Closed:
    """Standard output that nobody reads."""

    def write(self, text):
        raise BrokenPipeError

    def flush(self):
        pass


def test_report_that_nobody_reads_is_written(tmp_path, monkeypatch):
    path = tmp_path / "report.txt"
    monkeypatch.setattr("sys.stdout", Closed())
    assert main(["doctor", "--device", "golden", "--out", str(path)]) == 1
    assert "RESULT: all is well" in path.read_text()
    examined = []
    monkeypatch.setattr("bitstep.doctor.Session", examined.append)
    assert main(["doctor", "--device", "golden"]) == 1
    assert not examined, "nobody sees what is found"


def test_wrong_training_of_golden(monkeypatch):
    """A model that differs from the golden model in one word."""
    original = GoldenDevice.train

    def train(self, job, **options):
        result = original(self, job, **options)
        result.models[1, 7] += 1
        return result

    monkeypatch.setattr(GoldenDevice, "train", train)
    report = examine(lambda: GoldenDevice(CONFIG))
    assert report.failed
    assert report.count(Verdict.FAILED) == 4
    assert "after epoch 2 of 3, 1 of 22 weights differ, all in lane 7 of 21: feature 7 has" \
        in " ".join(report.text.split())


def test_device_that_cannot_be_opened(capsys):
    assert main(["doctor", "--device", "uart"]) == 1
    shown = " ".join(capsys.readouterr().out.split())
    assert "numpy" in shown
    assert ("FAILED open the device expected a device that is what its manifest says found Device "
            "'uart' must be told which bitstream is on the board") in shown
    assert "RESULT: FAILED (0 checks passed, 1 failed, 0 with a warning, 0 skipped)" in shown


@pytest.mark.parametrize("arguments, message", [
    (["--device", "nothing"], "--device must be one of"),
    (["--device", "golden", "--port", "x"], "--port is not possible with --device golden"),
    (["--device", "golden", "--memory-mib", "0"], "must be an integer from 1"),
    (["--device", "golden", "--out", "/nowhere/report.txt"], "there is no folder /nowhere"),
])
def test_wrong_use(capsys, arguments, message):
    with pytest.raises(SystemExit) as ended:
        main(["doctor", *arguments])
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


def test_report():
    told = []
    report = Report(told.append)
    report.section("One")
    report.ok("first", "fine")
    report.skip("second", "not done: because")
    report.fail("third", expected="a " * 60, found="b", remedy="c")
    report.warn("fourth", expected="d", found="e", remedy="f")
    report.finish()
    assert report.text == "\n".join(told) + "\n"
    assert report.text == f"""
One
  ok       first: fine
  skipped  second: not done: because
  FAILED   third
           expected {"a " * 39}a
                    {"a " * 19}a
           found    b
           do       c
  warning  fourth
           expected d
           found    e
           do       f

RESULT: FAILED (1 checks passed, 1 failed, 1 with a warning, 1 skipped)
  FAILED   One: third
  warning  One: fourth
  What to do stands with each of them above, after `do`. Begin with the first: others may follow
  from it.
"""


def session_of(report, **members):
    device = SimpleNamespace(**{"name": "stub", "config": CONFIG, "clock_hz": 100e6} | members)
    session = Session(device, report, timeout_s=1.0, memory_bytes=1024)
    session.results["manifest"] = {}
    return session


def clock(wanted, found, hz):
    return SimpleNamespace(wanted_hz=wanted * 1e6, found_hz=found * 1e6, hz=hz * 1e6)


@pytest.mark.parametrize("record, verdict, title", [
    (clock(100, 100, 99.9999), Verdict.OK, "clock"),
    (clock(99.999, 100, 100), Verdict.OK, "clock"),     # as pynq reckons
    (clock(100, 62.5, 100), Verdict.WARNING, "clock dividers"),
    (clock(100, 100, 96.97), Verdict.WARNING, "clock"),
    (clock(100, 100, 101), Verdict.FAILED, "clock"),
])
def test_clock_that_was_set(record, verdict, title):
    report = Report()
    facts.clock(session_of(report, clock=record))
    assert [(finding.title, finding.verdict) for finding in report.findings] == [(title, verdict)]
    assert f"{record.found_hz / 1e6:g} MHz found after loading" in " ".join(report.text.split())


@pytest.mark.parametrize("built_for, verdict", [
    (100, Verdict.OK), (100.5, Verdict.OK), (90, Verdict.FAILED), (110, Verdict.FAILED)])
def test_clock_that_cannot_be_set(built_for, verdict):
    report = Report()
    session = session_of(report)
    session.results["manifest"] = {"clock_mhz": {"constraint": built_for}}
    facts.clock(session)
    assert [finding.verdict for finding in report.findings] == [verdict]


def test_clock_by_the_cycles_of_a_run():
    """To 2 % beyond what the measurement leaves open, on both sides."""
    found = runs.MeasuredClock(90e6, 110e6, "")
    assert [hz for hz in (88e6, 89e6, 100e6, 112e6, 113e6) if found.may_be(hz)] == [
        89e6, 100e6, 112e6]


def test_facts_that_changed_are_told_again():
    told = [{"mode": "fast", "runs": "0"}, {"mode": "fast", "runs": "7"}]
    report, device = Report(), SimpleNamespace(name="stub", config=CONFIG)
    for values, tell in zip(told, (facts.device_facts, facts.changed_facts), strict=True):
        device.facts = values.copy
        tell(report, device)
    assert report.facts["runs"] == "7"
    assert report.text.count("mode") == 1
    assert "Afterwards" in report.text


@pytest.mark.parametrize("models, intercepts, said", [
    ([[1, 2, 3], [4, 5, 6]], [7, 8], ""),
    ([[1, 2, 3], [4, 0, 6]], [7, 8], "after epoch 2 of 2, 1 of 3 weights differ, all in lane 1 of"),
    ([[0, 0, 3], [4, 5, 6]], [7, 8], "after epoch 1 of 2, 2 of 3 weights differ: feature 0 has 0"),
    ([[1, 2, 3], [4, 5, 6]], [7, 0], "after epoch 2 of 2, the intercept is 0 instead of 8"),
    ([[1, 2, 3]], [7], "1 models instead of 2")])
def test_first_difference_of_models(models, intercepts, said):
    expected = np.array([[1, 2, 3], [4, 5, 6]]), np.array([7, 8])
    result: Any = SimpleNamespace(models=np.array(models), intercepts=np.array(intercepts))
    found = jobs.difference(CONFIG, expected, result)
    assert found.startswith(said)
    assert bool(found) is bool(said)


def test_difference_where_there_is_one_lane():
    config = PipelineConfig(bits=3, max_features=1, lookahead=0, packed=True)
    result: Any = SimpleNamespace(models=np.array([[1]]), intercepts=np.zeros(1))
    assert jobs.difference(config, (np.array([[2]]), np.zeros(1)), result) == \
        "after epoch 1 of 1, 1 of 1 weights differ: feature 0 has 1 instead of 2"


@pytest.mark.parametrize("content, verdict, said", [
    ("{}", Verdict.OK, "2"),
    (f'{{"register_map": {MAP_VERSION}}}', Verdict.OK, str(MAP_VERSION)),
    ('{"register_map": 99}', Verdict.FAILED, "found 99"),
    ("no JSON", Verdict.FAILED, "copy the .json file"),
    ("[]", Verdict.FAILED, "copy the .json file"),
])
def test_manifest(tmp_path, content, verdict, said):
    path = tmp_path / "manifest.json"
    path.write_text(content)
    report = Report()
    facts.manifest(report, path)
    assert [finding.verdict for finding in report.findings] == [verdict]
    assert said in " ".join(report.text.split())


def test_facts_of_a_manifest(tmp_path):
    path = tmp_path / "manifest.json"
    content = {"board": "pynq-z2", "identity": "12", "register_map": MAP_VERSION,
               "clock_mhz": {"constraint": 100, "achieved": 104.5},
               "tools": {"vivado": "2022.1"}, "bitstream": {"bytes": 3, "sha256": "ab"}}
    path.write_text(json.dumps(content))
    report = Report()
    assert facts.manifest(report, path) == content
    assert list(report.facts.items())[1:] == [
        ("built for", "pynq-z2"), ("identity in manifest", "12"),
        ("clock in manifest", "constraint 100 MHz, achieved 104.5 MHz"),
        ("built with", "vivado 2022.1"), ("SHA-256 of the bitstream", "ab")]


@pytest.mark.parametrize("content, name", [
    ("Xilinx Zynq PYNQ-Z2\0", "Xilinx Zynq PYNQ-Z2"),
    ('ID=pynq\nPRETTY_NAME="PynqLinux 3.0"\n', "PynqLinux 3.0"),
    ("ID=pynq\nVERSION=3.0\n", "")])
def test_names_of_board_and_system(tmp_path, content, name):
    (tmp_path / "name").write_text(content)
    assert facts._line(tmp_path / "name") == name
    assert facts._line(tmp_path / "none") == ""


def test_manifest_beside_the_bitstream(tmp_path, monkeypatch):
    asked = {}

    def examine(opening, **options):
        asked.update(options)
        return Report()

    monkeypatch.setattr("bitstep.doctor.examine", examine)
    assert main(["doctor", "--device", "pynq", "--bitfile", str(tmp_path / "4.bits.bit"),
                 "--memory-mib", "3"]) == 0
    assert asked["manifest"] == tmp_path / "4.bits.json"
    assert asked["memory_bytes"] == 3 << 20


def test_largest_buffer():
    free = 10_000

    def allocate(size):
        if size > free:
            raise MemoryError("no")
        return SimpleNamespace(free=lambda: None)

    session = session_of(Report(), allocate=allocate)
    assert session.largest(4096) == 4096
    assert session.largest(1 << 20) == 10_000 // 64 * 64
    free = 100
    with pytest.raises(MemoryError, match="device 'stub' has no buffer of"):
        session.largest(4096)


@pytest.mark.parametrize("error, verdict, said", [
    (NotDone("it is busy"), Verdict.SKIPPED, "not done: it is busy"),
    (ZeroDivisionError("division by zero"), Verdict.FAILED, "ZeroDivisionError: division by zero"),
])
def test_what_goes_wrong_in_a_check_is_a_finding(error, verdict, said):
    def check(session):
        raise error

    report = Report()
    session_of(report).guard(check, "something")
    (finding,) = report.findings
    assert (finding.title, finding.verdict) == ("something", verdict)
    assert said in finding.text


def test_ctrl_c_stops_the_run_and_closes(monkeypatch):
    stopped, closed = [], []
    monkeypatch.setattr(Session, "stop", lambda self: stopped.append(True))

    class Stopped(FakeDevice):
        def read(self, offset):
            raise KeyboardInterrupt

        def close(self):
            closed.append(True)

    device = Stopped(CONFIG)
    with pytest.raises(KeyboardInterrupt):
        examine(lambda: device)
    assert (stopped, closed) == ([True], [True])


@pytest.mark.parametrize("config", [
    PipelineConfig(bits=3, max_features=60, lookahead=7, refetch=True, proximal=True),
    PipelineConfig(bits=1, bus_width=512),
    PipelineConfig(bits=2, row_format="two_levels", minibatch=False),
    PipelineConfig(bits=32, row_format="float32", max_features=6, lookahead=6, proximal=True),
    PipelineConfig(bits=4, max_features=48, loss_family="logistic", update_interval=6,
                   proximal=True),
    PipelineConfig(bits=8, max_features=64, corrections=False),
    PipelineConfig(bits=16, row_format="bit_planes", max_features=64, proximal=True),
    PipelineConfig(bits=3, max_features=60, codebooks=True, model_bits=4, rounded_updates=True),
], ids=lambda config: config.name)
def test_jobs_use_all_that_a_pipeline_has(config):
    made = list(jobs.training_jobs(config).values())
    for job in made:
        models, _ = jobs.expected_of(job)
        assert (models[0] != 0).mean() > 0.5
        assert (models[0] != models[-1]).any()
    bit_planes = config.row_format == "bit_planes"
    assert any(job.model.any() and len(job.rows) == 2 - bit_planes for job in made)
    assert all({steps.planes for steps in job.epochs} == ({16, 3, 1} if bit_planes else {0})
               for job in made)
    assert any(job.batch > 1 for job in made) == config.minibatch
    assert any(job.correction_period for job in made) == config.corrections
    assert any(job.proximal_period for job in made) == config.proximal
    assert all((job.codebooks is not None) == config.codebooks for job in made)
    assert {job.model_bits for job in made} == {config.model_bits}
    assert any(job.update_bits for job in made) == config.rounded_updates
    refetched = [sum(epoch.refetched_rows for epoch in train(job)) for job in made]
    assert (max(refetched) > 0) == config.refetch


@pytest.mark.parametrize("bits", [1, 4, 8])
def test_a_row_is_seen_in_its_model(bits):
    config = PipelineConfig(bits=bits, max_features=32)
    singles = jobs.single_rows(jobs.make_job(config, n_features=config.rows.lanes, n_rows=5))
    for job in singles:
        models, _ = jobs.expected_of(job)
        wrong = job.rows[0].copy()
        wrong[0, 3] ^= 1                    # the lowest bit of a code
        others, _ = jobs.expected_of(replace(job, rows=(wrong,)))
        assert np.flatnonzero(models != others).tolist() == [3 * 8 // bits]


def test_first_bytes_of_bit_plane_rows_are_seen_in_their_model():
    config = PipelineConfig(bits=16, row_format="bit_planes", max_features=32)
    made = jobs.beat_jobs(config)
    assert jobs.read_bytes(config) == beats_read(made[0], 1) * config.rows.beat_bytes == 64
    models, _ = jobs.expected_of(made[0])
    assert any((jobs.expected_of(job)[0] != models).any() for job in made[1:])
    for place in (0, 63):
        wrong = made[0].rows[0].copy()
        wrong[0, place] ^= 8
        assert (jobs.expected_of(replace(made[0], rows=(wrong,)))[0] != models).any()


@pytest.mark.parametrize("config", [
    PipelineConfig(bits=4, max_features=32),
    PipelineConfig(bits=4, max_features=32, codebooks=True, model_bits=3),
    PipelineConfig(bits=16, row_format="bit_planes", max_features=32)],
                         ids=lambda config: config.name)
def test_still_job_keeps_the_model(config):
    model = np.array([0, -1, 1 << 30, -1 << 31] * 4, np.int64).astype(np.int32)
    job = jobs.still_job(config, n_features=16, n_rows=3, model=model, epochs=2)
    models, intercepts = jobs.expected_of(job)
    assert (models == model).all()
    assert not intercepts.any()
