"""The table of options of trainings, rows and pipelines: each is described here, once.

Command line and documentation are made from it. Estimators have the parameters of the same names,
or those of :attr:`Option.python`, and the types here check them.
"""

import argparse
from dataclasses import dataclass, replace
from typing import Any

from bitstep.options.models import MODELS
from bitstep.options.types import Choice, Integer, Number, Switch, Text, Type, or_auto
from bitstep.pipeline.config import LOSS_FAMILIES, PipelineConfig
from bitstep.pipeline.encodings import ENCODINGS, LEVELS, SCALERS
from bitstep.pipeline.losses import LOSSES
from bitstep.pipeline.parts.formats import BIT_PLANE_BITS, FLOAT_BITS, MAX_PACKED_FEATURES
from bitstep.pipeline.parts.stages import UPDATE_INTERVALS
from bitstep.pipeline.parts.widths import (
    BUS_WIDTHS,
    FEW_BITS,
    MAX_FEATURES,
    MAX_LOOKAHEAD,
    MAX_MODELS,
    MAX_PACKED_MODELS,
    ROW_PORTS,
)
from bitstep.pipeline.registers import Loss

SOLVERS = ("sgd", "bit-centred")
AUTO = "auto"               # the solver that suits what is asked for
SCHEDULES = ("constant", "inverse", "inverse-sqrt", "linear")
PATIENCE = 5
VALIDATION_FRACTION = 0.1
DEFAULT_EPOCHS = 20
MOST_EPOCHS = 1_000_000     # of one training: each takes some 400 bytes before it begins
OUTER_STEPS = 100           # of bit-centred training, at most
LEAST_OUTER_STEPS = 10      # of which some trainings need more to reach the optimum
CENTRED_PLANES = 4          # of its inner passes, if nothing else is asked for
TOL = 1e-4                  # of bit-centred training
LEAST_L2 = 1e-100           # of a penalty that is not 0; of smaller ones some ratios are not finite
EPSILON = 1.35              # with normal residuals, 95 % of the efficiency of least squares (Huber)


@dataclass(frozen=True, kw_only=True)
class Option:
    """An option.

    Attributes
    ----------
    name : str
        Key in :data:`OPTIONS`.
    kind : Type
    help : str
        Meaning, for the command line.
    default_text : str
        Default, or the rule that chooses it, for the help; "" says nothing of it.
    default : object
        Value that the command line has without it; None: left open, so that a value that is given
        can be told from none.
    metavar : str or None
    python : str
        Parameter of the estimators, or of the ``device`` they are given; "" where there is none.
    sets : str
        What it becomes: fields of the configuration, registers, or a part of the training.
    sweep : bool
        True if ``--sweep`` and searches may compare values of it.
    search : bool
        True if searches of estimators may.
    auto : bool
        True if an estimator's parameter may be ``"auto"``, which leaves the option open.
    spelling : str
        Name on the command line; "": ``name`` with hyphens.
    """

    name: str
    kind: Type
    help: str
    default_text: str = ""
    default: Any = None
    metavar: str | None = None
    python: str = ""
    sets: str = ""
    sweep: bool = False
    search: bool = False
    auto: bool = False
    spelling: str = ""

    @property
    def flag(self) -> str:
        """Its name on the command line."""
        return self.spelling or f"--{self.name.replace('_', '-')}"

    def declare(self, group: Any, **changes: Any) -> None:
        """Add it to a group of a command's options.

        Parameters
        ----------
        group : ArgumentParser or argument group
        changes
            Fields that a command has otherwise.
        """
        option = replace(self, **changes) if changes else self
        text = option.help
        if option.default_text:
            text += f" (default: {option.default_text})"
        values: dict[str, Any] = {"dest": option.name, "default": option.default, "help": text}
        if isinstance(option.kind, Switch):
            values["action"] = "store_true" if option.kind.lone \
                else argparse.BooleanOptionalAction
        elif isinstance(option.kind, Choice):
            values |= {"choices": option.kind.names, "metavar": option.metavar,
                       "type": type(option.kind.names[0])}
        else:
            values |= {"type": option.kind, "metavar": option.metavar}
        group.add_argument(option.flag, **values)


def planes_list(text: str) -> list[int] | str:
    """``auto``, a number of planes, or several, separated by commas."""
    if text == "auto":
        return text
    try:
        return [Integer(1, BIT_PLANE_BITS)(part) for part in text.split(",")]
    except argparse.ArgumentTypeError as error:
        raise argparse.ArgumentTypeError(
            f"must be auto, or integers from 1 to {BIT_PLANE_BITS} with commas between them, one "
            f"an epoch, not {text!r}") from error


