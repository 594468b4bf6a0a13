import subprocess
import sys
from pathlib import Path

import pytest

from bitstep.pipeline.registers import (
    ADDRESS_WIDTH,
    COUNTER_BASE,
    COUNTERS,
    OFFSETS,
    REGISTERS,
    Control,
    Error,
    LabelFormat,
    Overflow,
    Status,
    document,
    table,
)

PAGE = Path(__file__).parents[3] / "docs" / "registers.md"
WIDTH = {register.name: register.width for register in REGISTERS}


def test_no_overlaps():
    offsets = [register.offset for register in REGISTERS]
    assert len(set(offsets)) == len({register.name for register in REGISTERS}) == len(REGISTERS)
    assert all(offset % 4 == 0 and offset < 1 << ADDRESS_WIDTH for offset in offsets)
    assert offsets == sorted(offsets)
    assert len(OFFSETS) == len(REGISTERS)


@pytest.mark.parametrize("register", REGISTERS, ids=lambda register: register.name)
def test_each_register(register):
    assert register.access in ("ro", "rw", "wo")
    assert 1 <= register.width <= 32
    assert register.text
    assert "|" not in register.text                     # it would break the table
    if register.name.endswith("_LO"):
        assert OFFSETS[register.name[:-3] + "_HI"] == register.offset + 4
        assert register.offset % 8 == 0


def test_values_fit_their_registers():
    for kind, name in ((Status, "STATUS"), (Control, "CONTROL"), (Error, "ERROR"),
                       (Overflow, "OVERFLOW"), (LabelFormat, "LABEL_FORMAT")):
        assert max(kind).value < 1 << WIDTH[name]
        assert len({member.value for member in kind}) == len(kind)


def test_places_that_hosts_rely_on():
    """These may only move together with MAP_VERSION."""
    assert {name: OFFSETS[name] for name in ("IDENTITY_0", "VERSION", "CONTROL", "STATUS", "ERROR",
                                             "ROWS", "ROWS_ADDRESS_LO", "CYCLES_LO")} == {
        "IDENTITY_0": 0, "VERSION": 0x10, "CONTROL": 0x20, "STATUS": 0x24, "ERROR": 0x28,
        "ROWS": 0x40, "ROWS_ADDRESS_LO": 0x70, "CYCLES_LO": 0x100}
    for index, (name, _) in enumerate(COUNTERS):
        assert OFFSETS[f"{name}_LO"] == COUNTER_BASE + 8 * index


def test_table_lists_every_register():
    registers, _, values = table().partition("\n\n")
    lines = registers.splitlines()
    assert len(lines) == len(REGISTERS) + 2
    assert "| `0x044` | `BEATS_PER_ROW` | rw | 20 | Beats of a row, " in table()
    assert all(line.count("|") == 6 for line in lines)
    assert "| `OVERFLOW` | 1 UPDATE, 2 MODEL, 4 CORRECTION, added up |" in values


def test_page_is_up_to_date():
    assert PAGE.read_text() == document(), \
        "run python -m bitstep.pipeline.registers > docs/registers.md"
    assert table() in document()


def test_page_is_what_the_command_prints():
    run = subprocess.run([sys.executable, "-m", "bitstep.pipeline.registers"], capture_output=True,
                         text=True, check=True)
    assert run.stdout == document()
    assert run.stderr == ""
