"""What a board needs works with NumPy and the standard library, everything else blocked."""

import subprocess
import sys

PROGRAM = """
import sys

class Block:
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top not in sys.stdlib_module_names and top not in ("numpy", "bitstep"):
            raise ImportError(f"{name} is blocked")

sys.meta_path.insert(0, Block())

import bitstep
import bitstep.cli, bitstep.data, bitstep.devices.golden, bitstep.devices.register_device
import bitstep.golden.sgd, bitstep.pipeline.results, bitstep.training.files.model_file
import bitstep.training.schedules, bitstep.training.train
from bitstep.quantization import load_quantized

folder, data, stored = sys.argv[1:]
parser = bitstep.cli.build_parser()
parser.parse_args(["train", data, "--device", "golden"])
assert bitstep.cli.main(["quantize", data, "--out", stored, "--bits", "5"]) == 0
assert load_quantized(stored).n_rows == 20
for source in (data, stored):
    assert bitstep.cli.main(["train", source, "--device", "golden", "--epochs", "3", "--out",
                             folder + "/m.npz", "--report", folder + "/r.json"]) == 0
assert bitstep.cli.main(["predict", folder + "/m.npz", data]) == 0
assert bitstep.cli.main(["info"]) == 0 and bitstep.cli.main(["devices"]) == 0
assert bitstep.cli.main(["doctor", "--device", "golden", "--bits", "4"]) == 0
assert bitstep.cli.main(["doctor", "--device", "pynq"]) == 1
assert bitstep.cli.main(["train", "diabetes", "--device", "golden"]) == 1
assert bitstep.cli.main(["train", data, "--device", "sim"]) == 1
assert bitstep.cli.main(["train", data, "--device", "pynq"]) == 1
assert bitstep.PipelineConfig and bitstep.open_device
assert bitstep.quantize and bitstep.train_model
try:
    bitstep.LowPrecisionRegressor
except ImportError as error:
    assert 'pip install "bitstep[sklearn]"' in str(error)
"""


def test_board_needs_numpy_alone(tmp_path):
    data = tmp_path / "data.csv"
    data.write_text("".join(f"{row},{row * row % 7},{2 * row + 1}\n" for row in range(20)))
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path), str(data), str(tmp_path / "quantized.npz")],
        capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr
    assert "pip install 'bitstep[sklearn]'" in run.stderr       # diabetes
    assert 'pip install "bitstep[sim]"' in run.stderr
    assert "Device 'pynq' needs pynq" in run.stderr
