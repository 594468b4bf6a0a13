"""Identities and Verilog that are kept in the cache folder."""

import pytest

from bitstep.pipeline.config import PipelineConfig
from bitstep_hw import top
from bitstep_sim.board import code, verilog

CONFIG = PipelineConfig(bits=8, max_features=40, lookahead=0, minibatch=False, corrections=False)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setattr(verilog, "cache_folder", lambda: tmp_path)
    monkeypatch.setattr(verilog, "identity", verilog.identity.__wrapped__)
    return tmp_path


def test_a_kept_identity_is_the_netlists(cache, monkeypatch):
    lines = []
    found = verilog.identity(CONFIG, progress=lines.append)
    assert found == top.identity(CONFIG)
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
        monkeypatch.setattr(verilog, "_tools", lambda: "another")
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
