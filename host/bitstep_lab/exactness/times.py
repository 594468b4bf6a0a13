"""Time to given distances to the optimum: bit-centred training beside SGD on pipelines and CPUs."""

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bitstep.devices import open_device
from bitstep.pipeline.losses import LOSSES
from bitstep.pipeline.parts.formats import FLOAT_BITS
from bitstep.quantization import QuantizedRows, quantize_bit_planes, quantize_rows
from bitstep.training.centred.least_squares import BitCentredRun
from bitstep.training.centred.passes import BitCentred
from bitstep.training.centred.smooth import SmoothRun
from bitstep.training.choices import resolve_training
from bitstep.training.objective import Objective, Training
from bitstep.training.pipelines import pipeline_of
from bitstep.training.schedules import centred_step
from bitstep.training.train import train_model
from bitstep_lab.baselines import train_cpu
from bitstep_lab.exactness import floats
from bitstep_lab.exactness.clocks import Clock, Replay, host_seconds
from bitstep_lab.exactness.curves import (
    FLOAT_EPOCHS,
    SVRG_EPOCHS,
    Curve,
    best_sgd,
    best_svrg,
    labelled,
    models_of,
    step_unit,
)
from bitstep_lab.exactness.problems import Problem
from bitstep_lab.races.board_profiles import Profile

GOALS = (1e-2, 1e-3, 1e-4)
PLANES = (2, 4)             # of bit-centred training
FIXED_BITS = (4, 8)         # of SGD
REPEATS = 3                 # of what is timed on this machine; the least counts
SOLVER_PASSES = tuple(2 ** power for power in range(11))     # most passes of SAG and SAGA


@dataclass(frozen=True, eq=False)
class Timed(Curve):
    """Distance to the optimum by time; ``epochs`` are seconds.

    Attributes
    ----------
    profile : str
        Board of a pipeline; empty for this machine's processor.
    device : ndarray of float64 or None
        Seconds of the pipeline alone, where a host's time is part of ``epochs``.
    """

    profile: str = ""
    device: np.ndarray | None = None

    @property
    def label(self) -> str:
        """Name with the board."""
        return f"{self.profile}: {self.name}" if self.profile else self.name

    def alone(self, goal: float) -> float:
        """:meth:`goal` of the pipeline alone; NaN if that is not known apart."""
        return np.nan if self.device is None else replace(self, epochs=self.device).goal(goal)


def times(problem: Problem, profiles: Sequence[Profile], period: int = 0) -> Iterator[Timed]:
    """Distance to the optimum by seconds, of every contestant.

    Parameters
    ----------
    problem : Problem
    profiles : sequence of Profile
        Boards of the pipelines.
    period : int
        Rows between corrections of bit-centred training; 0: its default.
    """
    sgd, svrg = best_sgd(problem), best_svrg(problem)
    for profile in profiles:
        for planes in PLANES:
            yield _centred(problem, profile, planes, period)
        for bits in FIXED_BITS if LOSSES[problem.loss].quadratic else FIXED_BITS[-1:]:
            yield _fixed(problem, profile, bits)
        pipeline = _float_pipeline(problem, profile, sgd)
        yield pipeline
        epoch = float(pipeline.epochs[-1]) / len(pipeline.epochs)
        yield Timed("float pipeline, host-driven SVRG", epoch * svrg.epochs, svrg.excess,
                    svrg.choice, profile.name)
    yield _cpu_sgd(problem, sgd)
    yield _cpu_svrg(problem, svrg)
    yield from _scikit(problem)


def _centred(problem: Problem, profile: Profile, planes: int, period: int = 0) -> Timed:
    rows = quantize_bit_planes(problem.features, bus_width=profile.bus_width)
    objective = Objective(loss=problem.loss, l2=problem.l2)
    config = pipeline_of(rows, objective)
    kind = BitCentredRun if objective.rule.quadratic else SmoothRun
    device_s: list[list[float]] = []
    host_s: list[np.ndarray] = []
    models: list[list[np.ndarray]] = []
    with open_device("cpu", config) as device:
        for data in labelled(problem, rows):
            def run(device: Any, data: Any = data) -> Iterator[Any]:
                step = centred_step(rows, problem.loss, problem.l2)
                choice = BitCentred(planes=[planes] * 60, tol=1e-8, step=step,
                                    period=period)
                return kind(data, device, config, objective, choice).steps()

            clock = Clock(device, profile)
            device_s.append([])
            models.append([])
            for state in run(clock):
                device_s[-1].append(clock.seconds)
                models[-1].append(np.append(state.weights, state.intercept + data.label_offset))
            host_s.append(host_seconds(lambda run=run, clock=clock: run(Replay(clock.answers))))
    last = max(map(len, models))

    def of_outputs(lists: Sequence[Any]) -> np.ndarray:
        return np.array([[one[min(point, len(one) - 1)] for one in lists]
                         for point in range(last)])

    device_sums, host_sums = (of_outputs(one).sum(axis=1) for one in (device_s, host_s))
    name = f"bit-centred, {planes} bits" + (f", T = {period}" if period else "")
    return Timed(name, device_sums + host_sums,
                 problem.excess(of_outputs(models)), "", profile.name, device_sums)


