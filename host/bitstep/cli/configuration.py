"""Options that describe a pipeline, one for every choice."""

import argparse

from bitstep.cli.options import (
    UsageError,
    add_dense_option,
    add_lookahead_option,
    add_pipeline_options,
    integer,
)
from bitstep.cli.request import request_rows
from bitstep.cli.training_options import few_bits
from bitstep.pipeline.config import SOLVERS, PipelineConfig
from bitstep.pipeline.parts.stages import CYCLES_PER_UPDATE
from bitstep.pipeline.parts.widths import FEW_BITS, MAX_DENSE_MODELS, MAX_FEATURES, MAX_MODELS
from bitstep.pipeline.registers import Loss
from bitstep.training.pipelines import pipeline_for


def add_configuration_options(parser: argparse.ArgumentParser) -> None:
    """Options for every choice of a pipeline configuration."""
    default = PipelineConfig()
    add_pipeline_options(parser, by_model=False)
    add_lookahead_option(parser)
    parser.add_argument("--max-features", type=integer(1, MAX_FEATURES), metavar="N",
                        default=default.max_features, help="features that the memories are sized "
                        f"for (default: {default.max_features})")
    parser.add_argument("--features", type=integer(1, MAX_FEATURES), metavar="N",
                        help="features for which --lookahead auto is chosen (default: what rows "
                        "of any length need)")
    parser.add_argument("--solver", choices=SOLVERS, default=default.solver,
                        help="linear: least squares, squared hinge and hinge; logistic: log loss "
                        f"(default: {default.solver})")
    parser.add_argument("--cycles-per-update", type=int, metavar="CYCLES",
                        choices=sorted({number for some in CYCLES_PER_UPDATE.values()
                                        for number in some}),
                        help="cycles from an update to the next: " + "; ".join(
                            f"{', '.join(map(str, some))} with solver {solver}"
                            for solver, some in CYCLES_PER_UPDATE.items())
                        + " (default: what `bitstep train` takes)")
    parser.add_argument("--minibatch", action=argparse.BooleanOptionalAction, default=True,
                        help="batches of more than one row are possible (default: yes)")
    parser.add_argument("--corrections", action=argparse.BooleanOptionalAction, default=True,
                        help="diagonal corrections and L2 are possible (default: yes)")
    parser.add_argument("--proximal", action=argparse.BooleanOptionalAction, default=False,
                        help="L1 and a box constraint are possible (default: no)")
    parser.add_argument("--models", type=integer(1, MAX_DENSE_MODELS), metavar="N", default=1,
                        help=f"models that one pass over the rows trains, 1 to {MAX_MODELS}, to "
                        f"{MAX_DENSE_MODELS} with --dense (default: 1)")
    parser.add_argument("--model-bits", type=few_bits, metavar="B", default=0,
                        help=f"dot products meet a model of at most {FEW_BITS[0]} to {FEW_BITS[1]} "
                        "bits; 0: of all (default: 0)")
    parser.add_argument("--rounded-updates", action=argparse.BooleanOptionalAction, default=False,
                        help=f"updates can have {FEW_BITS[0]} to {FEW_BITS[1]} bits (default: no)")
    add_dense_option(parser)
    parser.add_argument("--refetch", action=argparse.BooleanOptionalAction, default=False,
                        help="rows can be read again with 16 bits a value (default: no)")


def configuration(arguments: argparse.Namespace) -> PipelineConfig:
    """The configuration that the options describe."""
    rows = request_rows(arguments)
    auto = arguments.lookahead == "auto"
    # What a training would choose.
    usual = pipeline_for(
        n_features=1, bits=rows.bits, encoding=rows.encoding,
        loss=Loss.LOGISTIC if arguments.solver == "logistic" else Loss.LEAST_SQUARES)
    cycles_per_update = arguments.cycles_per_update or usual.cycles_per_update
    if arguments.dense and arguments.features is not None:
        raise UsageError("--features does not go together with --dense: the rows have "
                         "--max-features")
    if arguments.features is not None and arguments.features > arguments.max_features:
        raise UsageError(f"--features must be at most --max-features ({arguments.max_features}), "
                         f"not {arguments.features}")
    try:
        config = PipelineConfig(
            bus_width=rows.bus_width, bits=rows.bits,
            row_format=usual.row_format,
            max_features=arguments.max_features, lookahead=0 if auto else arguments.lookahead,
            cycles_per_update=cycles_per_update, minibatch=arguments.minibatch,
            corrections=arguments.corrections, solver=arguments.solver,
            proximal=arguments.proximal, refetch=arguments.refetch,
            level_tables=rows.levels != "uniform", models=arguments.models,
            model_bits=arguments.model_bits, rounded_updates=arguments.rounded_updates,
            dense=arguments.dense)
    except ValueError as error:
        raise UsageError(str(error)) from error
    return config.with_lookahead(arguments.features) if auto else config
