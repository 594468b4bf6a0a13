"""Installs the wheel into clean environments and uses it, for each Python: ``make test-wheel``.

A version of Python that is not on this machine is skipped, and said so at the end. All of them must
train the same model, bit for bit.
"""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from pythons import find_python  # type: ignore  # noqa: E402

FOLDER = ROOT / "build" / "wheel"
VERSIONS = ("3.10", "3.11", "3.12", "3.13", "3.14")
PIP = ("-m", "pip", "--quiet", "--disable-pip-version-check")

# With NumPy alone: files, the golden model, a clear word on what is missing.
BARE = """
import numpy as np, subprocess, sys
rng = np.random.default_rng(0)
rows = rng.normal(size=(200, 5)); rows[:, -1] = rows[:, :-1] @ [1, 2, 3, 4]
np.save("rows.npy", rows)
def bitstep(*words):
    return subprocess.run([sys.executable, "-m", "bitstep", *words], text=True, check=True,
                          capture_output=True).stdout
assert "rows              200" in bitstep("info", "rows.npy")
bitstep("quantize", "rows.npy", "--bits", "3", "--out", "quantized.npz")
said = bitstep("train", "quantized.npz", "--device", "golden", "--epochs", "2", "--out", "bare.npz")
assert "wrote bare.npz" in said, said
try:
    from bitstep import LowPrecisionRegressor
except ImportError as error:
    assert "pip install" in str(error), error
else:
    raise SystemExit("scikit-learn must not be in this environment")
"""
# With the extra for a desk: estimators, a named data set, the report, a plot.
FULL = """
import hashlib, subprocess, sys
import numpy as np
from sklearn.datasets import load_diabetes
from bitstep import LowPrecisionRegressor
def bitstep(*words):
    return subprocess.run([sys.executable, "-m", "bitstep", *words], text=True, check=True,
                          capture_output=True).stdout
X, y = load_diabetes(return_X_y=True)
assert LowPrecisionRegressor(bits=4, random_state=0).fit(X, y).score(X, y) > 0.45
bitstep("train", "diabetes", "--train-rows", "342", "--out", "model.npz", "--plot", "loss.png")
assert "cpu" in bitstep("devices")
bitstep("report", "diabetes", "--compare", "4", "--epochs", "2", "--out", "report.html")
assert "<svg" in open("report.html", encoding="utf-8").read()
with np.load("model.npz") as model:
    print(hashlib.sha256(model["coef"].tobytes()).hexdigest()[:16])
"""


def build_wheel() -> Path:
    """Build the wheel anew, and return its path."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for old in FOLDER.glob("bitstep-*.whl"):
        old.unlink()
    subprocess.run([sys.executable, *PIP, "wheel", "--no-deps", "-w", str(FOLDER), str(ROOT)],
                   check=True)
    wheel, = FOLDER.glob("bitstep-*.whl")
    return wheel


def examine(version: str, python: str, wheel: Path) -> str:
    """Install and use the wheel; return a digest of the model that it trains."""
    folder = FOLDER / version
    inside = str(folder / "bin" / "python")
    subprocess.run([python, "-m", "venv", "--clear", str(folder)], check=True)
    subprocess.run([inside, *PIP, "install", str(wheel)], check=True)
    subprocess.run([inside, "-I", "-c", BARE], check=True, cwd=folder)
    subprocess.run([inside, *PIP, "install", f"bitstep[sklearn] @ {wheel.as_uri()}"], check=True)
    return subprocess.run([inside, "-I", "-c", FULL], check=True, cwd=folder, text=True,
                          stdout=subprocess.PIPE).stdout.strip()


def main() -> int:
    """Examine each version that is here; the exit code is 1 if one fails or none is here."""
    digests, failed, skipped = {}, [], []
    wheel = build_wheel()
    for version in VERSIONS:
        python = find_python(version)
        if python is None:
            skipped.append(version)
            continue
        try:
            digests[version] = examine(version, python, wheel)
            print(f"Python {version}: {wheel.name} works; model {digests[version]}", flush=True)
        except subprocess.CalledProcessError as error:
            failed.append(f"{version} (exit code {error.returncode})")
    for title, names in (("not on this machine", skipped), ("failed", failed)):
        if names:
            print(f"{title}: {', '.join(names)}", flush=True)
    if len(set(digests.values())) > 1:
        print("failed: the models differ", flush=True)
    return 0 if len(set(digests.values())) == 1 and not failed else 1


if __name__ == "__main__":
    sys.exit(main())
