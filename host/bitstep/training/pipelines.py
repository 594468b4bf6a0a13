"""Pipelines that suit data and an objective."""

from collections.abc import Sequence
from functools import lru_cache

from bitstep.checks import check_choice, check_integer
from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.encodings import encoding_of
from bitstep.pipeline.losses import LOSSES
from bitstep.pipeline.parts.formats import BIT_PLANES
from bitstep.pipeline.parts.stages import usual_interval
from bitstep.pipeline.registers import Loss
from bitstep.quantization import ENCODINGS, BitPlaneRows, QuantizedRows
from bitstep.training.objective import Objective, Training

# Where refetching and look-ahead go together by themselves (docs/results/refetching.md).
REFETCH_AHEAD_BITS = 7      # with fewer, too many rows are left open
REFETCH_AHEAD_BEATS = 8     # of longer rows, too many wait for one that comes again


def pipeline_for(*, n_features: int, bits: int, encoding: str, bus_width: int = 64,
                 lookahead: int | str = "auto", loss: Loss = Loss.LEAST_SQUARES,
                 refetch: bool = False, few_bits: tuple[int, int] = (0, 0),
                 **possible: bool) -> PipelineConfig:
    """Pipeline that trains such data: the default one where that is large enough.

    More features than the default's 4,096 are rounded up to a power of two, so that few different
    pipelines need to be built. An update takes as many cycles as
    :func:`bitstep.pipeline.parts.stages.usual_interval` says.

    Parameters
    ----------
    n_features : int
        Features of a row, at least 1.
    bits, encoding, bus_width
        Of the data, see :func:`bitstep.quantization.quantize`.
    lookahead : int or "auto"
        ``"auto"`` takes what rows of ``n_features`` need so that they never wait; with
        ``refetch`` only from 7 bits on, and for rows of at most 8 beats, and else 0: a row that
        look-ahead leaves open drains the pipeline, so where more than some 10 % of the rows are,
        waiting for every update is faster (docs/results/refetching.md).
    loss : Loss
        What is to be minimised.
    refetch : bool
        True if rows can be fetched again with 16 bits a value.
    few_bits : (int, int)
        Bits of the model that dot products meet, and of the updates; 0 for all.
    **possible : bool
        ``proximal``, ``codebooks`` and ``packed`` of the pipeline. Packed rows have ``n_features``
        and no padding (docs/pipeline.md#packed-rows).

    Returns
    -------
    PipelineConfig

    Raises
    ------
    ValueError
        If there is no such pipeline.
    """
    check_integer("n_features", n_features, 1)
    check_choice("encoding", encoding, (*ENCODINGS, BIT_PLANES))
    row_format = encoding_of(encoding).row_format
    automatic, family = lookahead == "auto", LOSSES[loss].loss_family
    features = int(n_features) if possible.get("packed") \
        else max(PipelineConfig().max_features, 1 << (int(n_features) - 1).bit_length())
    config = PipelineConfig(bus_width=bus_width, bits=bits, max_features=features,
                            row_format=row_format, loss_family=family,
                            lookahead=0 if automatic else lookahead,  # type: ignore[arg-type]
                            update_interval=usual_interval(family, row_format), refetch=refetch,
                            model_bits=few_bits[0], rounded_updates=few_bits[1] > 0, **possible)
    if not automatic or (refetch and (config.bits < REFETCH_AHEAD_BITS
                                      or config.rows.beats(int(n_features)) > REFETCH_AHEAD_BEATS)):
        return config
    return config.with_lookahead(int(n_features))


_pipeline = lru_cache(64, typed=True)(pipeline_for)     # a check takes longer than a pass


def pipeline_of(rows: QuantizedRows | BitPlaneRows, objective: Objective,
                lookahead: int | str = "auto", packed: bool = False,
                few_bits: tuple[int, int] = (0, 0)) -> PipelineConfig:
    """The pipeline of :func:`pipeline_for` for quantized rows and an objective."""
    return _pipeline(n_features=rows.n_features, bits=rows.bits, encoding=rows.encoding,
                     bus_width=rows.bus_width, lookahead=lookahead, loss=objective.loss,
                     refetch=objective.refetch, proximal=objective.proximal,
                     codebooks=rows.codebooks is not None, packed=packed, few_bits=few_bits,
                     row_weights=rows.weight_sums.weighted)


def pipeline_of_all(rows: QuantizedRows | BitPlaneRows,
                    wishes: Sequence[tuple[Objective, Training]],
                    lookahead: int | str, packed: bool = False) -> PipelineConfig:
    """The pipeline that runs several trainings on the same rows.

    Those with ``model_bits`` and those without need a pipeline each; here it is that of those
    without, and a device that counts cycles of hardware refuses the others.
    """
    models = [training.model_bits for _, training in wishes]
    few_bits = (max(models) if all(models) else 0, max(one.update_bits for _, one in wishes))
    widest = max((objective for objective, _ in wishes), key=lambda one: one.proximal)
    return pipeline_of(rows, widest, lookahead, packed, few_bits)
