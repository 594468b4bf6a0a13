"""Contestants on the same partitions of the same cluster."""

import importlib
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bitstep.dask import LowPrecisionClassifier, LowPrecisionRegressor
from bitstep.dask.devices import DeviceChoice
from bitstep.dask.engine import Engine
from bitstep.dask.sources import part_of, sources_of
from bitstep.dask.training import collected
from bitstep.training.shards.passes import train_shards
from bitstep_lab.many_machines.clusters import bytes_between

WEAK = 1e-12                # of a penalty that a contestant cannot do without
ADMM_ROUNDS = 20


@dataclass
class Run:
    """Models of a contestant by time.

    Attributes
    ----------
    name : str
    seconds : list of float
        From the beginning to each model.
    models : list of ndarray, shape (n_features + 1,)
        Intercept first.
    rounds : int
        Times that the workers were asked for something that needs all answers.
    bytes_between : int
        Written by all processes.
    """

    name: str
    seconds: list[float] = field(default_factory=list)
    models: list[np.ndarray] = field(default_factory=list)
    rounds: int = 0
    bytes_between: int = 0


def measured(client: Any, name: str, train: Callable[[Run, float], None]) -> Run:
    """A run of a function that adds models to it."""
    found, before = Run(name), bytes_between(client)
    train(found, time.perf_counter())
    found.bytes_between = bytes_between(client) - before
    return found


class CountingEngine(Engine):
    """Counts what it asks all partitions or shards for."""

    rounds = 0

    def submit(self, *arguments: Any, **options: Any) -> Any:
        """See :meth:`bitstep.dask.engine.Engine.submit`."""
        self.rounds += 1
        return super().submit(*arguments, **options)


def bitstep(client: Any, rows: Any, *, classes: bool, epochs: int = 40) -> Run:
    """Bit-centred training without a penalty; a round is a pass of every shard."""
    def train(run: Run, started: float) -> None:
        kind: Any = LowPrecisionClassifier if classes else LowPrecisionRegressor
        model = kind(client=client, l2=0.0, epochs=epochs, tol=1e-6, random_state=0)
        sources = sources_of(rows[:, :-1], rows[:, -1])
        resolved = model._local()._resolved_for(sources.n_features)
        engine = CountingEngine(client)
        with collected(engine, part_of, sources.parts, resolved, DeviceChoice(), seed=0,
                       shuffle=True, shard_rows=None, fit_intercept=True) as data:
            objective = resolved.objective(data.rows.n_rows)
            trained = train_shards(
                data.shards, data.outputs, data.config, objective,
                resolved.training(data.rows, objective),
                on_epoch=lambda _: run.seconds.append(time.perf_counter() - started))
        run.models = [np.append(intercept, coef) for coef, intercept in zip(
            trained.coefs[:, 0], trained.intercepts[:, 0], strict=True)]
        run.rounds = engine.rounds

    return measured(client, "bitstep", train)


def admm(client: Any, rows: Any) -> Run:
    """The algorithm of dask-ml's LinearRegression, with its defaults but for the penalty, and all
    rounds that it is given.
    """
    algorithms, families, regularizers = parts_of_dask_glm("algorithms", "families", "regularizers")

    def train(run: Run, started: float) -> None:
        class Noting(regularizers.L2):
            """Notes each consensus."""

            def proximal_operator(self, beta: Any, t: Any) -> Any:
                found = super().proximal_operator(beta, t)
                run.seconds.append(time.perf_counter() - started)
                run.models.append(np.array(found))
                return found

        features, labels = _with_ones(rows)
        algorithms.admm(features, labels, regularizer=Noting(), lamduh=WEAK, abstol=0.0,
                        reltol=0.0, max_iter=ADMM_ROUNDS, family=families.Normal,
                        normalize=False)
        run.rounds = len(run.models)

    return measured(client, "dask-ml LinearRegression, ADMM", train)


def lbfgs(client: Any, rows: Any, *, classes: bool) -> Run:
    """The algorithm of dask-ml's LogisticRegression, or of its LinearRegression with solver
    ``lbfgs``, with a small tolerance; a round is an evaluation of loss and gradient.
    """
    algorithms, families = parts_of_dask_glm("algorithms", "families")

    def train(run: Run, started: float) -> None:
        minimize = algorithms.fmin_l_bfgs_b

        def noting(function: Any, start: Any, **options: Any) -> Any:
            def counted(*arguments: Any) -> Any:
                run.rounds += 1
                return function(*arguments)

            def note(model: np.ndarray) -> None:
                run.seconds.append(time.perf_counter() - started)
                run.models.append(np.array(model))

            return minimize(counted, start, callback=note, factr=10.0, **{
                name: value for name, value in options.items() if name != "iprint"})

        features, labels = _with_ones(rows)
        algorithms.fmin_l_bfgs_b = noting
        try:
            with warnings.catch_warnings():     # an old name of a setting of Dask
                warnings.simplefilter("ignore", FutureWarning)
                algorithms.lbfgs(features, labels, lamduh=0.0, tol=1e-9 * rows.shape[0],
                                 max_iter=60, normalize=False,
                                 family=families.Logistic if classes else families.Normal)
        finally:
            algorithms.fmin_l_bfgs_b = minimize

    kind = "LogisticRegression" if classes else "LinearRegression"
    return measured(client, f"dask-ml {kind}, L-BFGS", train)


def parts_of_dask_glm(*names: str) -> list[Any]:
    """Modules of dask-glm, which dask-ml trains with. ImportError if it is not installed."""
    try:
        importlib.import_module("dask_glm")
    except ImportError as error:
        raise ImportError(f"the race needs dask-ml ({error}): pip install dask-ml") from error
    return [importlib.import_module(f"dask_glm.{name}") for name in names]


def _with_ones(rows: Any) -> tuple[Any, Any]:
    """Features after a column of ones, and labels."""
    whole = rows.map_blocks(lambda block: np.column_stack(
        [np.ones(len(block), block.dtype), block[:, :-1]]), dtype=rows.dtype,
        meta=np.empty((0, 0), rows.dtype))
    return whole.persist(), rows[:, -1].persist()


def scikit(client: Any, rows: Any, *, classes: bool) -> Run:
    """Scikit-learn in the client's process, to which all rows are sent, as part of its time."""
    from sklearn.linear_model import LinearRegression, LogisticRegression

    def train(run: Run, started: float) -> None:
        whole = client.gather(client.compute(rows))
        model: Any = LogisticRegression(C=np.inf, tol=1e-8, max_iter=1000) if classes \
            else LinearRegression()
        model.fit(whole[:, :-1], whole[:, -1])
        run.seconds.append(time.perf_counter() - started)
        run.models.append(np.append(model.intercept_, model.coef_))

    return measured(client, "scikit-learn, one process", train)
