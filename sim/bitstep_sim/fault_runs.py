"""Runs of tests with a fault in the RTL generators, in a copy of the sources."""

import os
import subprocess
import sys
from dataclasses import dataclass

from bitstep_sim.proofs.mutation import Mutation, mutated

LIMIT_S = 3600      # of the tests of a fault


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
    """Run the tests that must find a fault.

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
        path = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
        try:
            ended = subprocess.run(
                [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider",
                 *fault.arguments],
                env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True,
                timeout=LIMIT_S)
        except subprocess.TimeoutExpired as error:
            raise RuntimeError(f"Tests of the fault {fault.mutation} did not end in {LIMIT_S} s; "
                               "give it tests that end") from error
    if ended.returncode not in (0, 1):
        raise RuntimeError(f"pytest ended with code {ended.returncode}:\n{ended.stdout[-2000:]}")
    return "killed" if ended.returncode else "survives"
