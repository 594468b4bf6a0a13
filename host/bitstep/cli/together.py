"""Options of ``bitstep train`` of which one excludes another once the data are known."""

import argparse

from bitstep.cli.options import UsageError
from bitstep.cli.problem import Problem
from bitstep.cli.request import few_bits_asked
from bitstep.pipeline.losses import LOSSES
from bitstep.pipeline.parts.formats import MAX_DENSE_FEATURES, WOVEN
from bitstep.pipeline.parts.widths import BUS_WIDTHS


def check_solver(arguments: argparse.Namespace, encoding: str | None = None) -> None:
    """Raise UsageError for options that a solver, or planes, exclude.

    Parameters
    ----------
    encoding : str or None
        Encoding of the rows; None before they are known.
    """
    if not arguments.sweep:
        return
    remedy = "give the number of --planes or a list, or train"
    # Candidates share their passes, so no pass may depend on a candidate's model.
    if arguments.solver == "bit-centred":
        found, remedy = "--solver bit-centred", "train"
    elif arguments.planes == "auto":
        found = "--planes auto"
    elif arguments.planes is None and encoding == WOVEN:
        found = f"--planes auto, the default for the woven rows of {arguments.data}"
    else:
        return
    raise UsageError("--sweep trains its candidates in common passes over the rows, so it does not "
                     f"go together with {found}; {remedy} the candidates one by one")


def check_dense(arguments: argparse.Namespace, problem: Problem) -> None:
    """Raise UsageError for ``--dense`` with what excludes it."""
    if not arguments.dense:
        return
    request, count = problem.request, problem.outputs[0].rows.n_features
    wrong = [option for option, found in (
        ("woven rows (--planes, --solver bit-centred, or a file of them)",
         request.encoding == WOVEN),
        ("--bits 32", request.encoding == "float"),
        (f"--model {problem.model}", LOSSES[problem.kind.loss].solver != "linear"),
        ("--l1", _asked(arguments, "l1")), ("--box", _asked(arguments, "box")),
        ("--levels optimal", request.levels != "uniform"),
        ("refetching (--no-refetch turns it off)", request.refetch),
        ("--model-bits and --update-bits", few_bits_asked(arguments)),
        (f"--lookahead {arguments.lookahead}", arguments.lookahead not in ("auto", 0))) if found]
    if wrong:
        raise UsageError(f"--dense does not go together with {' and '.join(wrong)}; leave --dense "
                         "out, or choose other options")
    if count > MAX_DENSE_FEATURES:
        raise UsageError(f"--dense is for up to {MAX_DENSE_FEATURES} features, not {count}: leave "
                         "it out")
    width = count * request.bits
    if width > request.bus_width:
        wider = [bus for bus in BUS_WIDTHS if bus >= width]
        other = f"choose --bus-width {' or '.join(map(str, wider))}, or " if wider else ""
        raise UsageError(f"--dense needs rows that fit into a beat, and {count} features of "
                         f"{request.bits} bits take {width} bits, more than --bus-width "
                         f"{request.bus_width}: {other}leave it out")


def _asked(arguments, name):
    """True if a penalty is asked for, by its option or for candidates of a sweep."""
    return bool(getattr(arguments, name)) or any(
        one == name and any(values) for one, values in arguments.sweep or ())