def _fixed(problem: Problem, profile: Profile, bits: int) -> Timed:
    """SGD on codes of fixed bits, as :func:`bitstep_lab.exactness.curves.fixed`."""
    encoding = "compensated" if LOSSES[problem.loss].quadratic else "stochastic"
    rows = quantize_rows(problem.features, bits=bits, encoding=encoding,
                         bus_width=profile.bus_width)
    training = resolve_training(rows, Objective(loss=problem.loss, l2=problem.l2),
                                epochs=FLOAT_EPOCHS)
    return _sgd(problem, profile, rows, training, f"SGD, {bits} bits", "")


def _float_pipeline(problem: Problem, profile: Profile, chosen: Curve) -> Timed:
    """Step and schedule as chosen for SGD in float64."""
    rows = quantize_rows(problem.features, bits=FLOAT_BITS, encoding="float",
                         bus_width=profile.bus_width)
    training = Training(steps=_steps(problem, chosen), correction_period="within")
    return _sgd(problem, profile, rows, training, "float pipeline, SGD", chosen.choice)


def _sgd(problem: Problem, profile: Profile, rows: QuantizedRows, training: Training, name: str,
         choice: str) -> Timed:
    """SGD on a pipeline, timed by the cycle model."""
    objective = Objective(loss=problem.loss, l2=problem.l2)
    config = pipeline_of(rows, objective, 0).with_lookahead()
    with open_device("cpu", config, clock_hz=profile.clock_hz, memory_gbps=profile.memory_gbps,
                     memory_latency=profile.memory_latency) as device:
        model = train_model(labelled(problem, rows), device, config, objective, training)
    assert model.epoch_cycles is not None
    return Timed(name, model.epoch_cycles / profile.clock_hz, problem.excess(models_of(model)),
                 choice, profile.name)


def _steps(problem: Problem, chosen: Curve) -> np.ndarray:
    share = float(chosen.choice.split()[1])
    steps = np.full(FLOAT_EPOCHS, share / step_unit(problem))
    return steps / np.arange(1, FLOAT_EPOCHS + 1) if "epoch" in chosen.choice else steps


def _cpu_sgd(problem: Problem, chosen: Curve) -> Timed:
    rows = np.ascontiguousarray(problem.design[:, :-1], np.float32)
    middle = (problem.targets.min() + problem.targets.max()) / 2 if problem.regression else 0.0
    weights, intercepts, seconds = [], [], []
    for target in (problem.targets - middle).T.astype(np.float32):
        runs = [train_cpu(rows, np.ascontiguousarray(target), method="sgd", loss=problem.loss,
                          steps=_steps(problem, chosen).tolist(), l2=problem.l2)
                for _ in range(REPEATS)]
        weights.append(runs[0].weights)
        intercepts.append(runs[0].intercepts + middle)
        seconds.append(np.min([run.seconds for run in runs], axis=0))
    models = np.concatenate([np.stack(weights, 1), np.stack(intercepts, 1)[..., None]], axis=2)
    return Timed("CPU SGD, 1 thread", np.cumsum(np.sum(seconds, axis=0)), problem.excess(models),
                 chosen.choice)


def _cpu_svrg(problem: Problem, chosen: Curve) -> Timed:
    """SVRG in compiled float64 loops, one thread."""
    parts = chosen.choice.replace(",", "").split()
    step, inner = float(parts[1]) / step_unit(problem), int(parts[-3])

    def run() -> Any:
        return floats.svrg(problem.design, problem.targets, step, inner=inner, epochs=SVRG_EPOCHS,
                           loss=problem.loss, l2=problem.l2)

    seconds, models = _least_time(run)
    return Timed("CPU SVRG, 1 thread", seconds / len(models) * np.arange(1, len(models) + 1),
                 problem.excess(models), chosen.choice)


def _least_time(run: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds of processor time, the least of some runs, and a result."""
    found, taken = None, []
    for _ in range(REPEATS):
        started = time.process_time()
        found = run()
        taken.append(time.process_time() - started)
    return min(taken), found


def _scikit(problem: Problem) -> Iterator[Timed]:
    """scikit-learn's solvers; SAG and SAGA are run anew for each number of passes."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression, Ridge
    count, quadratic = len(problem.features), LOSSES[problem.loss].quadratic
    if not quadratic and LOSSES[problem.loss].name != "log_loss":
        return
    rows = problem.design[:, :-1]

    def fitted(solver: str, passes: int) -> np.ndarray:
        models = []
        for target in problem.targets.T:
            # Without a tolerance, they end after so many passes.
            model = Ridge(alpha=max(count * problem.l2, 1e-10), solver=solver, max_iter=passes,
                          tol=0.0, random_state=0) if quadratic else LogisticRegression(
                C=1 / (count * problem.l2), solver=solver, max_iter=passes, tol=0.0,
                random_state=0)
            with warnings.catch_warnings():     # the goal is the passes', not theirs
                warnings.simplefilter("ignore", ConvergenceWarning)
                model.fit(rows, target)
            models.append(np.append(model.coef_, model.intercept_))
        return np.array(models)

    direct = ("cholesky" if quadratic else "lbfgs", "Ridge" if quadratic else "lbfgs")
    for solver, name in (direct, ("sag", "SAG"), ("saga", "SAGA")):
        seconds, excess = [], []
        for passes in (1,) if solver == "cholesky" else SOLVER_PASSES:
            taken, models = _least_time(lambda solver=solver, passes=passes: fitted(solver, passes))
            seconds.append(taken)
            excess.append(float(problem.excess(models[None])[0]))
            if excess[-1] <= GOALS[-1]:
                break
        yield Timed(f"scikit-learn {name}", np.array(seconds), np.array(excess))
