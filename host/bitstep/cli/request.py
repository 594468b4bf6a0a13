"""Requests: the options of a command with every default filled in."""

import argparse
import re
from dataclasses import dataclass
from typing import Any

from bitstep.cli.options import UsageError, asked_encoding, default_model
from bitstep.pipeline.parts.formats import WOVEN
from bitstep.quantization import ENCODINGS, QuantizedDataset
from bitstep.training.choices import (
    ChoiceError,
    check_corrected,
    resolve_rows,
    resolve_scaler,
)
from bitstep.training.models import MODELS

# Those that do not depend on the model. A file of `bitstep quantize` says all of them, so the
# parser's default is None: an option that contradicts a file can be told from one not given.
ROW_DEFAULTS = {"bus_width": 64, "scaler": None, "copies": 1, "shuffle": True, "seed": 0,
                "levels": "uniform"}


@dataclass(frozen=True, kw_only=True)
class RowRequest:
    """Rows as options, or a quantized file, describe them.

    Attributes
    ----------
    bits, encoding, bus_width, scaler, copies, seed, levels
        See :func:`bitstep.quantization.quantize_rows`.
    refetch : bool
        True if rows are fetched again with 16 bits a value.
    shuffle : bool or None
        True if rows are drawn at random; None of a quantized file, which does not say.
    solver : {"sgd", "bit-centred"}
        That they are for.
    """

    bits: int
    encoding: str
    refetch: bool
    bus_width: int
    scaler: str
    copies: int
    seed: int
    levels: str
    shuffle: bool | None
    solver: str = "sgd"


def request_rows(arguments: argparse.Namespace, *, model: str | None = None,
                 refetch: bool | None = False, batch: int = 1) -> RowRequest:
    """Resolve the options for rows of features.

    Parameters
    ----------
    model : str or None
        Model that the rows are for; None: that of the options, or ``linreg``.
    refetch, batch
        See :func:`bitstep.training.choices.resolve_rows`.

    Raises
    ------
    UsageError
        If options do not go together.
    """
    given = {name: getattr(arguments, name, None) for name in ROW_DEFAULTS}
    others = {name: ROW_DEFAULTS[name] if value is None else value
              for name, value in given.items()}
    solver = getattr(arguments, "solver", "sgd")
    others["scaler"] = resolve_scaler(others["scaler"], solver)
    name = model or getattr(arguments, "model", None) or "linreg"
    encoding = asked_encoding(arguments)
    if encoding == WOVEN and (arguments.encoding is not None or others["copies"] != 1):
        raise UsageError("Woven rows (--woven, --planes, --solver bit-centred) have an encoding of "
                         "their own and one copy; leave --encoding and --copies out")
    try:
        choice = resolve_rows(MODELS[name], bits=arguments.bits, encoding=encoding,
                              refetch=refetch, batch=batch, levels=others["levels"],
                              few_bits=few_bits_asked(arguments))
    except ChoiceError as error:
        raise usage_error(error, arguments) from error
    return RowRequest(bits=choice.bits, encoding=choice.encoding, refetch=choice.refetch,
                      solver=solver, **others)


def planes_asked(arguments: argparse.Namespace) -> Any:
    """Planes of woven rows that the options ask for; None: rows of fixed bits."""
    planes = getattr(arguments, "planes", None)
    return "auto" if planes is None and getattr(arguments, "solver", "sgd") == "bit-centred" \
        else planes


def few_bits_asked(arguments: argparse.Namespace) -> bool:
    """True if the options ask for a model or updates of few bits."""
    swept = any(any(values) for name, values in getattr(arguments, "sweep", None) or ()
                if name.endswith("-bits"))
    return bool(swept or getattr(arguments, "model_bits", 0)
                or getattr(arguments, "update_bits", 0))


