"""Runs of tests with a fault in the RTL generators, in a copy of the sources."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from bitstep_sim.proofs.mutation import Mutation, mutated

LIMIT_S = 3600      # of the tests of a fault
PASSED, FAILED, NO_TESTS = 0, 1, 5      # codes with which pytest ends


@dataclass(frozen=True)
class Fault:
    """A fault of a kind, and the tests that must find it.

    Parameters
    ----------
    kind : str
        The mistake, in words.
    mutation : Mutation
        The changed line.
    tests : tuple of str
        Files in ``tests/hw``; empty if only runs of the simulated board find it.
    board : str
        File in ``tests/sim`` and, behind ``::``, the words that choose its tests (``-k`` of
        pytest).
    equivalent : str
        Why none can find it; empty for all others.
    """

    kind: str
    mutation: Mutation
    tests: tuple[str, ...] = ()
    board: str = ""
    equivalent: str = ""

    @property
    def arguments(self) -> list[str]:
        """Arguments of pytest."""
        if not self.board:
            return [f"tests/hw/{name}" for name in self.tests]
        name, _, words = self.board.partition("::")
        return [f"tests/sim/{name}", "-k", words]


def fault_of(kind: str, file: str, old: str, new: str, *tests: str, board: str = "",
             equivalent: str = "") -> Fault:
    """A fault of one change in a file; where nothing else is said, the tests of that file find it.

    Parameters
    ----------
    kind, file, old, new
        See :class:`Fault` and :class:`bitstep_sim.proofs.mutation.Mutation`.
    tests, board, equivalent
        See :class:`Fault`.
    """
    folder, _, name = file.rpartition("/")
    names = tests or (() if board else (f"{folder}/test_{name}",))
    return Fault(kind, Mutation(file, old, new), names, board, equivalent)


def run_fault(fault: Fault) -> str:
    """Run the tests that must find a fault: those by day, and if it survives them, those by night.

    Returns
    -------
    str
        ``killed``, or ``survives`` if none of the tests fails.

    Raises
    ------
    RuntimeError
        If pytest ends in any other way than with passed or failed tests, or not within an hour.
    """
    with mutated(fault.mutation) as folder:
        ends = []
        for marks in ("not slow", "slow"):
            ended = _run_tests(fault, folder, marks)
            if ended.returncode == FAILED:
                return "killed"
            ends.append(ended)
    codes = {ended.returncode for ended in ends}
    if codes not in ({PASSED}, {PASSED, NO_TESTS}):
        raise RuntimeError("\n".join(f"pytest ended with code {ended.returncode}:\n"
                                     f"{ended.stdout[-2000:]}" for ended in ends))
    return "survives"


def _run_tests(fault: Fault, folder: Path, marks: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    try:
        return subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-m", marks,
             *fault.arguments],
            env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True,
            timeout=LIMIT_S)
    except subprocess.TimeoutExpired as error:
        raise RuntimeError(f"Tests of the fault {fault.mutation} did not end in {LIMIT_S} s; "
                           "give it tests that end") from error
