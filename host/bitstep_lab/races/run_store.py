"""Results of finished runs in a folder, so that what was run once is not run again."""

import functools
import hashlib
import importlib.util
import json
import platform
from pathlib import Path
from typing import Any

import numpy as np

from bitstep.machine import available_cores
from bitstep.writing import write_text

# Of the packages, what does not change a run.
NO_PART = {"cli", "data", "doctor", "boards", "benches", "proofs", "pynq_board", "reports",
           "estimators", "model_file.py", "deploy.py", "coverage.py", "fault_runs.py",
           "faults.py"}


class RunStore:
    """One JSON file for each run, named by a hash of everything that its result depends on.

    Parameters
    ----------
    folder : path or None
        Made when the first result is stored; None stores nothing.
    """

    def __init__(self, folder: str | Path | None):
        self._folder = None if folder is None else Path(folder)

    def get(self, key: str) -> dict[str, Any] | None:
        """The result of a run, or None if it was not run yet."""
        if self._folder is None:
            return None
        try:
            found = json.loads((self._folder / f"{key}.json").read_text("utf-8"))
        except (OSError, ValueError, RecursionError):   # none, or cut off by a full disk
            return None
        # A file that somebody changed is none, whatever it holds: run again.
        whole = isinstance(found, dict) and set(found) == {"digest", "result"} \
            and found["digest"] == digest(found["result"])
        return found["result"] if whole else None

    def put(self, key: str, result: dict[str, Any]) -> None:
        """Store a result, whole or not at all."""
        if self._folder is None:
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        found = json.loads(json.dumps(result))      # what get reads: its names are strings
        write_text(self._folder / f"{key}.json",
                   json.dumps({"digest": digest(found), "result": found}))


def digest(*parts: Any) -> str:
    """Hash of arrays, and of what JSON can hold."""
    total = hashlib.sha256()
    for part in parts:
        if isinstance(part, np.ndarray):
            total.update(f"{part.dtype.str}{part.shape}".encode())
            total.update(np.ascontiguousarray(part).view(np.uint8).reshape(-1).data)
        else:
            total.update(json.dumps(part, sort_keys=True, default=str).encode())
    return total.hexdigest()[:32]


@functools.cache
def code_version(packages: tuple[str, ...] = ("bitstep", "bitstep_hw", "bitstep_sim"), *,
                 races: tuple[str, ...] = ("contestants.py", "board_runs.py")) -> str:
    """Hash of the sources that a run's result depends on, as they were at the first call.

    Parameters
    ----------
    packages : tuple of str
        Found, not imported; those not installed are left out, and so is what is no part of a run:
        commands, readers of files, estimators.
    races : tuple of str
        Files of this folder that count.
    """
    here = Path(__file__).parent
    files = [(f"races/{name}", here / name) for name in races]
    for package in packages:
        spec = importlib.util.find_spec(package)
        for folder in (spec.submodule_search_locations or ()) if spec else ():
            for path in sorted(Path(folder).rglob("*")):
                parts = path.relative_to(folder).parts
                if path.suffix in (".py", ".cpp", ".h") and not NO_PART & set(parts):
                    files.append(("/".join((package, *parts)), path))
    total = hashlib.sha256()
    for name, path in files:
        total.update(name.encode() + b"\0" + path.read_bytes() + b"\0")
    return total.hexdigest()[:16]


def machine() -> dict[str, Any]:
    """The machine that CPU times are of."""
    model = platform.processor()
    try:
        for line in Path("/proc/cpuinfo").read_text("utf-8").splitlines():
            if line.startswith("model name"):
                model = line.partition(":")[2].strip()
                break
    except OSError:
        pass
    return {"cpu": model, "cores": available_cores(),
            "system": f"{platform.system()} {platform.machine()}"}
