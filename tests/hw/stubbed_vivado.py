"""Vivado's part of the tests: its Tcl in a real tclsh, with a Vivado that only lays out its folders
(``stubbed_vivado.tcl``), and pipelines that are small.
"""

import base64
import functools
import os
import shutil
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from bitstep.pipeline.config import PipelineConfig
from bitstep_sim.board.verilog import generate

STUB = Path(__file__).with_suffix(".tcl")
SMALL = PipelineConfig(bits=4, max_features=32, lookahead=0)
REFETCHING = PipelineConfig(bits=8, max_features=8, lookahead=0, refetch=True, minibatch=False,
                            corrections=False)
BIT_PLANES = PipelineConfig(bits=16, row_format="bit_planes", max_features=8, lookahead=0,
                            minibatch=False, corrections=False)
MODELS = PipelineConfig(bits=4, max_features=32, lookahead=0, models=2)
TWO_ROW_PORTS = replace(SMALL, bus_width=128, row_ports=2)
FOUR_ROW_PORTS = replace(REFETCHING, bus_width=256, row_ports=4)
# Bit-plane rows have the ports of the first (test_same_ports_as_the_others).
WITH_OTHER_PORTS = [
    pytest.param(SMALL, id="two ports", marks=pytest.mark.slow),
    pytest.param(REFETCHING, id="three ports"),
    pytest.param(TWO_ROW_PORTS, id="two ports of rows", marks=pytest.mark.slow),
    pytest.param(FOUR_ROW_PORTS, id="four ports of rows"),
    pytest.param(BIT_PLANES, id="bit-plane rows", marks=pytest.mark.slow)]


def bitstream(payload=b"bits", part=b"7z020clg400"):
    """Make a .bit: four fields of text, then the length of what follows."""
    fields = (b"bitstep_wrapper;UserID=0XFFFFFFFF;Version=2022.1", part, b"2022/05/05", b"12:00:00")
    head = bytes.fromhex("00090ff00ff00ff00ff0000001") + b"".join(
        tag + (len(text) + 1).to_bytes(2, "big") + text + b"\0"
        for tag, text in zip((b"a", b"b", b"c", b"d"), fields, strict=True))
    return head + b"e" + len(payload).to_bytes(4, "big") + payload


@functools.cache
def verilog(config):
    """Verilog of a pipeline, from the cache folder unless the code is another."""
    return generate(config, flat=False)


def tclsh():
    """Path of the interpreter; without one the test is skipped."""
    return shutil.which("tclsh", path="/usr/bin:/usr/local/bin:" + os.environ.get("PATH", "")) \
        or pytest.skip("needs tclsh, Tcl's interpreter (apt install tcl)")


@dataclass(frozen=True)
class Session:
    """A run of Vivado: its exit code, all that it printed, and every command with its words."""

    code: int
    output: str
    calls: list[tuple[str, ...]]

    def named(self, name):
        return [call[1:] for call in self.calls if call[0] == name]

    @property
    def steps(self):
        """Steps that were carried out, as ``run:step``."""
        return [":".join(words) for words in self.named("step")]


def environment(folder, *, answers=(), version="2022.1", breaks="", fails="", files=None):
    """Environment of the stub.

    Parameters
    ----------
    folder : Path
        For files of its own.
    answers : sequence of tuple
        Pairs of the first words of a command and the text that it returns.
    version : str
    breaks, fails : str
        Step, such as ``impl_1:place_design``, in which Vivado is killed or that ends in an error.
    files : Path, optional
        Folder with contents of the files that Vivado makes.
    """
    told = folder / "answers.tcl"
    told.write_text("".join(f"lappend stub_answers {{{' '.join(f'{{{word}}}' for word in words)}}} "
                            f"{{{value}}}\n" for words, value in answers))
    return {**os.environ, "STUB_CALLS": str(folder / "calls.txt"), "STUB_ANSWERS": str(told),
            "STUB_VERSION": version, "STUB_BREAK": breaks, "STUB_FAIL": fails,
            "STUB_FILES": str(files or "")}


def calls(folder):
    """Commands that the stub was given in an environment with this folder."""
    path = folder / "calls.txt"
    lines = path.read_text().splitlines() if path.exists() else []
    return [tuple("" if word == "-" else base64.b64decode(word).decode() for word in line.split())
            for line in lines]


def run_vivado(work, **options):
    """Run ``build.tcl`` in a folder of sources, as Vivado would.

    Parameters
    ----------
    work : Path
    options
        Of :func:`environment`.
    """
    folder = work.parent
    (folder / "calls.txt").unlink(missing_ok=True)
    run = subprocess.run([tclsh(), STUB, work / "build.tcl"], env=environment(folder, **options),
                         cwd="/", capture_output=True, text=True, timeout=60)
    return Session(run.returncode, run.stdout + run.stderr, calls(folder))


def variables(text, *names):
    """Values of variables that a Tcl script sets, each as the list of its words."""
    shown = "".join(f"puts [lmap word ${name} {{binary encode hex $word}}]\n" for name in names)
    run = subprocess.run([tclsh()], input=f"set here /nowhere\n{text}\n{shown}", text=True,
                         capture_output=True, check=True, timeout=60)
    return [[bytes.fromhex(word).decode("latin-1") for word in line.split()]
            for line in run.stdout.splitlines()]
