"""Options of ``bitstep train`` that say what is minimised, and by which steps."""

import argparse
from typing import Any

from bitstep.cli.class_weights import class_weight
from bitstep.cli.options import integer, number, or_auto
from bitstep.pipeline.losses import LOSSES
from bitstep.pipeline.parts.formats import WOVEN_BITS
from bitstep.pipeline.parts.widths import FEW_BITS
from bitstep.pipeline.registers import Loss
from bitstep.training.objective import SOLVERS


def planes_list(text: str) -> int | list[int] | str:
    """Type of an option: ``auto``, a number of planes, or several, separated by commas."""
    if text == "auto":
        return text
    try:
        return [integer(1, WOVEN_BITS)(part) for part in text.split(",")]
    except argparse.ArgumentTypeError as error:
        raise argparse.ArgumentTypeError(
            f"must be auto, or integers from 1 to {WOVEN_BITS} with commas between them, one an "
            f"epoch, not {text!r}") from error


def add_training_options(training: Any) -> None:
    """Declare the options.

    Parameters
    ----------
    training : argument group
    """
    training.add_argument("--epochs", type=integer(1), metavar="N",
                          help="passes over the rows (default: 20; with a file of steps: all of "
                          "them)")
    training.add_argument("--step", type=or_auto(number(0)), metavar="S", help="first step, in "
                          "scaled feature space, as in x <- x - S (u.x - y) u; or auto: from the "
                          "data (default: auto)")
    training.add_argument("--schedule", default="inverse", metavar="NAME|FILE",
                          help="step of each epoch: constant, inverse (S / epoch), inverse-sqrt "
                          "(S / sqrt(epoch)), or a file with one step a line (default: inverse)")
    training.add_argument("--batch", type=integer(1, (1 << 32) - 1), default=1, metavar="N",
                          help="rows of a batch (default: 1)")
    training.add_argument("--l2", type=number(0, above=False), default=0.0, metavar="L",
                          help="ridge penalty on the weights of scaled features, L/2 |x|^2 "
                          "(default: 0)")
    training.add_argument("--l1", type=number(0, above=False), default=0.0, metavar="L",
                          help="lasso penalty on the weights of scaled features, L sum |x_j|, by "
                          "soft thresholds (default: 0)")
    training.add_argument("--box", type=number(0), metavar="R",
                          help="keep the weights of scaled features within -R and R, in "
                          "units of the label (default: no bound)")
    training.add_argument("--refetch", action=argparse.BooleanOptionalAction,
                          help="svm: read rows again at 16 bits where their codes leave open "
                          "whether they are within the margin (default: yes with --encoding "
                          "nearest and stochastic)")
    training.add_argument("--class-weight", type=class_weight, metavar="balanced|C=W,...",
                          help="how often an epoch reads the rows of each class: balanced, so that "
                          "all classes have the same weight, or weights of some classes (1 for the "
                          "others); a fraction is drawn by the seed (default: every row once)")
    training.add_argument("--intercept", action=argparse.BooleanOptionalAction, default=True,
                          help="train an intercept; without one use --scaler maxabs (default: yes)")
    training.add_argument("--model-range", type=number(0), metavar="R",
                          help="largest weight that is representable, as a multiple of the labels' "
                          "half range (default: as far as the steps can reach, at most "
                          f"{LOSSES[Loss.LEAST_SQUARES].model_range:g} for linreg and ls-svm, "
                          f"{LOSSES[Loss.HINGE].model_range:g} for the other models, which start "
                          "again with a larger one if a number leaves it)")


def few_bits(text: str) -> int:
    """Type of an option: 2 to 16 bits, or 0 for all."""
    try:
        return 0 if text == "0" else integer(*FEW_BITS)(text)
    except argparse.ArgumentTypeError as error:
        raise argparse.ArgumentTypeError("must be an integer from {} to {}, or 0 for all, "
                                         "not {!r}".format(*FEW_BITS, text)) from error


def add_bits_options(training: Any) -> None:
    """Declare the options of a model and updates of few bits.

    Parameters
    ----------
    training : argument group
    """
    for name, text in (
            ("model", "bits of the model that the dot products of a batch meet, rounded at random"),
            ("update", "bits of the update of each row, times a power of two, rounded at random")):
        training.add_argument(f"--{name}-bits", type=few_bits, default=0, metavar="B",
                              help=f"{text}: {FEW_BITS[0]} to {FEW_BITS[1]}, or 0 for all "
                              "(default: 0)")


def add_solver_options(training: Any) -> None:
    """Declare the options of woven rows.

    Parameters
    ----------
    training : argument group
    """
    training.add_argument("--solver", choices=SOLVERS, default="sgd",
                          help="sgd, or bit-centred: the exact optimum of all models but svm, with "
                          "--l2, from passes over few bits; its epochs are outer steps "
                          "(default: sgd)")
    add_planes_option(training)


def add_planes_option(training: Any) -> None:
    """Declare the option of the planes that epochs read."""
    training.add_argument("--planes", type=planes_list, metavar="B[,B...]", help="bit planes of "
                          "woven rows that each epoch reads, 1 to 16: one number, or one an epoch, "
                          "of which the last counts for all beyond; or auto (default: auto for "
                          "a file of `bitstep quantize --woven` and with --solver bit-centred; "
                          "else rows have --bits bits)")
