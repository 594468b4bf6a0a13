"""Trainings of one data set at several widths, on the pipelines of a board."""

import argparse
from dataclasses import replace
from typing import Any

from bitstep.cli.options import UsageError, is_quantized
from bitstep.cli.problem import Problem, Request
from bitstep.cli.train import make_request
from bitstep.devices import open_device
from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.parts.formats import FLOAT_BITS
from bitstep.pipeline.results import DeviceError, RangeOverflowError
from bitstep.quantization import ENCODINGS
from bitstep.training.losses import accuracies
from bitstep.training.train import TrainedModel, train_model
from bitstep_lab.board_report.boards import Board

USUAL_BITS = 8      # a board has the same bus for every width that a model has by default


def figures(arguments: argparse.Namespace, board: Board, bits: int | None,
            chosen: int | None) -> dict[str, Any]:
    """Train at one width, and return the figures of it.

    Parameters
    ----------
    arguments : Namespace
        Options of the data and of the training.
    board : Board
    bits : int or None
        1 to 8, or 32 for floating-point rows; None: the width of the model.
    chosen : int or None
        The width that the report is about; there an error is raised, at others it is told.

    Returns
    -------
    dict
        ``bits``, ``status`` ("ok", or why there is nothing else), ``encoding``, ``pipeline``,
        ``beats``, ``lanes``, ``latency``, ``epoch_cycles`` (the run's cycles by its epochs),
        ``row_cycles``, ``row_bytes`` (stored rows), ``train_loss``, ``test_metric``, ``accuracy``,
        ``problem``, ``config``.
    """
    try:
        request = make_request(arguments, **_changes(arguments, board, bits, chosen))
        rows = request.problem.outputs[0].rows
        config = board.pipeline(request.config, rows.n_features)
        return {"bits": rows.bits, **_trained(request, config, board)}
    except RangeOverflowError as error:        # a finding, not a failure
        return {"bits": bits, "status": str(error).split(". ")[0]}
    except (UsageError, ValueError, DeviceError) as error:
        if bits == chosen:
            raise
        return {"bits": bits, "status": str(error)}


def _changes(arguments, board, bits, chosen):
    """Options of the training at a width: an encoding that is not made for it is left out."""
    changed: dict[str, Any] = {
        "bus_width": arguments.bus_width or board.bus_width(bits or USUAL_BITS)}
    if not is_quantized(arguments.data):
        changed["bits"] = bits
    encoding = ENCODINGS.get(arguments.encoding)
    if bits != chosen and (bits == FLOAT_BITS or (
            encoding and not encoding.min_bits <= bits <= encoding.max_bits)):
        changed["encoding"] = None
    if bits == FLOAT_BITS:
        changed["levels"] = changed["refetch"] = None
    return changed


def _trained(request: Request, config: PipelineConfig, board: Board) -> dict[str, Any]:
    problem = request.problem
    rows = problem.outputs[0].rows
    # Of floating-point rows the look-ahead is part of the result.
    asked = replace(request.config, lookahead=config.lookahead) if config.rows.floating \
        else request.config
    with open_device("cpu", config, clock_hz=board.clock_hz, **board.memory) as device:
        model = train_model(problem.outputs, device, asked, request.objective, request.training)
    if model.interrupted:
        raise KeyboardInterrupt
    cycles = (model.counters["cycles"] or 0) / model.epochs_done
    last = problem.history(model)[-1]
    return {"status": "ok", "encoding": rows.encoding, "pipeline": config.name,
            "beats": config.rows.beats(rows.n_features), "lanes": config.rows.lanes,
            "latency": config.latency, "epoch_cycles": cycles,
            "row_cycles": cycles / rows.n_rows / len(problem.outputs),
            "row_bytes": rows.stored[0].nbytes, "train_loss": last["train_loss"],
            "test_metric": last["test_metric"], "accuracy": _accuracy(problem, model),
            "problem": problem, "config": config}


def _accuracy(problem: Problem, model: TrainedModel) -> float | None:
    """Share of the test rows, or else of the training rows, that are classified correctly."""
    judged = problem.test_set if problem.test_set is not None and problem.test_set.n_rows \
        else problem.train_set
    if problem.task != "classification" or judged is None:
        return None
    return float(accuracies(judged.features, judged.labels, problem.classes, model.coefs[-1:],
                            model.intercepts[-1:])[0])
