"""Archives of a release: what is in them."""

import json
import os
import shutil
import subprocess
import zipfile

import pytest
from stubbed_vivado import BIT_PLANES, SMALL

from bitstep import __version__
from bitstep.pipeline.boards import BoardFacts
from bitstep.pipeline.manifest import FileSum, Manifest
from bitstep_hw.boards.release import main

STEM = f"bitstep-{__version__}-pynq-z2-vivado"


@pytest.fixture
def small(monkeypatch):
    """Boards of small pipelines."""
    monkeypatch.setattr(BoardFacts, "config", lambda board, bits: SMALL)
    monkeypatch.setattr(BoardFacts, "bit_plane_config", lambda board: BIT_PLANES)


def test_script_that_fails(tmp_path, monkeypatch, small):
    """Goes on with the next folder, and says which failed."""
    assert main(["pynq-z2", "--out", str(tmp_path)]) == 0
    shutil.unpack_archive(tmp_path / f"{STEM}.zip", tmp_path)
    (tmp_path / "vivado").write_text("#!/bin/sh\nexit 3\n")
    (tmp_path / "vivado").chmod(0o755)
    done = subprocess.run(["sh", tmp_path / STEM / "build.sh"], capture_output=True, text=True,
                          env={"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}, timeout=120)
    assert done.returncode == 1
    assert done.stderr.split(":", 1)[1].split(";")[0].split() == [
        f"pynq-z2-{BIT_PLANES.name}/", f"pynq-z2-{SMALL.name}/"]


def test_archives_are_the_same_each_time(tmp_path, small):
    made = []
    for name in ("one", "two"):
        assert main(["kv260", "--out", str(tmp_path / name)]) == 0
        made.append(next((tmp_path / name).iterdir()).read_bytes())
    assert made[0] == made[1]


def test_ulx3s(tmp_path, monkeypatch, capsys):
    """The bitstream of each manifest; none that is missing, or another."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bitstreams").mkdir()
    assert main(["ulx3s-85f"]) == 1
    assert "bitstreams must hold a manifest of ulx3s-85f" in capsys.readouterr().err
    built = tmp_path / "build" / "ecp5" / "ulx3s-85f-small.bit"
    manifest = tmp_path / "bitstreams" / "ulx3s-85f-small.json"
    built.parent.mkdir(parents=True)
    built.write_bytes(b"bits")
    Manifest(board="ulx3s-85f", config=SMALL, identity=1, bitstream=FileSum.of(built)).write(
        manifest)
    assert main(["ulx3s-85f"]) == 0
    with zipfile.ZipFile(tmp_path / "dist" / f"bitstep-{__version__}-ulx3s-85f.zip") as archive:
        found = {name.rpartition("/")[2]: archive.read(name) for name in archive.namelist()}
    assert found["ulx3s-85f-small.bit"] == b"bits"
    assert json.loads(found["ulx3s-85f-small.json"])["board"] == "ulx3s-85f"
    built.write_bytes(b"others")
    assert main(["ulx3s-85f"]) == 1
    assert "has another checksum" in capsys.readouterr().err
    built.unlink()
    assert main(["ulx3s-85f"]) == 1
    assert "small.bit must be there for bitstreams/ulx3s-85f-small.json" in capsys.readouterr().err


def test_unknown_board(capsys):
    with pytest.raises(SystemExit):
        main(["ecp6"])
    assert "must be one of pynq-z1, pynq-z2, ultra96, kv260, ulx3s-85f, not 'ecp6'" in \
        capsys.readouterr().err
