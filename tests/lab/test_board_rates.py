"""Rows a second of boards: against cycles by hand."""

import re

import pytest

from bitstep.pipeline.boards import FACTS
from bitstep_lab.board_rates import board_rate, main, pipelines, thread_rate


@pytest.mark.parametrize("name, features, cycles", [
    ("pynq-z2", 4096, 128),         # 32 codes a beat
    ("pynq-z2", 100, 4),            # 4 beats, and an update every 4 cycles
    ("pynq-z2", 8, 4)])
def test_rows_take_the_cycles_of_their_beats(name, features, cycles):
    facts = FACTS[name]
    rate, share = board_rate(facts, pipelines(facts, 4)[-1], features)
    assert rate == pytest.approx(100e6 / cycles, rel=0.01)
    beats = -(-features // 32)
    # 16 bytes a beat and 4 of a label, of 2.1 GB/s.
    assert share == pytest.approx((16 * beats + 4) * 100e6 / cycles / 2.1e9, rel=0.01)


def test_two_ports_are_twice_one():
    facts = FACTS["pynq-z1"]
    numbers, both, one, ahead = pipelines(facts, 4)
    assert numbers.bus_width == ahead.bus_width == 128
    assert (both.row_ports, both.bus_width, one.row_ports, one.bus_width) == (2, 128, 1, 64)
    ratio = board_rate(facts, both, 4096)[0] / board_rate(facts, one, 4096)[0]
    assert ratio == pytest.approx(2, rel=0.01)
    assert [found.row_ports for found in pipelines(facts, 1)] == [1, 1, 1]


@pytest.mark.parametrize("name, features, cycles, tolerance", [
    ("kv260", 100, 1.27, 0.03),     # a beat a row, and the drain of a batch of 64
    ("kv260", 4096, 32, 0.04)])
def test_batches_enter_one_beat_a_cycle(name, features, cycles, tolerance):
    drained = FACTS[name].config(4)
    assert (drained.update_interval, drained.bus_width) == (1, 512)
    rate, _ = board_rate(FACTS[name], drained, features)
    assert rate == pytest.approx(125e6 / cycles, rel=tolerance)


def test_four_ports_are_four_times_one():
    _, four, one, _ = pipelines(FACTS["kv260"], 4)
    ratio = board_rate(FACTS["kv260"], four, 4096)[0] / board_rate(FACTS["kv260"], one, 4096)[0]
    assert ratio == pytest.approx(4, rel=0.01)


def test_table(capsys):
    pytest.importorskip("numba")
    assert main(["--features", "50", "--bits", "2"]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if "`w" in line]
    assert len(lines) == sum(len(pipelines(facts, 2)) for facts in FACTS.values())
    assert all(re.search(r"\| 50 \| [\d.]+ \| \d+% \| [\d.]+ \| [\d.]+ \|$", line)
               for line in lines)
    assert thread_rate(50) > 0


@pytest.mark.parametrize("features", ["0", "5000"])
def test_features_that_no_pipeline_has(features, capsys):
    with pytest.raises(SystemExit):
        main(["--features", "16", features])
    assert f"--features must be from 1 to 4096, the most of these pipelines, not 16 {features}" in \
        capsys.readouterr().err
