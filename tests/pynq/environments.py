"""Runs the tests of this folder with each pynq, in an environment of its own: ``make test-pynq``.

A version whose Python is not on this machine is skipped, and said so at the end.
"""

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from pythons import find_python  # type: ignore  # noqa: E402

FOLDER = ROOT / "build" / "pynq"
# Versions of pynq, and of Python that each installs on, the one of its SD image first.
VERSIONS = {"4.0.0": ("3.12", "3.11", "3.10"), "3.1.2": ("3.10", "3.11", "3.12"),
            "3.0.1": ("3.10",)}


def make_environment(pynq: str, python: str) -> Path:
    """The Python of an environment with this pynq and this project."""
    folder = FOLDER / f"pynq-{pynq}"
    inside = folder / "bin" / "python"
    stamp = folder / "complete"
    if not stamp.exists():
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([python, "-m", "venv", str(folder)], check=True)
        subprocess.run([str(inside), "-m", "pip", "install", "--quiet",
                        "--disable-pip-version-check", "-e", f"{ROOT}[pynq-sim]",
                        f"pynq=={pynq}"], check=True)
        stamp.touch()
    return inside


def main(arguments: list[str]) -> int:
    """Test every version; what is given goes to pytest."""
    failed, skipped = [], []
    for pynq, pythons in VERSIONS.items():
        python = next(filter(None, map(find_python, pythons)), None)
        if python is None:
            skipped.append(f"pynq {pynq} (needs Python {' or '.join(pythons)})")
            continue
        try:
            inside = make_environment(pynq, python)
        except subprocess.CalledProcessError as error:
            failed.append(f"pynq {pynq} (cannot be installed: {error})")
            continue
        version = subprocess.run([str(inside), "--version"], capture_output=True, text=True)
        print(f"pynq {pynq}, {version.stdout.strip()}", flush=True)
        # pynq and its own dependencies warn of much that is not ours to change.
        run = subprocess.run([str(inside), "-m", "pytest", "-q", "-o", "filterwarnings=default",
                              "--disable-warnings", "-p", "no:cacheprovider",
                              str(ROOT / "tests" / "pynq"), *arguments], cwd=ROOT)
        if run.returncode != 0:
            failed.append(f"pynq {pynq}")
    for title, names in (("skipped", skipped), ("failed", failed)):
        if names:
            print(f"{title}: {'; '.join(names)}", flush=True)
    return 1 if failed or len(skipped) == len(VERSIONS) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
