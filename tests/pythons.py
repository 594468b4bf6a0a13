"""Versions of Python on this machine, for tests in environments of their own."""

import os
import shutil
import subprocess
import sys
from pathlib import Path


def find_python(version: str) -> str | None:
    """A Python of this version (3.x) that can make environments; None if there is none."""
    roots = [Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")]
    candidates = [sys.executable, shutil.which(f"python{version}")]
    candidates += [str(path) for root in roots for path in root.glob(f"{version}.*/bin/python")]
    check = f"import sys, venv, ensurepip; sys.exit('%d.%d' % sys.version_info[:2] != '{version}')"
    for candidate in filter(None, candidates):
        if subprocess.run([candidate, "-c", check], capture_output=True).returncode == 0:
            return candidate
    return None
