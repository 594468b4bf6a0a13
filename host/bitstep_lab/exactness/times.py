"""Time to given distances to the optimum: bit-centred training beside float pipelines and CPUs."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from bitstep.cycles import Memory, count_epochs
from bitstep.devices import open_device
from bitstep.pipeline.config import FLOAT_BITS
from bitstep.pipeline.job import TrainingJob
from bitstep.pipeline.losses import LOSSES
from bitstep.quantization import quantize_rows, weave_rows
from bitstep.training.bit_centred import BitCentredRun
from bitstep.training.bit_centred_smooth import SmoothRun
from bitstep.training.centred_passes import BitCentred
from bitstep.training.objective import Objective, Training
from bitstep.training.pipelines import pipeline_of
from bitstep.training.schedules import centred_step
from bitstep.training.train import train_model
from bitstep.writing import duration
from bitstep_lab.baselines import train_cpu
from bitstep_lab.exactness import floats
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
RARE = 32                   # rows between corrections that hide behind the rows
REPEATS = 3                 # of what is timed on this machine; the least counts
SOLVER_PASSES = tuple(2 ** power for power in range(11))     # most passes of SAG and SAGA


def times(problem: Problem, profiles: Sequence[Profile]) -> Iterator[Curve]:
    """Distance to the optimum by seconds, of every contestant.

    Parameters
    ----------
    problem : Problem
    profiles : sequence of Profile
        Boards of the pipelines.

    Yields
    ------
    Curve
        Whose ``epochs`` are seconds: of the device, and of the host on this machine.
    """
    sgd, svrg = best_sgd(problem), best_svrg(problem)
    for profile in profiles:
        for planes, period in ((2, RARE), (4, RARE), (4, 8)):
            yield _centred(problem, profile, planes, period)
        pipeline = _float_pipeline(problem, profile, sgd)
        yield pipeline
        epoch = float(pipeline.epochs[-1]) / len(pipeline.epochs)
        yield Curve(f"{profile.name}: float pipeline, host-driven SVRG", epoch * svrg.epochs,
                    svrg.excess, svrg.choice)
    yield _cpu_sgd(problem, sgd)
    yield _cpu_svrg(problem, svrg)
    yield from _scikit(problem)


class _Clock:
    """A device whose passes over the rows are timed by the cycle model.

    No pipeline in RTL has the constants of corrections, or sums gradients. The first cost no cycle,
    and a full pass counts as one of SGD, whose recursion it does not have.
    """

    def __init__(self, device: Any, profile: Profile):
        self.device, self.clock_hz = device, profile.clock_hz
        self.memory = Memory(profile.memory_latency, None if profile.memory_gbps is None
                             else profile.memory_gbps * 1e9 / profile.clock_hz)
        self.seconds = 0.0
        self.left = 0.0         # processor time of the native loops and of counting

    def gradient(self, job: TrainingJob, **options: Any) -> Any:
        """Sum the gradient."""
        return self._timed(self.device.gradient, job, options)

    def train(self, job: TrainingJob, **options: Any) -> Any:
        """Run a job."""
        return self._timed(self.device.train, job, options)

    def _timed(self, call: Callable[..., Any], job: TrainingJob, options: dict[str, Any]) -> Any:
        started = time.process_time()
        try:
            return call(job, **options)
        finally:
            counted = replace(job, constants=None, constant_intercept=0)
            counters, _ = count_epochs(counted, self.memory, config=self.device.config)
            assert counters["cycles"] is not None
            self.seconds += counters["cycles"] / self.clock_hz
            self.left += time.process_time() - started


def _centred(problem: Problem, profile: Profile, planes: int, period: int) -> Curve:
    rows = weave_rows(problem.features, bus_width=profile.bus_width)
    objective = Objective(loss=problem.loss, l2=problem.l2)
    config = pipeline_of(rows, objective)
    kind = BitCentredRun if objective.rule.quadratic else SmoothRun
    ends: list[list[tuple[float, float]]] = []
    models: list[list[np.ndarray]] = []
    with open_device("cpu", config) as device:
        for data in labelled(problem, rows):
            clock, started = _Clock(device, profile), time.process_time()
            choice = BitCentred(planes=[planes] * 60, tol=1e-8, period=period,
                                step=centred_step(rows, problem.loss, problem.l2))
            ends.append([])
            models.append([])
            for state in kind(data, clock, config,      # type: ignore[arg-type]
                              objective, choice).steps():
                host = time.process_time() - started - clock.left
                ends[-1].append((clock.seconds, host))
                models[-1].append(np.append(state.weights, state.intercept + data.label_offset))
    last = max(map(len, ends))
    excess = problem.excess(np.array([[one[min(point, len(one) - 1)] for one in models]
                                      for point in range(last)]))
    device_s, host_s = np.array([[one[min(point, len(one) - 1)] for one in ends]
                                 for point in range(last)]).sum(axis=1).T
    alone = Curve("", device_s, excess).goal(GOALS[-1])
    name = f"{profile.name}: bit-centred, {planes} bits, T = {period}"
    return Curve(name, device_s + host_s, excess,
                 f"device alone {duration(alone)}" if np.isfinite(alone) else "")


def _float_pipeline(problem: Problem, profile: Profile, chosen: Curve) -> Curve:
    """Cycles by the cycle model, step and schedule as chosen for SGD in float64."""
    rows = quantize_rows(problem.features, bits=FLOAT_BITS, encoding="float",
                         bus_width=profile.bus_width)
    objective = Objective(loss=problem.loss, l2=problem.l2)
    config = pipeline_of(rows, objective, 0).with_lookahead()
    training = Training(steps=_steps(problem, chosen), correction_period="within")
    with open_device("cpu", config, clock_hz=profile.clock_hz, memory_gbps=profile.memory_gbps,
                     memory_latency=profile.memory_latency) as device:
        model = train_model(labelled(problem, rows), device, config, objective, training)
    assert model.epoch_cycles is not None
    return Curve(f"{profile.name}: float pipeline, SGD", model.epoch_cycles / profile.clock_hz,
                 problem.excess(models_of(model)), chosen.choice)


def _steps(problem: Problem, chosen: Curve) -> np.ndarray:
    share = float(chosen.choice.split()[1])
    steps = np.full(FLOAT_EPOCHS, share / step_unit(problem))
    return steps / np.arange(1, FLOAT_EPOCHS + 1) if "epoch" in chosen.choice else steps


def _cpu_sgd(problem: Problem, chosen: Curve) -> Curve:
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
    return Curve("CPU SGD, 1 thread", np.cumsum(np.sum(seconds, axis=0)), problem.excess(models),
                 chosen.choice)


def _cpu_svrg(problem: Problem, chosen: Curve) -> Curve:
    """SVRG in compiled float64 loops, one thread."""
    parts = chosen.choice.replace(",", "").split()
    step, inner = float(parts[1]) / step_unit(problem), int(parts[-3])

    def run() -> Any:
        return floats.svrg(problem.design, problem.targets, step, inner=inner, epochs=SVRG_EPOCHS,
                           loss=problem.loss, l2=problem.l2)

    seconds, models = _least_time(run)
    return Curve("CPU SVRG, 1 thread", seconds / len(models) * np.arange(1, len(models) + 1),
                 problem.excess(models), chosen.choice)


def _least_time(run: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds of processor time, the least of some runs, and a result."""
    found, taken = None, []
    for _ in range(REPEATS):
        started = time.process_time()
        found = run()
        taken.append(time.process_time() - started)
    return min(taken), found


def _scikit(problem: Problem) -> Iterator[Curve]:
    """scikit-learn's solvers; SAG and SAGA are run anew for each number of passes."""
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
            model.fit(rows, target)
            models.append(np.append(model.coef_, model.intercept_))
        return np.array(models)

    direct = ("cholesky" if quadratic else "lbfgs", "Ridge" if quadratic else "lbfgs")
    for solver, name in (direct, ("sag", "SAG"), ("saga", "SAGA")):
        found = [_least_time(lambda solver=solver, passes=passes: fitted(solver, passes))
                 for passes in ((1,) if solver == "cholesky" else SOLVER_PASSES)]
        yield Curve(f"scikit-learn {name}", np.array([seconds for seconds, _ in found]),
                    problem.excess(np.array([models for _, models in found])))
