"""Requests: the options of a command, as the rules between options see them."""

import argparse
from typing import Any

from bitstep.cli.device import named_options
from bitstep.cli.options import UsageError
from bitstep.devices import built_pipelines, has_bit_planes
from bitstep.options.models import MODELS
from bitstep.options.rules import Request
from bitstep.options.table import AUTO, OPTIONS
from bitstep.options.words import COMMAND_LINE
from bitstep.pipeline.losses import LOSSES
from bitstep.quantization import QuantizedDataset
from bitstep.training.choices import check_candidates, usual_bus_width


def request_of(arguments: argparse.Namespace, **facts: Any) -> Request:
    """The options that a command was given, with the defaults of those that it has not.

    Parameters
    ----------
    arguments : Namespace
    facts
        See :data:`bitstep.options.rules.FACTS`.
    """
    asked = {name: getattr(arguments, name, option.default) for name, option in OPTIONS.items()}
    if asked["solver"] == AUTO and not can_be_centred(arguments, asked["model"]):
        facts = {**facts, "no_bit_planes": arguments.device}
    if getattr(arguments, "device", None) is not None:
        facts = {**facts, "built": built_pipelines(arguments.device, named_options(arguments))}
    return Request(COMMAND_LINE, asked, facts=facts)


def can_be_centred(arguments: argparse.Namespace, model: str | None) -> bool:
    """True if the device that a command names has a pipeline for bit-plane rows, of the model's
    loss family; of an open model that of classes, which is not known before data are read.
    """
    families = {LOSSES[MODELS[name].loss].loss_family
                for name in ([model] if model else ("linreg", "logistic"))}
    options = named_options(arguments)
    return all(has_bit_planes(arguments.device, options, family) for family in families)


def stored_request(request: Request, path: str, data: QuantizedDataset, model: str) -> Request:
    """The request of a training on a quantized file, whose rows are as they are stored.

    Parameters
    ----------
    request : Request
        Of the options.
    path : str
        Name of the file.
    data : QuantizedDataset
        What it holds.
    model : str
        Model that is trained, asked for or by default.

    Raises
    ------
    UsageError
        If an option contradicts the file.
    """
    rows = data.rows
    # Not the width of the bus: rows are rearranged for any.
    stored = {"bits": rows.bits, "encoding": rows.encoding, "copies": rows.copies,
              "scaler": rows.scaler.kind,
              "levels": "uniform" if rows.codebooks is None else "optimal"}
    for name, value in stored.items():
        if request.asked[name] not in (None, value):
            raise UsageError(f"{request.words.say(name, request.asked[name])} does not fit {path}, "
                             f"which was quantized with {value}: leave the option out, or quantize "
                             "again")
    if not request["intercept"] and data.label_offset:
        raise UsageError(f"--no-intercept needs labels around 0, but those of {path} are around "
                         "the centre of their range, for a training with an intercept: quantize "
                         "again with --no-intercept, or train an intercept")
    facts = {"stored_encoding": rows.encoding, "stored_task": data.task}
    if data.fine_rows is None:
        facts["no_fine_rows"] = path
    found = request.knowing(**facts).filled(**stored, model=model, seed=rows.seed)
    built = request.facts.get("built") is not None
    return found.filled(**(usual_bus_width(found) if built else {"bus_width": rows.bus_width}))


def check_early(requests: list[Request]) -> None:
    """Check the options of every candidate of a sweep, as far as that does not depend on the data.

    Raises
    ------
    ValueError, RuleError
        See :func:`bitstep.training.choices.check_candidates`.
    """
    # No data have a model with these by default.
    check_candidates([
        one.filled(model="linreg")
        if one["model"] is None and (one["refetch"] or one["epsilon"] is not None) else one
        for one in requests])
