"""The manifest of a bitstream: the JSON file that stands beside it."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.parts.widths import MAX_CLOCK_MHZ
from bitstep.pipeline.registers import MAP_VERSION
from bitstep.pipeline.results import DeviceError


@dataclass(frozen=True)
class FileSum:
    """Size and checksum of a file.

    Attributes
    ----------
    n_bytes : int or None
        None where a manifest does not tell.
    sha256 : str
        In hexadecimal digits.
    """

    n_bytes: int | None
    sha256: str

    @classmethod
    def of(cls, path: Path) -> "FileSum":
        """Return size and checksum of the file at ``path``."""
        content = path.read_bytes()
        return cls(len(content), hashlib.sha256(content).hexdigest())

    def matches(self, path: Path) -> bool:
        """Return True if the file at ``path`` has this checksum."""
        return FileSum.of(path).sha256 == self.sha256


@dataclass(frozen=True)
class Manifest:
    """A bitstream: what it holds, how it was made, and the checksums of its files.

    Attributes
    ----------
    board : str
        Name of the board that it is for.
    config : PipelineConfig
    identity : int
        The value of its IDENTITY registers, 128 bits.
    register_map : int
        Version of its register map.
    system : mapping
        Its surroundings, such as the rate of a serial line.
    clock_mhz : mapping of str to float
        ``constraint``: the clock that it was placed and routed for; ``achieved``: the fastest.
    slack_ns : mapping of str to float, or None
        Worst slack of each kind, where the tools tell it.
    resources : mapping
        For each kind of resource the used and the available number.
    tools : mapping of str to str
        Versions of the tools.
    seed : int or None
        Seed of the placer, where it has one.
    placer : str or None
        The placer, where it is not the tools' own choice.
    placer_alpha : float or None
        How hard the placer pulls, where that is not the placer's own choice.
    bitstream, handoff : FileSum or None
        The .bit and, for PYNQ, the .hwh.
    """

    board: str
    config: PipelineConfig
    identity: int
    register_map: int = MAP_VERSION
    system: Mapping[str, Any] = field(default_factory=dict)
    clock_mhz: Mapping[str, float] = field(default_factory=dict)
    slack_ns: Mapping[str, float] | None = None
    resources: Mapping[str, Any] = field(default_factory=dict)
    tools: Mapping[str, str] = field(default_factory=dict)
    seed: int | None = None
    placer: str | None = None
    placer_alpha: float | None = None
    bitstream: FileSum | None = None
    handoff: FileSum | None = None

    @property
    def clock_hz(self) -> float:
        """Clock that it was placed and routed for; KeyError if it is not told, ValueError if it is
        none.
        """
        mhz = float(self.clock_mhz["constraint"])
        if not 0 < mhz < MAX_CLOCK_MHZ:
            raise ValueError(f"the clock must be a number of MHz above 0, not {mhz:g}")
        return 1e6 * mhz

    @property
    def baud(self) -> int:
        """Rate of its serial line; KeyError if it has none, ValueError if it is none."""
        baud = int(self.system["baud"])
        if baud < 1:
            raise ValueError(f"baud must be at least 1, not {baud}")
        return baud

    def text(self) -> str:
        """Return the content of the file."""
        content = {
            "board": self.board, "config": self.config.to_dict(),
            "identity": f"{self.identity:032x}", "register_map": self.register_map,
            "system": self.system, "clock_mhz": self.clock_mhz, "slack_ns": self.slack_ns,
            "resources": self.resources, "tools": self.tools, "seed": self.seed,
            "placer": self.placer, "placer_alpha": self.placer_alpha,
            "bitstream": _sum_entry(self.bitstream), "handoff": _sum_entry(self.handoff)}
        told = {key: value for key, value in content.items() if value is not None}
        return json.dumps(told, indent=2) + "\n"

    def write(self, path: Path) -> None:
        """Write the file."""
        path.write_text(self.text(), encoding="utf-8")


def read_manifest(path: str | Path, kind: str, *needed: str) -> Manifest:
    """Read a manifest.

    Parameters
    ----------
    path : path
        The .json file.
    kind : str
        The kind of bitstream that it must be of, for messages.
    *needed : str
        Attributes of :class:`Manifest` that it must have besides ``config`` and ``identity``.

    Raises
    ------
    DeviceError
        If it cannot be read or is of another kind of bitstream.
    """
    try:
        found = _parse(json.loads(Path(path).read_text(encoding="utf-8"),
                                  object_pairs_hook=_once))
        for name in needed:
            if getattr(found, name) in (None, ""):
                raise KeyError(name)
        return found
    except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError,
            RecursionError) as error:
        raise DeviceError(f"{path} is no manifest of {kind}: {_reason(error)}; take the .json "
                          "file that was made beside the bitstream") from error


def _reason(error):
    if isinstance(error, FileNotFoundError):
        return "there is no such file"
    if isinstance(error, OSError):
        return error.strerror
    if isinstance(error, json.JSONDecodeError):
        return f"it is not JSON ({error})"
    return f"it lacks {error}" if isinstance(error, KeyError) else \
        f"{type(error).__name__}: {error}"


def _once(pairs):
    """An object of JSON, each of whose names stands once: of two values the last would be taken."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in found if names.count(name) > 1)
        raise ValueError(f"{twice!r} is in it twice")
    return found


def _parse(content: Any) -> Manifest:
    config, resources = content["config"], content.get("resources", {})
    for name, entry in (("config", config), ("resources", resources)):
        _check_object(name, entry)
    if "bits" not in config:        # of others an older manifest has the default
        raise KeyError("bits")
    for kind, entry in resources.items():
        found = _numbers(f"resources.{kind}", entry)
        if not found["used"] >= 0 or not found["available"] > 0:
            raise ValueError(f"resources.{kind} must have a number used of some available, not "
                             f"{found['used']:g} of {found['available']:g}")
    return Manifest(
        board=str(content.get("board", "")), config=PipelineConfig(**config),
        identity=int(content["identity"], 16),
        register_map=content.get("register_map", MAP_VERSION),
        system=content.get("system", {}),
        clock_mhz=_numbers("clock_mhz", content.get("clock_mhz", {})),
        slack_ns=content.get("slack_ns"), resources=resources,
        tools=content.get("tools", {}), seed=content.get("seed"),
        placer=content.get("placer"), placer_alpha=content.get("placer_alpha"),
        bitstream=_parse_sum(content.get("bitstream")), handoff=_parse_sum(content.get("handoff")))


def _check_object(name: str, entry: Any) -> None:
    if not isinstance(entry, dict):
        raise TypeError(f"{name} must be an object, not {entry!r}")


def _numbers(name: str, entry: Any) -> dict[str, Any]:
    """An object of JSON whose values are numbers."""
    _check_object(name, entry)
    for key, value in entry.items():
        if not isinstance(value, (int, float)) or isinstance(value, bool):
            raise TypeError(f"{name}.{key} must be a number, not {value!r}")
    return entry


def _sum_entry(found):
    return None if found is None else {"bytes": found.n_bytes, "sha256": found.sha256}


def _parse_sum(entry):
    return None if entry is None else FileSum(entry.get("bytes"), str(entry["sha256"]))
