"""Bitstreams for PYNQ: where they are, their check against the manifest, and the choice of one."""

import os
from dataclasses import dataclass
from pathlib import Path

from bitstep.pipeline.config import PARTS, PipelineConfig
from bitstep.pipeline.manifest import Manifest, read_manifest
from bitstep.pipeline.parts.formats import BIT_PLANES
from bitstep.pipeline.results import DeviceError

_REMEDY = ("Choose bits and bus_width accordingly",
           "Choose rows of fixed bits instead of bit-plane rows, or another bus_width")
DEFAULT_FOLDER = Path("/usr/local/share/bitstep/bitstreams")


def bitstream_folder() -> Path:
    """Return BITSTEP_BITSTREAMS, else the folder that ``bitstep deploy`` fills."""
    return Path(os.environ.get("BITSTEP_BITSTREAMS") or DEFAULT_FOLDER)


@dataclass(frozen=True)
class Bitstream:
    """A bitstream whose files agree with its manifest.

    Attributes
    ----------
    path : Path
        The .bit; .hwh and .json stand beside it.
    manifest : Manifest
    """

    path: Path
    manifest: Manifest


def read_bitstream(path: str | Path) -> Bitstream:
    """Check a bitstream against its manifest.

    Parameters
    ----------
    path : path
        The .bit file, or the .hwh or .json beside it.

    Raises
    ------
    DeviceError
        If .bit, .hwh or .json are missing, cannot be read or are not of one build; the message
        says which.
    """
    # pynq looks for relative paths in its own folders first.
    path = Path(path).absolute().with_suffix(".bit")
    for suffix, what in ((".bit", "bitstream"), (".hwh", "description of its hardware"),
                         (".json", "manifest")):
        if not path.with_suffix(suffix).is_file():
            raise DeviceError(
                f"The {what} {path.with_suffix(suffix)} does not exist: a bitstream needs its "
                ".bit, .hwh and .json side by side, as `make bitstream` writes and `bitstep "
                "deploy` copies them")
    manifest = _manifest(path.with_suffix(".json"))
    for suffix, expected in ((".bit", manifest.bitstream), (".hwh", manifest.handoff)):
        if expected is None or not expected.matches(path.with_suffix(suffix)):
            raise DeviceError(f"{path.with_suffix(suffix)} is not the file that "
                              f"{path.with_suffix('.json')} describes: it was copied in part, or "
                              "is of another build; copy .bit, .hwh and .json again")
    return Bitstream(path, manifest)


def _manifest(path):
    return read_manifest(path, "a bitstream for PYNQ", "board", "clock_hz", "bitstream", "handoff")


def manifests_of(bitfile: str | Path | None) -> list[Manifest]:
    """Return the manifest of a .bit file; without one, those of :func:`bitstream_folder`."""
    if bitfile is not None:
        return [_manifest(Path(bitfile).with_suffix(".json"))]
    return list(_manifests(bitstream_folder()).values())


def _manifests(folder):
    """Manifests of a folder by their .bit files, in the order of names; not those of boards without
    .bit files, as a clone's bitstreams/ has them.
    """
    return {manifest.with_suffix(".bit"): _manifest(manifest)
            for manifest in sorted(folder.glob("*.json"))
            if manifest.with_suffix(".bit").is_file()}


def find_bitstream(config: PipelineConfig, folder: Path | None = None) -> Path:
    """Return the bitstream of a folder that runs the jobs of a configuration; of several one with
    mini-batches, then with corrections, then with the longest rows, then with the most models, and
    of those the first by name.

    Parameters
    ----------
    config : PipelineConfig
        The pipeline that the data need; see :meth:`PipelineConfig.runs`.
    folder : Path, optional
        Default: :func:`bitstream_folder`.

    Raises
    ------
    DeviceError
        If there is none; the message lists what there is.
    """
    folder = bitstream_folder() if folder is None else folder
    present = {path: manifest.config for path, manifest in _manifests(folder).items()}
    extras = {path: (built.minibatch, built.corrections, built.max_features, built.models)
              for path, built in present.items() if built.runs(config)}
    if not extras:
        names = ", ".join(built.name for built in present.values())
        raise DeviceError(
            f"No bitstream in {folder} is for {config.bits} bits, a {config.bus_width}-bit bus, "
            f"row format {config.row_format!r} and loss family {config.loss_family!r}"
            f"{_parts_of(config)}; there are: {names or 'none'}. "
            f"{_REMEDY[config.row_format == BIT_PLANES]}, copy another with `bitstep deploy`, or "
            "name one as bitfile")
    return max(extras, key=lambda path: extras[path])


def _parts_of(config):
    """What else of a pipeline decides whether it runs the same jobs, as the end of a sentence."""
    names = ["codebooks", "packed", "model_bits", *PARTS, *["lookahead"] * config.rows.floating]
    values = {name: value for name in names if (value := getattr(config, name))}
    return "".join(f", {name}" if value is True else f", {name}={value}"
                   for name, value in values.items())