def class_weight(text: str) -> str:
    """``balanced``, or classes with their weights, separated by commas."""
    if text != "balanced":
        weights_of(text)
    return text


def weights_of(text: str) -> dict[str, float]:
    """Weights by class of a text such as ``no=1,yes=5``; names may have commas."""
    weights: dict[str, float] = {}
    parts: list[str] = []
    for part in text.split(","):
        if parts and "=" not in parts[-1]:      # a comma of a name
            parts[-1] += f",{part}"
        else:
            parts.append(part)
    for part in parts:
        name, equals, weight = part.rpartition("=")
        if not equals or not name.strip() or name.strip() in weights:
            raise argparse.ArgumentTypeError("must be balanced, or each class once with its weight,"
                                             f" as in no=1,yes=5, not {text!r}")
        weights[name.strip()] = Number(0, above=False)(weight)
    return weights


def by_model(name: str) -> str:
    """Default of a row option, as a text that says for which models it holds."""
    models: dict[Any, list[str]] = {}
    for model, kind in MODELS.items():
        models.setdefault(getattr(kind, name), []).append(model)
    return "; ".join(f"{value} for {', '.join(names)}" for value, names in models.items())


_BITS = Integer(*FEW_BITS, others={0: "0 for all"})
_USUAL = PipelineConfig()

