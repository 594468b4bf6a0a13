"""A run of a CPU baseline, or of scikit-learn, in a race."""

import time
from typing import Any

import numpy as np

from bitstep.quantization import encode
from bitstep_lab.races.contestants import Cpu, Sklearn, Task, label_middle, scale_rows

REPEATS = 5             # of a run, unless it takes longer than
REPEAT_BELOW_S = 10.0


def run_cpu(contestant: Cpu | Sklearn, task: Task) -> dict[str, Any]:
    """Train on this machine's cores, in scaled feature space.

    A run is repeated, and an epoch's time is the least of its repetitions, which is what the
    machine can do when nothing disturbs it; the losses are those of the first.

    Returns
    -------
    dict
        As :func:`run_pipeline`, as far as it applies; ``host`` has the seconds of scaling, and of
        quantizing for ``lowprec``.

    Raises
    ------
    ImportError
        If what the baseline needs is not installed.
    """
    race = task.race
    started = time.perf_counter()
    scaler, scaled = scale_rows(race.data.dataset.features)
    rows = scaled
    if isinstance(contestant, Cpu) and contestant.method == "lowprec":
        rows = encode(scaled, bits=8, encoding="nearest")
    host = {"quantize_s": time.perf_counter() - started, "transfer_s": 0.0}
    middle = label_middle(race.targets, race.kind.task)
    runs, seconds = [], []
    try:
        for target in (race.targets - middle).T.astype(np.float32):
            target = np.ascontiguousarray(target)
            repeated = [_train(contestant, task, rows, target)]
            while len(repeated) < REPEATS and repeated[0].seconds.sum() < REPEAT_BELOW_S:
                repeated.append(_train(contestant, task, rows, target))
            runs.append(repeated[0])
            seconds.append(np.min([run.seconds for run in repeated], axis=0))
    except ArithmeticError as error:        # it diverged
        return {"status": str(error), "host": host}
    weights = np.stack([run.weights for run in runs], axis=1)
    intercepts = np.stack([run.intercepts for run in runs], axis=1) + middle
    total = np.sum(seconds, axis=0)
    n_bytes = sum(run.bytes_per_epoch for run in runs) * len(total)
    return {"status": "ok", **race.judged(*scaler.unscale_model(weights, intercepts), weights),
            "seconds": np.cumsum(total).tolist(), "gbps": n_bytes / total.sum() / 1e9,
            "bytes_read": n_bytes, "host": host}


def _train(contestant, task, rows, target):
    from bitstep_lab.baselines import train_cpu, train_sklearn
    common = {"loss": task.race.kind.loss, "steps": task.steps.tolist(), "l2": task.race.l2}
    if isinstance(contestant, Sklearn):
        return train_sklearn(rows, target, **common)
    return train_cpu(rows, target, method=contestant.method, threads=contestant.threads,
                     batch=contestant.batch or task.batch, **common)
