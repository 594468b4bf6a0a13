"""Identities and Verilog that are kept in the cache folder."""

import errno
import os

import pytest

from bitstep.pipeline.config import PipelineConfig
from bitstep_hw import top
from bitstep_sim.board import code, verilog
from bitstep_sim.board.verilator import ToolError

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
    with pytest.raises(ToolError, match=f"cannot be kept in {cache} .No space left on device.: "):
        verilog.identity(CONFIG)
    assert {path.suffix for path in cache.iterdir()} == {".lock"}


def test_a_cache_that_cannot_be_made(monkeypatch):
    monkeypatch.delenv("BITSTEP_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/nowhere")
    with pytest.raises(ToolError, match=r"cannot be kept in /proc/nowhere/bitstep \(No such file .*"
                       r"\): .* \(the environment variable XDG_CACHE_HOME\)$"):
        verilog.identity.__wrapped__(CONFIG)
