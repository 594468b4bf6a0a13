"""Identities and Verilog that are kept in the cache folder."""

import errno
import os
import re
import subprocess

import pytest
from drawn_jobs import (
    CONFIGS,
    EVERY_CYCLE,
    FEW_BITS,
    FLOAT,
    LOGISTIC,
    PACKED,
    PACKED_WEIGHTS,
    REFETCH,
    SEVERAL,
    TABLES,
    WIDE,
)

from bitstep.pipeline.config import PipelineConfig
from bitstep_hw import TOP, top
from bitstep_sim.board import code, verilog
from bitstep_sim.board.verilator import ToolError, find_verilator

CONFIG = PipelineConfig(bits=8, max_features=40, lookahead=0, minibatch=False, corrections=False)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setattr(verilog, "cache_folder", lambda: tmp_path)
    monkeypatch.setattr(verilog, "identity", verilog.identity.__wrapped__)
    return tmp_path


def test_a_kept_identity_is_the_netlists(cache, monkeypatch):
    lines, right = [], top.identity(CONFIG)
    monkeypatch.setattr(top, "identity", {CONFIG: right}.__getitem__)   # it takes a second
    found = verilog.identity(CONFIG, progress=lines.append)
    assert found == right
    assert lines == [f"generating {CONFIG.name}"]
    monkeypatch.setattr(top, "identity", lambda config: pytest.fail("generated again"))
    assert verilog.identity(CONFIG) == found


@pytest.mark.parametrize("what", ["configuration", "code", "tools"])
def test_an_identity_is_kept_for_one_configuration_one_code_and_one_version(cache, monkeypatch,
                                                                            what):
    numbers = iter((1, 2))
    monkeypatch.setattr(top, "identity", lambda config: next(numbers))
    config = CONFIG
    assert verilog.identity(config) == 1
    if what == "code":
        monkeypatch.setattr(code, "code_digest", lambda: "another")
    elif what == "tools":
        monkeypatch.setattr(verilog, "tools", lambda: "another")
    else:
        config = PipelineConfig(bits=5)
    assert verilog.identity(config) == 2


def test_verilog_is_kept_by_identity(cache, monkeypatch):
    """Another code with the same netlist generates no Verilog, and so compiles nothing."""
    monkeypatch.setattr(top, "identity", lambda config: 5)
    made = []
    monkeypatch.setattr(top, "rtlil_of", lambda config: made.append(config) or "rtlil")
    monkeypatch.setattr(verilog, "simplified", lambda text: "text")
    assert verilog.generate(CONFIG) == "text"
    monkeypatch.setattr(code, "code_digest", lambda: "another")
    assert verilog.generate(CONFIG) == "text"
    assert made == [CONFIG]


def test_a_full_cache_is_named_and_nothing_is_left_in_it(cache, monkeypatch):
    def fail(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(top, "identity", lambda config: 5)
    monkeypatch.setattr(os, "fsync", fail)
    monkeypatch.setenv("BITSTEP_CACHE", str(cache))
    with pytest.raises(ToolError, match=f"kept in {cache} .No space left on device.: free some "):
        verilog.identity(CONFIG)
    assert {path.suffix for path in cache.iterdir()} == {".lock"}


def test_a_cache_that_cannot_be_made(monkeypatch):
    monkeypatch.delenv("BITSTEP_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/nowhere")
    with pytest.raises(ToolError, match=r"cannot be kept in /proc/nowhere/bitstep \(No such file .*"
                       r"\): name another folder \(the environment variable XDG_CACHE_HOME\)$"):
        verilog.identity.__wrapped__(CONFIG)


# Of style, as Yosys writes; and of what is left of a part that is used elsewhere.
STYLE = {"ASCRANGE", "CASEINCOMPLETE", "DECLFILENAME", "PROCASSINIT", "SYMRSVDWORD", "UNSIGNED",
         "UNUSEDSIGNAL", "WIDTHEXPAND", "WIDTHTRUNC"}


@pytest.mark.parametrize("config", [
    REFETCH, *(pytest.param(config, marks=pytest.mark.slow) for config in (
        *CONFIGS, WIDE[1], FLOAT, LOGISTIC, *TABLES, FEW_BITS, SEVERAL, PACKED, PACKED_WEIGHTS,
        *EVERY_CYCLE))], ids=lambda config: config.name)
def test_others_read_the_verilog(config, tmp_path):
    """Verilator finds no wire that nothing drives, no latch and no process that never runs: with an
    odd number of lanes a word has none, and a simulator of four states would have shown X.
    """
    verilator = find_verilator()
    (tmp_path / "top.v").write_text(verilog.generate(config, flat=False), "utf-8")
    ended = subprocess.run(
        [*verilator.command, "--lint-only", "-Wall", "-Wno-fatal", "--top-module", TOP,
         tmp_path / "top.v"], capture_output=True, text=True, env=verilator.environment)
    assert ended.returncode == 0, ended.stderr[-2000:]
    found = set(re.findall(r"^%Warning-(\w+)", ended.stderr, re.MULTILINE))
    assert "UNUSEDSIGNAL" in found      # it looked
    assert not found - STYLE
