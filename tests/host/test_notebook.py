"""The notebook for the board's Jupyter: its cells run, on the golden model and as on a board."""

import json
import sys
from pathlib import Path

import pytest
from fake_pynq import FakePynq, write_bitstream

from bitstep.pipeline.config import PipelineConfig

pytest.importorskip("matplotlib").use("Agg")

PATH = Path(__file__).parents[2] / "docs" / "train_on_the_board.ipynb"
CONFIG = PipelineConfig(bits=4, update_interval=4, lookahead=4)


def cells():
    """Source of each code cell."""
    return ["".join(cell["source"]) for cell in json.loads(PATH.read_text())["cells"]
            if cell["cell_type"] == "code"]


def test_format():
    notebook = json.loads(PATH.read_text())
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    identities = [cell["id"] for cell in notebook["cells"]]
    assert len(set(identities)) == len(identities)
    for cell in notebook["cells"]:
        assert cell["cell_type"] in ("markdown", "code")
        assert all(isinstance(line, str) for line in cell["source"])


def test_stored_outputs():
    """Those of one run from the top to the bottom, with nothing of the machine that it ran on."""
    code = [cell for cell in json.loads(PATH.read_text())["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
    outputs = [output for cell in code for output in cell["outputs"]]
    assert {output["output_type"] for output in outputs} == {"stream", "display_data"}
    said = "".join("".join(output.get("text", ())) for output in outputs)
    assert "R2 on the test rows" in said
    assert "identical in every bit" in said
    assert "/" not in said
    assert sum("image/png" in output.get("data", {}) for output in outputs) == 1
    # The estimator comes before what does the same by hand.
    source = "".join("".join(cell["source"]) for cell in code)
    assert source.index("LowPrecisionRegressor(") < source.index("train_model([")


@pytest.mark.parametrize("device", ["golden", "pynq"])
def test_cells_run(device, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("BITSTEP_DEVICE", device)
    monkeypatch.setenv("BITSTEP_ROWS", "500")
    monkeypatch.setenv("BITSTEP_BITSTREAMS", str(tmp_path))
    monkeypatch.setitem(sys.modules, "pynq", FakePynq(CONFIG))
    write_bitstream(tmp_path, CONFIG)
    monkeypatch.setattr("matplotlib.pyplot.show", lambda: None)
    names = {"__name__": "__main__"}
    for number, source in enumerate(cells()):
        exec(compile(source, f"cell {number}", "exec"), names)
    said = capsys.readouterr().out
    assert "identical in every bit" in said
    assert "R2 on the test rows: 0.9" in said
    assert "10 epochs of 450 rows" in said
    losses = names["losses"](names["model"], names["test"])     # type: ignore[operator]
    assert losses[-1] < losses[0] / 2
    monkeypatch.undo()
    sys.modules["matplotlib.pyplot"].close("all")
