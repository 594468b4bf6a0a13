"""The training script of docs/gradients.md runs as it is printed there."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="needs torch; `make test-torch` runs it")

from tests.gradients.torch.processes import PROCESS_S

PAGE = Path(__file__).resolve().parents[3] / "docs" / "gradients.md"


def test_training_script(tmp_path):
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    script = next(block for block in blocks if block.startswith("# train.py"))
    (tmp_path / "train.py").write_text(script)
    run = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
         "train.py"], cwd=tmp_path, capture_output=True, text=True, timeout=PROCESS_S,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "default"})
    assert run.returncode == 0, run.stderr
    loss, sent = re.findall(r"loss ([\d.]+); sent ([\d,]+) bytes", run.stdout)[0]
    assert float(loss) < 1.9            # 2.3 at first
    # 19,200 weights of 4 bits; 300 and 10 biases; 3,000 weights of 16 bits
    assert int(sent.replace(",", "")) == pytest.approx(9600 + 4 * 300 + 2 * 3010, rel=0.03)
    assert sorted(path.name for path in tmp_path.glob("*.pt")) == \
        ["compression-0.pt", "compression-1.pt"]
