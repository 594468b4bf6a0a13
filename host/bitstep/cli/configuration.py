"""Options that describe a pipeline, one for every choice."""

import argparse
from dataclasses import replace

from bitstep.cli.options import UsageError, add_options, add_pipeline_options
from bitstep.cli.request import request_of
from bitstep.options.models import MODELS
from bitstep.options.table import OPTIONS
from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.losses import losses_of
from bitstep.pipeline.parts.exclusions import reason_of
from bitstep.pipeline.parts.formats import FLOAT_BITS
from bitstep.pipeline.parts.widths import FEW_BITS
from bitstep.training.choices import check_options, row_choice
from bitstep.training.pipelines import pipeline_for


def add_configuration_options(parser: argparse.ArgumentParser, *,
                              bus_width: str | None = None) -> None:
    """Options for every choice of a pipeline configuration; ``bus_width`` as in
    :func:`bitstep.cli.options.add_pipeline_options`.
    """
    add_pipeline_options(parser, by_model=False, bus_width=bus_width)
    add_options(parser, "row_ports", "lookahead", "max_features", "features", "loss_family",
                "update_interval", "batch_lookahead", "minibatch", "corrections", "proximal",
                "models")
    OPTIONS["model_bits"].declare(
        parser, help="support dot products with weights of at most so many bits: "
        f"{FEW_BITS[0]} to {FEW_BITS[1]}, or 0: of all bits")
    add_options(parser, "rounded_updates", "row_weights", "packed")
    OPTIONS["refetch"].declare(parser, default=False, default_text="no",
                               help="support reading rows again with 16 bits a value")


def configuration(arguments: argparse.Namespace) -> PipelineConfig:
    """The configuration that the options describe."""
    request = request_of(arguments, loss_family=arguments.loss_family)
    kind = MODELS["linreg"]
    if not request["bit_planes"]:
        floats = request["bits"] == FLOAT_BITS or request["encoding"] == "float"
        codes = "nearest" if arguments.refetch else kind.encoding
        request = request.filled(bits=FLOAT_BITS if floats else kind.bits,
                                 encoding="float" if floats else codes)
    rows = row_choice(check_options(request))
    auto = arguments.lookahead == "auto"
    # What a training would choose.
    usual = pipeline_for(
        n_features=1, bits=rows.bits, encoding=rows.encoding,
        loss=next(iter(losses_of(arguments.loss_family))))
    update_interval = arguments.update_interval or usual.update_interval
    if arguments.features is not None and arguments.features > arguments.max_features:
        raise UsageError(f"--features must be at most --max-features ({arguments.max_features}), "
                         f"not {arguments.features}")
    try:
        config = PipelineConfig(
            bus_width=rows.bus_width, row_ports=arguments.row_ports, bits=rows.bits,
            row_format=usual.row_format,
            max_features=arguments.max_features, lookahead=0 if auto else arguments.lookahead,
            update_interval=update_interval, minibatch=arguments.minibatch,
            corrections=arguments.corrections, loss_family=arguments.loss_family,
            proximal=arguments.proximal, refetch=arguments.refetch,
            codebooks=rows.levels != "uniform", models=arguments.models,
            model_bits=arguments.model_bits, rounded_updates=arguments.rounded_updates,
            packed=arguments.packed, row_weights=arguments.row_weights)
    except ValueError as error:
        raise UsageError(str(error)) from error
    config = config.with_lookahead(arguments.features) if auto else config
    ahead = arguments.batch_lookahead
    if ahead and update_interval != 1:
        try:
            replace(config, update_interval=1)
        except ValueError as error:
            raise UsageError(f"--batch-lookahead {ahead} needs --update-interval 1, and with it "
                             f"{error}; leave --batch-lookahead out") from error
        raise UsageError(
            f"--batch-lookahead {ahead} needs --update-interval 1, not {update_interval} (by "
            f"default): {reason_of('look-ahead between batches', 'waiting within batches')}; add "
            "--update-interval 1, or leave --batch-lookahead out")
    try:
        return config.with_batch_lookahead(arguments.features) if ahead == "auto" \
            else replace(config, batch_lookahead=ahead)
    except ValueError as error:
        raise UsageError(str(error)) from error
