"""Manifests: what is written is read, and the files of the repository are such."""

import dataclasses
import json
import re
from pathlib import Path

import pytest

from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.manifest import FileSum, Manifest, read_manifest
from bitstep.pipeline.results import DeviceError

BITSTREAMS = Path(__file__).parents[3] / "bitstreams"
SERIAL = Manifest(
    board="board", config=PipelineConfig(bits=3), identity=5, system={"baud": 1000},
    clock_mhz={"constraint": 40, "achieved": 41.5}, resources={"LUT": {"used": 1, "available": 2}},
    tools={"tool": "1.0"}, seed=3, bitstream=FileSum(4, "ab"))
PYNQ = dataclasses.replace(SERIAL, system={"part": "x"}, slack_ns={"setup": 0.1}, seed=None,
                           handoff=FileSum(6, "cd"))
PULLED = dataclasses.replace(SERIAL, placer_alpha=0.05)
PUSHED = dataclasses.replace(SERIAL, placer="static")


@pytest.mark.parametrize("manifest", [SERIAL, PYNQ, PULLED, PUSHED])
def test_what_is_written_is_read(tmp_path, manifest):
    path = tmp_path / "x.json"
    manifest.write(path)
    assert read_manifest(path, "anything", "bitstream", "clock_hz") == manifest


def test_keys_and_their_order(tmp_path):
    assert list(json.loads(SERIAL.text())) == [
        "board", "config", "identity", "register_map", "system", "clock_mhz", "resources", "tools",
        "seed", "bitstream"]
    assert list(json.loads(PULLED.text()))[-3:] == ["seed", "placer_alpha", "bitstream"]
    assert list(json.loads(PYNQ.text())) == [
        "board", "config", "identity", "register_map", "system", "clock_mhz", "slack_ns",
        "resources", "tools", "bitstream", "handoff"]
    assert json.loads(SERIAL.text())["identity"] == "0" * 31 + "5"


def test_manifests_of_the_repository():
    paths = sorted(BITSTREAMS.glob("*.json"))
    assert paths
    for path in paths:
        manifest = read_manifest(path, "a bitstream with a serial line", "baud", "bitstream")
        assert manifest.text() == path.read_text(encoding="utf-8")


def test_checksums(tmp_path):
    path = tmp_path / "x.bit"
    path.write_bytes(b"bits")
    found = FileSum.of(path)
    assert found.n_bytes == 4
    assert found.matches(path)
    path.write_bytes(b"bitt")
    assert not found.matches(path)


@pytest.mark.parametrize("manifest, needed, missing", [
    (PYNQ, "baud", "it lacks 'baud'"), (SERIAL, "handoff", "it lacks 'handoff'"),
    (dataclasses.replace(SERIAL, clock_mhz={}), "clock_hz", "it lacks 'constraint'"),
    (dataclasses.replace(SERIAL, board=""), "board", "it lacks 'board'"),
    (dataclasses.replace(SERIAL, system={"baud": "x"}), "baud", "ValueError: invalid literal"),
    (dataclasses.replace(SERIAL, system={"baud": 0}), "baud", "ValueError: baud must be at"),
    (dataclasses.replace(SERIAL, system={"baud": float("inf")}), "baud", "OverflowError: cannot"),
    *((dataclasses.replace(SERIAL, clock_mhz={"constraint": mhz}), "clock_hz",
       "ValueError: the clock must be a number of MHz above 0, not") for mhz in
      (0, -40, float("inf"), float("nan")))])
def test_another_kind(tmp_path, manifest, needed, missing):
    path = tmp_path / "x.json"
    manifest.write(path)
    with pytest.raises(DeviceError, match=f"is no manifest of a bitstream of a kind: {missing}.*"
                                          "take the .json file that was made beside"):
        read_manifest(path, "a bitstream of a kind", needed)


@pytest.mark.parametrize("change, message", [
    ({"resources": "x"}, "TypeError: resources must be an object, not 'x'"),
    ({"resources": {"LUT": 5}}, "TypeError: resources.LUT must be an object, not 5"),
    ({"resources": {"LUT": {"used": "x", "available": 2}}},
     "TypeError: resources.LUT.used must be a number, not 'x'"),
    ({"resources": {"LUT": {"used": 1}}}, "it lacks 'available'"),
    ({"resources": {"LUT": {"used": 1, "available": 0}}},
     "ValueError: resources.LUT must have a number used of some available, not 1 of 0"),
    ({"clock_mhz": 40}, "TypeError: clock_mhz must be an object, not 40"),
    ({"clock_mhz": {"constraint": "x"}}, "TypeError: clock_mhz.constraint must be a number, not"),
    ({"clock_mhz": {"constraint": 40, "achieved": None}},
     "TypeError: clock_mhz.achieved must be a number, not None"),
    ({"config": {"max_features": 64}}, "it lacks 'bits'"),
    ({"config": 4}, "TypeError: config must be an object, not 4")])
def test_values_of_another_type(tmp_path, change, message):
    path = tmp_path / "x.json"
    path.write_text(json.dumps(json.loads(SERIAL.text()) | change))
    with pytest.raises(DeviceError, match=f"is no manifest of a kind: {re.escape(message)}"):
        read_manifest(path, "a kind")


@pytest.mark.parametrize("name, again", [
    ("identity", SERIAL.text().replace('"identity"', '"identity": "6", "identity"')),
    ("bits", SERIAL.text().replace('"bits": 3', '"bits": 3, "bits": 4'))])
def test_name_that_is_there_twice(tmp_path, name, again):
    """The last value would be taken without a word."""
    path = tmp_path / "x.json"
    path.write_text(again)
    with pytest.raises(DeviceError, match=f"is no manifest of a kind: ValueError: '{name}' is in "
                                          "it twice"):
        read_manifest(path, "a kind")


def test_nested_without_end(tmp_path):
    path = tmp_path / "x.json"
    path.write_text("[" * 100_000)
    with pytest.raises(DeviceError, match="is no manifest of a kind: RecursionError"):
        read_manifest(path, "a kind")
