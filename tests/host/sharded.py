"""Training over shards in this process, as an estimator would train them."""

from itertools import pairwise

import numpy as np

from bitstep.devices import device_class, open_device
from bitstep.training.pipelines import pipeline_of
from bitstep.training.shards.parts import (
    ClassWeights,
    Part,
    left_out_classes,
    make_shards,
    merge,
    shard_plan_of,
    summarize,
    weighed_part,
)
from bitstep.training.shards.passes import train_shards
from bitstep.training.shards.shards import LocalShards
from bitstep.training.shards.summed import summed_outputs, summed_rows
from bitstep.training.weighing import weigh_together


def make_parts(features, targets, ends, weights=None):
    """Parts of the rows between some ends."""
    return [Part(f"Partition {number}", features[start:stop], targets[start:stop],
                 weights=None if weights is None else weights[start:stop])
            for number, (start, stop) in enumerate(pairwise(ends))]


def train_parts(estimator, parts, *, shard_rows=None, device="cpu", shards=LocalShards, **options):
    """The model of an ordinary estimator's parameters, over the shards of parts."""
    classes = estimator._is_classifier
    class_weight = getattr(estimator, "class_weight", None)
    summaries = [summarize(one, classes, left_out_classes(class_weight)) for one in parts]
    summary = merge(summaries)
    weights, weighed = ClassWeights.of(summary, class_weight), None
    if weights is not None:
        weighed = weights.weighed(summary) \
            or weigh_together([weighed_part(one, weights) for one in parts])
    resolved = estimator._resolved_for(len(summary.low))
    plan = shard_plan_of(summary, resolved.rows.scaler, weights, weighed,
                         seed=estimator.random_state, shuffle=estimator.shuffle,
                         fit_intercept=estimator.fit_intercept, shard_rows=shard_rows)
    made = []
    for one, found in zip(parts, summaries, strict=True):
        made += make_shards(one, plan, len(made), found)
    rows = summed_rows([one.facts for one in made], plan.scaler, plan.bus_width, plan.seed)
    outputs = summed_outputs(rows, plan.labels())
    resolved = resolved.of_outputs(len(outputs), device_class(device))
    objective = resolved.objective(plan.rule.rows_meant)
    training = resolved.training(rows, objective)
    config = pipeline_of(rows, objective)
    with open_device(device, config) as opened, opened.keep_rows():
        return train_shards(shards(made, opened), outputs, config,
                            objective, training, step_asked=estimator.step != "auto", **options)


def same(one, other):
    """True if two trained models are the same, bit for bit."""
    return np.array_equal(one.coefs, other.coefs) and np.array_equal(one.intercepts,
                                                                     other.intercepts)