def request_codes(arguments: argparse.Namespace, data: QuantizedDataset) -> RowRequest:
    """Check the options against a quantized file; the request is what it holds.

    Raises
    ------
    UsageError
        If an option contradicts the file, or another one.
    """
    source, rows = arguments.data, data.rows
    chosen = "choose rows, order, seed and the label's column with `bitstep quantize`"
    for option, remedy in (("--train-rows", chosen), ("--shuffle", chosen), ("--seed", chosen),
                           ("--label-column", chosen),
                           ("--class-weight", "train on the file that it was made of")):
        if getattr(arguments, option[2:].replace("-", "_"), None) is not None:
            raise UsageError(f"{option} needs features, but {source} is quantized already: "
                             f"{remedy}")
    stored = {"bits": rows.bits, "encoding": rows.encoding, "copies": rows.copies,
              "bus_width": rows.bus_width, "scaler": rows.scaler.kind,
              "levels": "uniform" if rows.level_tables is None else "optimal"}
    for name, value in stored.items():
        given = getattr(arguments, name)
        if given not in (None, value):
            raise UsageError(f"--{name.replace('_', '-')} {given} does not fit {source}, "
                             f"which was quantized with {value}: leave the option out, or "
                             "quantize again")
    if (rows.encoding == WOVEN) < (planes_asked(arguments) is not None):
        raise UsageError(f"--planes and --solver bit-centred need woven rows, and {source} has "
                         f"encoding {rows.encoding}: write it with `bitstep quantize --woven`")
    name = arguments.model or default_model(data.task, rows.encoding)
    try:
        check_corrected(rows.encoding, MODELS[name].loss)
        if MODELS[name].task != data.task:
            raise UsageError(f"--model {name} does not fit {source}, which was quantized for "
                             f"a {data.task}")
        choice = resolve_rows(MODELS[name], bits=rows.bits, encoding=rows.encoding,
                              refetch=arguments.refetch, batch=arguments.batch,
                              has_fine_rows=data.fine_rows is not None,
                              levels=stored["levels"], few_bits=few_bits_asked(arguments))
    except ChoiceError as error:
        raise usage_error(error, arguments, encoding=rows.encoding, model=name,
                          stored=True) from error
    return RowRequest(**stored, refetch=choice.refetch, seed=rows.seed, shuffle=arguments.shuffle)


def usage_error(error: ChoiceError, arguments: argparse.Namespace, *, encoding: str | None = None,
                model: str | None = None, stored: bool = False) -> UsageError:
    """A broken rule in the words of the command line.

    Parameters
    ----------
    encoding, model : str or None
        None for those of the options.
    stored : bool
        True if the encoding is that of a file.
    """
    asked = getattr(arguments, "model", None)
    encoding, model = encoding or arguments.encoding, model or asked
    if error.rule == "woven":
        return UsageError("Woven rows (--woven, --planes, --solver bit-centred) have 16 bits a "
                          "value and an encoding of their own; leave --bits, --levels and "
                          "--refetch out")
    if error.rule == "few-bits":
        return UsageError("--model-bits and --update-bits are for rows of 1 to 8 bits without "
                          "--planes, --solver bit-centred and --refetch; leave them out, or "
                          "choose other rows")
    if error.rule == "centred":
        text = re.sub("loss='[a-z_]+'", f"--model {model}", str(error))
        text = text.replace("model_range=", "model-range=")
        return UsageError(re.sub(r"\b(solver|l1|box|batch|schedule|model-range)='?([^\s';]+)'?",
                                 r"--\1 \2", text))
    if error.rule == "bits":
        return UsageError(str(error))
    if error.rule == "levels":
        text = str(error).replace("refetch=True", "--refetch")
        return UsageError(re.sub("levels='([a-z]+)'", r"--levels \1", text))
    if error.rule == "float":
        return UsageError(f"--bits {arguments.bits} does not go together with --encoding "
                          f"{encoding}: 32 bits are floating-point numbers, encoding float; leave "
                          "one of the two out")
    if error.rule == "corrected":
        source = f"the encoding of {arguments.data}, {encoding}" if stored \
            else f"--encoding {encoding}"
        others = [name for name, other in ENCODINGS.items() if not other.corrected]
        return UsageError(f"--model {model} does not go together with {source}, which is corrected "
                          f"for the squared error alone: choose one of {', '.join(others)}")
    other = f", not --model {asked}" if asked else ""
    messages = {
        "refetch-loss": f"--refetch needs --model svm{other}: the other losses depend on more of a "
                        "row than the side of a bound it is on",
        "refetch-float": "--refetch does not go together with floating-point rows (--bits 32), "
                         "which are not rounded; leave one of the two out",
        "refetch-encoding": "--refetch needs --encoding nearest or stochastic, whose codes bound "
                            f"the value, not {encoding}",
        "refetch-rows": f"--refetch needs fine rows, which {arguments.data} does not hold: "
                        "write it with `bitstep quantize --fine-rows`",
        "refetch-batch": "Refetching needs --batch 1, because every row is decided with the model "
                         f"before it, not {arguments.batch}; --no-refetch uses the codes alone"}
    return UsageError(messages[error.rule])
