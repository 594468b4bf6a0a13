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
    rate, share = board_rate(facts, facts.config(4), features)
    assert rate == pytest.approx(100e6 / cycles, rel=0.01)
    beats = -(-features // 32)
    # 16 bytes a beat and 4 of a label, of 2.1 GB/s.
    assert share == pytest.approx((16 * beats + 4) * 100e6 / cycles / 2.1e9, rel=0.01)


def test_two_ports_are_twice_one():
    facts = FACTS["pynq-z1"]
    both, one = pipelines(facts, 4)
    assert (both.row_ports, both.bus_width, one.row_ports, one.bus_width) == (2, 128, 1, 64)
    ratio = board_rate(facts, both, 4096)[0] / board_rate(facts, one, 4096)[0]
    assert ratio == pytest.approx(2, rel=0.01)
    assert pipelines(facts, 8)[0].row_ports == 1


def test_table(capsys):
    pytest.importorskip("numba")
    assert main(["--features", "50", "--bits", "2"]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if "`w" in line]
    assert len(lines) == sum(len(pipelines(facts, 2)) for facts in FACTS.values())
    assert all(re.search(r"\| 50 \| [\d.]+ \| \d+% \| [\d.]+ \| [\d.]+ \|$", line)
               for line in lines)
    assert thread_rate(50) > 0