_ALL = (
    # Rows
    Option(name="model", kind=Choice(tuple(MODELS)), metavar="M", python="loss", sets="LOSS",
           help="linreg (linear regression), huber (linear regression by the Huber loss, for "
           "labels with outliers), or a classifier: ls-svm (squared error), l2-svm "
           "(squared hinge), svm (hinge), logistic (log loss); more than two classes are trained "
           "one-vs-rest, but together (multinomial) by logistic with solver bit-centred where "
           "the device can", default_text="linreg or logistic, by the labels; ls-svm for classes "
           "with --encoding compensated or double-symmetric"),
    Option(name="label_column", kind=Text(), metavar="NAME|N",
           help="column of the label in a .csv, .tsv, .npy, .parquet or .arrow file: its name, or "
           "its number from 0; -1 is the last one", default_text="the last column",
           sets="rows"),
    Option(name="scaler", kind=Choice(SCALERS), python="scaler", auto=True, sets="codes",
           help="how to scale each column to [-1, 1]. minmax: by its range; maxabs: by its "
           "largest magnitude; quantile: as minmax, but clip the column at its quantiles 0.1 %% "
           "and 99.9 %% if that at least halves its range",
           default_text="quantile; minmax with solver bit-centred; maxabs without an intercept"),
    Option(name="train_rows", kind=Integer(1), metavar="N", sets="rows",
           help="number of rows to train on; the others are the test set", default_text="all rows"),
    Option(name="shuffle", kind=Switch(), python="shuffle", sets="rows",
           help="draw the rows to train on at random, by the seed, instead of taking the first "
           "ones in their order", default_text="yes"),
    Option(name="copies", kind=Integer(1, 255), metavar="C", python="copies", sets="COPIES",
           help="number of copies of the rows, each with codes drawn anew; the epochs read them "
           "in turn", default_text="1"),
    Option(name="seed", kind=Integer(0), metavar="K", python="random_state", sets="codes, dither",
           help="seed of the shuffle, of the codes and of the rounding of updates",
           default_text="0"),
    Option(name="bits", kind=Integer(1, 8, others={
           FLOAT_BITS: f"{FLOAT_BITS} for floating-point rows"}), metavar="B", python="bits",
           auto=True, sets="bits", help=f"stored bits per value: 1 to 8, or {FLOAT_BITS} for "
           "floating-point rows", default_text=by_model("bits")),
    Option(name="encoding", kind=Choice(tuple(ENCODINGS)), metavar="E", python="encoding",
           auto=True, sets="row_format", help=f"how values become codes: {', '.join(ENCODINGS)}",
           default_text=f"{by_model('encoding')}; float with --bits {FLOAT_BITS}"),
    Option(name="levels", kind=Choice(LEVELS), python="levels", sets="codebooks",
           help="uniform: levels at equal distances; optimal: a table for each column, of the "
           "levels with the least variance (up to 5 bits; nearest, stochastic and compensated)",
           default_text="uniform"),
    Option(name="bus_width", kind=Choice(BUS_WIDTHS), python="bus_width", sets="bus_width",
           help="bits of a beat: what the row bus carries in one cycle", default_text="64; with "
           "--device pynq that of the widest bitstream for such rows"),
    Option(name="fine_rows", kind=Switch(), sets="rows",
           help="store a second copy of the rows with 16 bits a value, from which `bitstep train "
           "--model svm` reads a row again where its codes cannot decide",
           default_text="yes with --model svm and --encoding nearest or stochastic"),
    Option(name="bit_planes", kind=Switch(lone=True), default=False, sets="row_format",
           help="write bit-plane rows: one copy of 16 bits a value, stored bit plane by bit plane; "
           "`bitstep train --planes` and `--solver bit-centred` choose how many of the bits to "
           "read"),

    # Training
    Option(name="epochs", kind=Integer(1, MOST_EPOCHS), metavar="N", python="epochs", auto=True,
           sets="EPOCHS", help="sgd: passes over the rows; bit-centred: outer steps, at most",
           default_text="sgd: 100,000 divided by the rows, but at least "
           f"{DEFAULT_EPOCHS} and at most 1,000, or, of more than 67,108 weights, 2^26 divided by "
           f"these; {DEFAULT_EPOCHS} with a --step, --schedule, "
           "--early-stopping or --tol, and for encodings compensated and double-symmetric of fewer "
           "than 4 bits; with a file of steps all of them; bit-centred: "
           f"{OUTER_STEPS} outer steps"),
    Option(name="step", kind=or_auto(Number(0)), metavar="S", python="step", sets="epoch table",
           help="first step (learning rate), for scaled features u: x <- x - S (u.x - y) u; or "
           "auto: chosen from the data", default_text="auto", sweep=True, search=True),
    Option(name="schedule", kind=Text(), metavar="NAME|FILE", python="schedule", auto=True,
           sets="epoch table", help="step of each epoch: constant, inverse (S / epoch), "
           "inverse-sqrt (S / sqrt(epoch)), linear (from S in the first to S / epochs in the "
           "last), or a file with one step a line",
           default_text="linear; inverse with a --step, and with --early-stopping or --tol, since "
           "linear must know the last epoch; inverse for encodings compensated, "
           "double-symmetric and double of fewer than 4 bits, which long steps make diverge",
           search=True),
    Option(name="batch", kind=Integer(1, (1 << 32) - 1), metavar="N", python="batch", auto=True,
           sets="BATCH", help="sgd: rows of a mini-batch",
           default_text="1, and of at least 5,000 rows 4, of 20,000 rows 16, of 80,000 rows 64; "
           "1 with --refetch, a --step or file of steps, and for encodings compensated, "
           "double-symmetric and double of fewer than 4 bits"),
    Option(name="l2", kind=Number(0, above=False, least=LEAST_L2), metavar="L", python="l2",
           auto=True, sets="coefficients of corrections", help="ridge penalty L/2 |x|^2; "
           "bit-centred: on the weights x of standardized columns; sgd: on those of features "
           "scaled to [-1, 1]",
           default_text="bit-centred: 1 / rows to train on, as of LogisticRegression and Ridge of "
           "scikit-learn; sgd: 0", sweep=True, search=True),
    Option(name="l1", kind=Number(0, above=False), default=0.0, metavar="L", python="l1",
           sets="proximal; epoch table", help="lasso penalty L sum |x_j| on the weights x of "
           "scaled features, by soft thresholds", default_text="0", sweep=True, search=True),
    Option(name="box", kind=Number(0), metavar="R", python="box", sets="proximal; BOX_LIMIT",
           help="bound of the weights of scaled features: each stays between -R and R, in units "
           "of the label", default_text="no bound", sweep=True, search=True),
    Option(name="epsilon", kind=Number(0), metavar="E", python="epsilon", auto=True,
           sets="DERIVATIVE_BOUND", help="huber: residuals of more than E count by their magnitude "
           "instead of their square; in units of the labels' standard deviation, estimated from "
           "the median of their distances to the median", default_text=f"{EPSILON:g}",
           search=True),
    Option(name="refetch", kind=Switch(), python="refetch", auto=True,
           sets="refetch; CELL_HALF_LEVELS", help="svm: read a row again at 16 bits where its "
           "codes cannot decide whether it is within the margin",
           default_text="yes with --encoding nearest and stochastic"),
    Option(name="class_weight", kind=Text(class_weight), metavar="balanced|C=W,...",
           python="class_weight", sets="rows", help="weights of the rows of each class. "
           "balanced: every class has the same weight; C=W,...: weights by class, 1 for the others",
           default_text="every row counts as one"),
    Option(name="intercept", kind=Switch(), default=True, python="fit_intercept",
           sets="INTERCEPT_LEVEL", help="train an intercept; without one the scaler is maxabs",
           default_text="yes"),
    Option(name="model_range", kind=Number(0), metavar="R", python="model_range", auto=True,
           sets="LABEL_SHIFT", help="largest weight that can be represented, as a multiple of "
           "half the range of the labels", default_text="as far as the steps can reach, at most "
           f"{LOSSES[Loss.LEAST_SQUARES].model_range:g} for linreg, ls-svm and huber, "
           f"{LOSSES[Loss.HINGE].model_range:g} for the other models; all but linreg and ls-svm "
           "start again with a larger range if a number leaves it", search=True),
    Option(name="model_bits", kind=_BITS, default=0, metavar="B", python="model_bits",
           sets="model_bits; MODEL_BITS", help="bits of the weights that the dot products of a "
           f"batch use, rounded at random: {FEW_BITS[0]} to {FEW_BITS[1]}, or 0 for all",
           default_text="0", sweep=True, search=True),
    Option(name="update_bits", kind=_BITS, default=0, metavar="B", python="update_bits",
           sets="rounded_updates; UPDATE_BITS", help="bits of the update of each row, beside a "
           f"power of two, rounded at random: {FEW_BITS[0]} to {FEW_BITS[1]}, or 0 for all",
           default_text="0", sweep=True, search=True),
    Option(name="solver", kind=Choice((AUTO, *SOLVERS)), python="solver", sets="training",
           help="bit-centred: the exact optimum, from passes over few bits of rows that are stored "
           "with 16, for all models but svm and huber; --l2 is the only penalty that it takes, and "
           "each of its epochs is an outer step. sgd: rows of few bits. auto: bit-centred, or sgd "
           f"if another option asks for it or --epochs is less than {LEAST_OUTER_STEPS}",
           default_text="auto"),
    Option(name="planes", kind=Text(planes_list), metavar="B[,B...]", python="planes",
           sets="row_format; epoch table",
           help="bits to read of each value of bit-plane rows, 1 to "
           "16: one number for all epochs, or one for each epoch (the last holds for those after "
           "it); auto: the training chooses", default_text="auto with --solver bit-centred, "
           "which is 4, or 16 of few rows, and for a file of `bitstep quantize --bit-planes` with "
           "--solver sgd; else rows have --bits bits"),
    Option(name="tol", kind=Number(0, above=False), metavar="T", python="tol", auto=True,
           sets="training",
           help="sgd: stop once --n-iter-no-change epochs in a row lower the loss by no more "
           "than T times the loss of the best constant (default: 0 with --early-stopping, else "
           "never); bit-centred: stop once the gradient's largest component is at most T times "
           "that of the first model", default_text=f"sgd: 0; bit-centred: {TOL:g}"),
    Option(name="early_stopping", kind=Switch(lone=True), default=False, python="early_stopping",
           sets="training", help="hold some of the rows to train on out, stop by the loss on "
           "them, and keep the model of the epoch where it was least"),
    Option(name="validation_fraction", kind=Number(0, high=1), metavar="F",
           python="validation_fraction", sets="rows",
           help="share of the rows that --early-stopping holds out",
           default_text=str(VALIDATION_FRACTION)),
    Option(name="n_iter_no_change", kind=Integer(1), metavar="N", python="n_iter_no_change",
           sets="training", help="epochs in a row that must gain no more than --tol before the "
           "training stops", default_text=str(PATIENCE)),
    Option(name="sweep", kind=Text(), metavar="NAME=V,V,...", sets="training",
           help="train a model for each value of an option and keep the best: by the test rows if "
           "there are any, else by the training loss. The models share passes over the rows as "
           "far as the device can. Given several times: every combination"),

    # Start
    Option(name="init", kind=Text(), metavar="MODEL.npz", sets="MODEL_IN_ADDRESS",
           help="start from the weights of a model file instead of zeros; it must have the "
           "features and classes of DATA"),
    Option(name="checkpoint", kind=Text(), metavar="FILE", sets="training",
           help="write all that --resume needs to FILE after every epoch"),
    Option(name="resume", kind=Text(), metavar="FILE", sets="training",
           help="go on with a stopped run from its checkpoint, to the same model, bit for bit. "
           "Give DATA and the options of that run; --device may differ. The run goes on writing "
           "to FILE, unless --checkpoint names another"),

    # Pipeline
    Option(name="device_models", spelling="--models", kind=Integer(1, MAX_PACKED_MODELS),
           metavar="N", python="models", sets="models",
           help="sim: models that the pipeline trains in one pass over the rows (classes, "
           f"candidates of --sweep): 1 to {MAX_MODELS}, or to {MAX_PACKED_MODELS} with --packed",
           default_text="1"),
    Option(name="lookahead", kind=or_auto(Integer(0, MAX_LOOKAHEAD)), default="auto", metavar="N",
           python="lookahead", sets="lookahead", help="rows by which the model may trail the row "
           "that is read; dot products are corrected for them, exactly. auto: enough that no row "
           "waits", default_text="auto"),
    Option(name="packed", kind=Switch(lone=True), default=False, python="packed", sets="packed",
           help=f"rows without padding, several in a beat, for up to {MAX_PACKED_FEATURES} "
           "features that fit into one beat; faster with batches of at least a beat's rows, and "
           "with several models in a pass"),
    Option(name="max_features", kind=Integer(1, MAX_FEATURES), metavar="N", sets="max_features",
           default=_USUAL.max_features, help="largest number of features that the memories have "
           "room for", default_text=str(_USUAL.max_features)),
    Option(name="row_ports", kind=Choice(ROW_PORTS), default=1, sets="row_ports",
           help="memory ports that the row bus is made of; memory then holds the rows in as many "
           "slices", default_text="1"),
    Option(name="features", kind=Integer(1, MAX_FEATURES), metavar="N", sets="lookahead",
           help="number of features for which --lookahead auto and --batch-lookahead auto choose",
           default_text="what rows of any length need"),
    Option(name="loss_family", kind=Choice(LOSS_FAMILIES),
           default=_USUAL.loss_family, sets="loss_family",
           help="linear: least squares, squared hinge, hinge and "
           "Huber; logistic: log loss", default_text=_USUAL.loss_family),
    Option(name="update_interval", kind=Choice(tuple(sorted(
           {cycles for some in UPDATE_INTERVALS.values() for cycles in some}))),
           metavar="CYCLES", sets="update_interval",
           help="initiation interval of the update, in cycles: " + "; ".join(
               f"{', '.join(map(str, some))} with loss family {family}"
               for family, some in UPDATE_INTERVALS.items()),
           default_text="what `bitstep train` takes"),
    Option(name="batch_lookahead", kind=or_auto(Integer(0, MAX_LOOKAHEAD)), default=0, metavar="N",
           sets="batch_lookahead", help="with --update-interval 1, rows at a batch's start that "
           "enter before the updates of the batch before are there. auto: as many as save cycles",
           default_text="0: the pipeline drains between batches"),
    Option(name="minibatch", kind=Switch(), default=True, sets="minibatch",
           help="support batches of more than one row", default_text="yes"),
    Option(name="corrections", kind=Switch(), default=True, sets="corrections",
           help="support diagonal corrections and L2", default_text="yes"),
    Option(name="proximal", kind=Switch(), default=False, sets="proximal",
           help="support L1 and a box constraint", default_text="no"),
    Option(name="models", kind=Integer(1, MAX_PACKED_MODELS), default=1, metavar="N", sets="models",
           help=f"models that one pass over the rows trains: 1 to {MAX_MODELS}, or to "
           f"{MAX_PACKED_MODELS} with --packed", default_text="1"),
    Option(name="rounded_updates", kind=Switch(), default=False, sets="rounded_updates",
           help=f"support updates of {FEW_BITS[0]} to {FEW_BITS[1]} bits", default_text="no"),
    Option(name="row_weights", kind=Switch(), default=False, sets="row_weights",
           help="support weights of rows, beside their labels", default_text="no"),
)
OPTIONS = {option.name: option for option in _ALL}
# What a command says that trains by SGD alone, and has no option that ends a training earlier.
BY_SGD: dict[str, dict[str, Any]] = {
    "epochs": {
        "help": "passes over the rows",
        "default_text": f"100,000 divided by the rows, but at least {DEFAULT_EPOCHS} and at most "
        f"1,000; {DEFAULT_EPOCHS} with a --step or --schedule, and for encodings compensated and "
        "double-symmetric of fewer than 4 bits; with a file of steps all of them"},
    "schedule": {
        "default_text": "linear; inverse with a --step, and for encodings compensated, "
        "double-symmetric and double of fewer than 4 bits, which long steps make diverge"},
    "batch": {"help": "rows of a mini-batch"},
    "l2": {"help": "ridge penalty L/2 |x|^2 on the weights x of features scaled to [-1, 1]",
           "default_text": "0"},
}
