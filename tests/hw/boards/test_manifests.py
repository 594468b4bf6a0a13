"""Manifests of the repository: they are those of these sources."""

import json
from pathlib import Path

import pytest

from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.registers import MAP_VERSION
from bitstep_sim.board.verilog import identity

MANIFESTS = sorted((Path(__file__).parents[3] / "bitstreams").glob("*.json"))


def test_there_is_a_manifest():
    assert MANIFESTS


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.stem)
def test_a_manifest_has_the_identity_of_these_sources(path):
    """If not: build that bitstream again (docs/boards-ecp5.md) and commit its manifest."""
    content = json.loads(path.read_text(encoding="utf-8"))
    found = identity(PipelineConfig(**content["config"]))
    assert content["identity"] == f"{found:032x}", f"{path.name} is of other sources: build anew"
    assert content["register_map"] == MAP_VERSION
