"""Runs the tests with the oldest versions that ``pyproject.toml`` allows: ``make test-oldest``.

The Python is 3.10 where there is one, else that of this file. What packages need besides has its
newest version.
"""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from pythons import find_python  # type: ignore  # noqa: E402

FOLDER = ROOT / "build" / "oldest"
PIP = ("-m", "pip", "--quiet", "--disable-pip-version-check")


def main() -> int:
    """Install them, then run pytest with the arguments of this program; its exit code."""
    python = find_python("3.10") or sys.executable
    inside = str(FOLDER / "bin" / "python")
    subprocess.run([python, "-m", "venv", "--clear", str(FOLDER)], check=True)
    # pip installs the newest versions alone; uv can choose the oldest.
    subprocess.run([inside, *PIP, "install", "uv"], check=True)
    subprocess.run([inside, "-m", "uv", "--quiet", "pip", "install", "--python", inside,
                    "--resolution", "lowest-direct", "-e", f"{ROOT}[dev]"], check=True)
    subprocess.run([inside, "-m", "uv", "pip", "list", "--python", inside], check=True)
    # Old packages call what newer ones beside them no longer want to be called.
    return subprocess.run([inside, "-m", "pytest", "-W", "ignore::DeprecationWarning",
                           *sys.argv[1:]], cwd=ROOT).returncode


if __name__ == "__main__":
    sys.exit(main())
