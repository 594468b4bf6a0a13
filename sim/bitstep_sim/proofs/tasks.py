"""One property proved, or one fault tried: the work of the command's processes.

It is no part of ``__main__``, which a process that Python 3.14 starts cannot import.
"""

import os
import subprocess
import sys
from pathlib import Path

from bitstep_sim.board.verilator import ToolError
from bitstep_sim.proofs import axi, pipelines, queues, ranges, registers, slots, streams
from bitstep_sim.proofs.formal import Property
from bitstep_sim.proofs.mutation import Mutation, mutated
from bitstep_sim.proofs.prover import FAILED, PROVED, REACHED, ProverError, prove, reach

# In the order of docs/results/proofs.md.
PROPERTIES = [*streams.PROPERTIES, *queues.PROPERTIES, *axi.PROPERTIES, *slots.PROPERTIES,
              *pipelines.PROPERTIES, *ranges.PROPERTIES, *registers.PROPERTIES]


def find(name: str) -> Property:
    """Find a property by its name.

    Raises
    ------
    LookupError
        If none has this name.
    """
    for prop in PROPERTIES:
        if prop.name == name:
            return prop
    raise LookupError(f"There is no property {name!r}")


def proved(name: str, keep: Path | None, anew: bool) -> tuple[bool, str, str]:
    """Prove a property, and find runs that reach what it claims: True if both is done, seconds of
    both, and the result in words.
    """
    anew = anew or keep is not None
    try:
        prop = find(name)
        outcome = prove(prop, keep=keep and keep / name, anew=anew)
        seconds, text = outcome.seconds, f"{outcome.result} {outcome.detail}".strip()
        text += " before" * outcome.earlier
        if outcome.result != PROVED or prop.wires:
            return outcome.result == PROVED, f"{seconds:.1f}", text
        outcome = reach(prop, keep=keep and keep / f"{name}-reach", anew=anew)
    except (ProverError, ToolError, LookupError) as error:
        return False, "", f"error: {error}"
    seconds += outcome.seconds
    text += f", {outcome.detail}" if outcome.result == REACHED else \
        f", {outcome.result}: {outcome.detail}"
    text += " before" * outcome.earlier
    return outcome.result == REACHED, f"{seconds:.1f}", text


def breaks(name: str, mutation: Mutation) -> tuple[bool, str, str]:
    """Look for a counterexample with the fault in the RTL, in a process of its own: True if there
    is one, seconds, and the result in words.
    """
    with mutated(mutation) as folder:
        path = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
        ended = subprocess.run(
            [sys.executable, "-m", "bitstep_sim.proofs", "--search", name], capture_output=True,
            text=True, env={**os.environ, "PYTHONPATH": path})
    result, seconds, detail = [*ended.stdout.strip().split("\t"), "", "", ""][:3]
    if ended.returncode != 0:
        result, detail = "error", (ended.stderr.strip().splitlines() or [""])[-1]
    word = "breaks" if result == FAILED else result
    return result == FAILED, seconds, f"{word} {detail}; {mutation}"
