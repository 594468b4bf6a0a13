"""Pipelines that races compile."""

from collections.abc import Sequence

from bitstep.options.models import MODELS
from bitstep.pipeline.encodings import ENCODINGS
from bitstep.pipeline.losses import LOSSES
from bitstep_lab.races.board_profiles import profile
from bitstep_lab.races.contestants import Pipeline, sample_of, with_batches
from bitstep_lab.races.experiments import Experiment
from bitstep_lab.races.race_data import COLUMNS


def pipelines_of(chosen: Sequence[Experiment], *, rtl: bool) -> int:
    """Different pipelines whose RTL the races need, which is what a first run compiles.

    Parameters
    ----------
    chosen : sequence of Experiment
    rtl : bool
        True if the RTL runs all pipelines, and not one of each race.
    """
    kinds = set()
    for experiment in chosen:
        for one in (several for each in experiment.contestants
                    for several in with_batches(each, experiment.batches)) if rtl \
                else [sample_of(experiment.contestants)]:
            if isinstance(one, Pipeline) and one.timed:
                kinds.add((profile(experiment.profile).bus_width, one.bits,
                           ENCODINGS[one.encoding].row_format, one.lookahead, one.refetch,
                           one.levels, one.update_interval, one.models,
                           LOSSES[MODELS[experiment.model].loss].loss_family,
                           COLUMNS.get(experiment.data, 0) > 4096))
    return len(kinds)
