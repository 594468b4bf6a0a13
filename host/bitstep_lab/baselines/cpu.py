"""Training on a CPU by compiled kernels: sequential, Hogwild!, through BLAS, and on 8-bit codes.

All minimise the mean loss of the rows plus ``l2 / 2`` times the squared norm of the weights by the
algorithm of docs/number-formats.md, in float32: rows in their order, each batch meeting one model,
``x <- x - step (mean gradient + l2 x)``, where a shorter last batch is divided by ``batch`` all the
same. Unlike the diagonal correction of the hardware, ``l2`` acts in every batch.

========= =====================================================================================
method    work of an epoch
========= =====================================================================================
sgd       One thread; a row is read once, for its product and its update.
hogwild   Hogwild! (Niu et al., 2011): threads do the same on disjoint ranges of rows, with one
          shared model and no locks. With one thread it is ``sgd``, bit for bit. With more it needs
          as many idle processors: a thread that is interrupted within an update writes back a
          stale part of the model when it goes on.
minibatch One thread calls BLAS for the two products of a batch; BLAS may use ``threads``, but
          OpenBLAS takes one for batches as small as 256 x 90.
lowprec   ``hogwild`` on 8-bit codes with a float32 model: Buckwild! (De Sa et al., 2015) with
          signature D8M32. Codes become float32 in registers.
========= =====================================================================================
"""

from collections.abc import Sequence
from contextlib import nullcontext

import numpy as np

from bitstep.checks import check_choice
from bitstep.pipeline.registers import Loss
from bitstep_lab.baselines.runs import CpuResult, Stop, check_numbers, check_rows, run_epochs
from bitstep_lab.baselines.threads import Team, load_kernels, split

METHODS = ("sgd", "hogwild", "minibatch", "lowprec")
CODE_LIMIT = 127            # the level that stands for 1 at 8 bits
WARM_UP_ROWS = 4            # for each thread


def train_cpu(features: np.ndarray, targets: np.ndarray, *, method: str, loss: Loss,
              steps: Sequence[float], batch: int = 1, threads: int = 1, l2: float = 0.0,
              fit_intercept: bool = True, stop: Stop | None = None) -> CpuResult:
    """Train a linear model on the CPU, from zero, and time every epoch.

    Parameters
    ----------
    features : ndarray, shape (n_rows, n_features), C order
        Scaled rows: float32 u, or for ``lowprec`` codes of 8 bits, as uint8 from
        :func:`bitstep.quantization.encode` (encodings ``nearest`` and ``stochastic``) or as the
        same levels in int8. Used in place.
    targets : ndarray of float32, shape (n_rows,)
        +1 and -1 for all losses but least squares.
    method : {"sgd", "hogwild", "minibatch", "lowprec"}
        See the table of this module.
    loss : Loss
    steps : sequence of float
        One for each epoch, positive (:func:`bitstep.training.schedules.schedule_steps`).
    batch : int
        Rows of a batch. Threads have batches of their own.
    threads : int
        At least 1; more than there are batches are not used.
    l2 : float
    fit_intercept : bool
    stop : callable or None
        ``stop(epoch, weights, intercept)`` is called after each epoch, counted from 1, with the
        model in float64; True ends the run.

    Returns
    -------
    CpuResult

    Raises
    ------
    DivergedError
        If the model is not finite after an epoch; its ``run`` has the epochs before.
    ImportError
        If numba is missing, or what ``minibatch`` needs to limit the threads of BLAS.
    ValueError
        If a parameter is not as described.
    """
    loss, steps = _check(features, targets, method, loss, steps, batch, threads, l2)
    rows = features.view(np.int8) if method == "lowprec" else features
    # The weights of codes are in units of 1 / 127, so that a product needs no scaling.
    scale = CODE_LIMIT if method == "lowprec" else 1
    model = np.zeros(rows.shape[1] + 1, np.float32)
    kernels = load_kernels()

    def factors_of(step):
        return kernels.Factors(*map(np.float32, (step, 1 / scale ** 2, l2, step * fit_intercept)))

    with Team(1 if method == "minibatch" else threads) as team:
        epoch = _compiled_epoch(kernels, team, (int(loss), rows, targets, model), factors_of, batch,
                                warm_up_rows=WARM_UP_ROWS * threads, blas=method == "minibatch")
        with _blas_threads(threads) if method == "minibatch" else nullcontext():
            return run_epochs(
                epoch, lambda: (model[:-1].astype(np.float64) * scale, float(model[-1])), steps,
                stop, method=method, loss=loss, threads=threads, batch=batch,
                bytes_per_epoch=rows.nbytes + targets.nbytes)


def _check(features, targets, method, loss, steps, batch, threads, l2):
    """Raise ValueError unless all is as described; return the loss, and the steps as floats."""
    check_choice("method", method, METHODS)
    loss = Loss(loss)
    steps = check_numbers(steps, l2, batch=batch, threads=threads)
    if method == "sgd" and threads != 1:
        raise ValueError(f"threads must be 1 for method 'sgd', not {threads}; several threads "
                         "have method 'hogwild'")
    lowprec = method == "lowprec"
    check_rows(features, targets, (np.uint8, np.int8) if lowprec else (np.float32,), loss)
    if lowprec and (least := features.view(np.int8).min()) < -CODE_LIMIT:
        raise ValueError(f"features must be codes with levels from {-CODE_LIMIT} to {CODE_LIMIT}, "
                         f"not {least}; make them with bitstep.quantization.encode")
    return loss, steps


def _compiled_epoch(kernels, team, common, factors_of, batch, *, warm_up_rows, blas):
    """An epoch as a function of the step; compiled, and BLAS loaded, by one over a few rows.

    The threads of BLAS can be limited once it is loaded.
    """
    def epoch_of(common):
        if blas:
            return _blas_epoch(kernels, common, factors_of, batch)
        return _stream_epoch(kernels, team, common, factors_of, batch)

    loss, rows, targets, model = common
    warm_up = epoch_of((loss, rows[:warm_up_rows].copy(), targets[:warm_up_rows].copy(),
                        model.copy()))
    warm_up(1e-6)
    return epoch_of(common)


def _stream_epoch(kernels, team, common, factors_of, batch):
    """An epoch of ``sgd``, ``hogwild`` and ``lowprec``, as a function of the step."""
    _, rows, _, _ = common
    ranges = split(len(rows), team.threads, batch)

    def epoch(step):
        factors = factors_of(step)

        def work(start, stop):
            if batch == 1:
                kernels.stream(*common, factors, start, stop)
            else:
                gradient = np.empty(rows.shape[1], np.float32)
                kernels.stream_batches(*common, factors, start, stop, batch, gradient)
        return team.run(work, ranges)
    return epoch


def _blas_epoch(kernels, common, factors_of, batch):
    """An epoch of ``minibatch``, as a function of the step."""
    _, rows, _, _ = common
    gradient = np.empty(rows.shape[1], np.float32)
    values = np.empty(min(batch, len(rows)), np.float32)

    def epoch(step):
        kernels.blas_batches(*common, factors_of(step), batch, gradient, values)
        return 0.0
    return epoch


def _blas_threads(threads):
    try:
        from threadpoolctl import threadpool_limits
    except ImportError as error:
        raise ImportError(f"Method 'minibatch' needs threadpoolctl ({error}): pip install "
                          '"bitstep[bench]"') from error
    return threadpool_limits(limits=threads, user_api="blas")
