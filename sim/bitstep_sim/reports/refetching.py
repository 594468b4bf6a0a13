"""Number, cost and gain of rows that a hinge SVM fetches again with 16 bits a value.

``python -m bitstep_sim.reports.refetching`` prints the tables of docs/results/refetching.md.
Everything runs on the simulated board with ideal memory; cycles are exact and runs are repeatable.
"""

import argparse
import sys
from dataclasses import dataclass, replace

import numpy as np

from bitstep.cli.options import integer
from bitstep.data import Dataset
from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.registers import Loss
from bitstep.quantization import QuantizedDataset, Scaler, fit_scaler, quantize
from bitstep.training.losses import accuracies, mean_losses
from bitstep.training.objective import Objective, Training
from bitstep.training.planning import plan
from bitstep.training.schedules import automatic_step, schedule_steps
from bitstep_lab.float_sgd import descend
from bitstep_lab.markdown import add_choice, print_header, print_row
from bitstep_sim.board.device import SimDevice
from bitstep_sim.reports.problems import FEATURES, PROBLEMS, problem
from bitstep_sim.reports.speed import IDEAL_LATENCY

ENCODINGS = ("nearest", "stochastic")
TRAIN_ROWS = 60_000
EPOCHS = 20
FINE_BITS = 6               # from here on widths are alike enough to tell what chance does


@dataclass(frozen=True, eq=False)
class Trained:
    """A job on the simulated board.

    Attributes
    ----------
    weights : ndarray of float64, shape (epochs, n_features)
        Models after every epoch, for scaled features.
    intercepts : ndarray of float64, shape (epochs,)
    steps : ndarray of float64, shape (epochs,)
        As the hardware took them.
    visits : int
        Rows times epochs.
    counters : dict of str to int or None
    """

    weights: np.ndarray
    intercepts: np.ndarray
    steps: np.ndarray
    visits: int
    counters: dict[str, int | None]

    def per_row(self, counter: str) -> float:
        """A counter, divided by the visits."""
        value = self.counters[counter]
        assert value is not None, f"a board counts {counter}"
        return value / self.visits


def train_on(device: SimDevice, data: QuantizedDataset, steps: np.ndarray, *, refetch: bool = True,
             last_after: Trained | None = None) -> Trained:
    """Train on the board.

    Parameters
    ----------
    last_after : Trained, optional
        Models of the same steps: only its last epoch is run again.
    """
    first, initial = 0, None
    if last_after is not None:
        first = len(steps) - 1
        initial = last_after.weights[-2], float(last_after.intercepts[-2])
    made = plan(data, device.config, Objective(loss=Loss.HINGE, refetch=refetch),
                Training(steps=steps), first_epoch=first, initial=initial)
    result = device.train(made.job, timeout_s=3600)
    return Trained(made.units.weights(result.models), made.units.intercepts(result.intercepts),
                   made.steps, len(made.steps) * data.n_rows, dict(result.counters))


def float_models(rows: np.ndarray, signs: np.ndarray,
                 steps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sequential hinge SGD in float64, for several versions of the rows at once.

    Parameters
    ----------
    rows : ndarray of float64, shape (n_rows, n_versions, n_features)
        Scaled rows.
    signs : ndarray of float64, shape (n_rows,)
        1 and -1.
    steps : ndarray of float64, shape (n_versions, epochs)

    Returns
    -------
    weights : ndarray of float64, shape (n_versions, n_features)
    intercepts : ndarray of float64, shape (n_versions,)
    """
    rows = np.concatenate([rows, np.ones((*rows.shape[:2], 1))], axis=2)

    def gradient(part, models):
        values, sign = rows[part.start], signs[part.start]
        active = sign * (values * models).sum(axis=1) < 1
        return (-sign * active)[:, None] * values

    *_, models = descend(np.zeros(rows.shape[1:]), steps.T[..., None], n_rows=len(rows), batch=1,
                         gradient=gradient)
    return models[:, :-1], models[:, -1]


def fine_values(data: QuantizedDataset) -> np.ndarray:
    """Fine rows as scaled features, shape (n_rows, n_features)."""
    assert data.fine_rows is not None, "the rows were quantized with fine_rows=True"
    largest = data.level_limit << PipelineConfig(bits=data.bits).rows.fine_fraction
    return data.fine_rows / float(largest)


def report(name: str, *, n_rows: int, n_features: int, widths: list[int], epochs: int) -> None:
    """Print the tables of one problem.

    Parameters
    ----------
    name : str
        See :func:`problem`.
    n_rows, n_features : int
        Shape of the problem's rows.
    widths : list of int
        Stored bits of a value.
    epochs : int

    Raises
    ------
    AssertionError
        If look-ahead changes a model.
    """
    training, test = problem(name, n_rows, n_features)
    scaler = fit_scaler(training.features, "minmax")
    data = {(encoding, bits): quantize(training.features, training.labels, bits=bits,
                                       encoding=encoding, fine_rows=True, task="classification")
            for encoding in ENCODINGS for bits in widths}
    finest = data[ENCODINGS[0], max(widths)]
    steps = schedule_steps("inverse", step=automatic_step(finest.rows, loss=Loss.HINGE),
                           epochs=epochs)
    print(f"\n## {name}: {training.n_rows:,} rows of {training.n_features} features, "
          f"{test.n_rows:,} to test; step {steps[0]:.4g} / epoch, {epochs} epochs", flush=True)

    floating = _float_pipeline(training, steps)
    print_header("encoding, bits, refetched: all epochs, first, last, look-ahead, "
                 "cycles a row: first, last, of them waiting for refetching: first, last, "
                 "cycles a row with look-ahead 0, straw man, floating-point pipeline")
    runs, straw_men = {}, {}
    for bits in widths:
        quick = PipelineConfig(bits=bits, refetch=True).with_lookahead()
        device = SimDevice(replace(quick, lookahead=0), memory_latency=IDEAL_LATENCY)
        for encoding in ENCODINGS:
            runs[encoding, bits] = train_on(device, data[encoding, bits], steps)
        device.close()
        device = SimDevice(quick, memory_latency=IDEAL_LATENCY)
        for encoding in ENCODINGS:
            key = encoding, bits
            straw_men[key] = train_on(device, data[key], steps, refetch=False)
            first = train_on(device, data[key], steps[:1])
            last = train_on(device, data[key], steps, last_after=runs[key])
            for one, epoch in ((first, 0), (last, -1)):
                if not np.array_equal(one.weights[0], runs[key].weights[epoch]):
                    raise AssertionError(f"{key}: look-ahead changed the model of epoch {epoch}")
            _print_cost(encoding, data[key], runs[key], straw_men[key], (first, last), floating)
        device.close()
    _print_quality(training, test, scaler, data, runs, straw_men, floating)


def _float_pipeline(training: Dataset, steps: np.ndarray) -> Trained:
    data = quantize(training.features, training.labels, bits=32, encoding="float",
                    task="classification")
    device = SimDevice(PipelineConfig(bits=32, row_format="float32",
                                      update_interval=4).with_lookahead(),
                       memory_latency=IDEAL_LATENCY)
    run = train_on(device, data, steps, refetch=False)
    device.close()
    return run


def _print_cost(encoding: str, data: QuantizedDataset, run: Trained, straw_man: Trained,
                ahead: tuple[Trained, Trained], floating: Trained):
    """Look-ahead is measured in the first and the last epoch, everything else in all of them."""
    config = PipelineConfig(bits=data.bits, refetch=True).with_lookahead()
    print_row(encoding, data.bits,
              *(f"{100 * one.per_row('refetched_rows'):.2f} %" for one in (run, *ahead)),
              config.ahead.of_rows(config.rows.beats(data.n_features)),
              *(f"{one.per_row(counter):.2f}" for counter in ("cycles", "stall_refetch")
                for one in ahead),
              *(f"{one.per_row('cycles'):.2f}" for one in (run, straw_man, floating)))


def _print_quality(training: Dataset, test: Dataset, scaler: Scaler, data, runs, straw_men,
                   floating: Trained):
    rows = [scaler.transform(training.features), *map(fine_values, data.values())]
    steps = np.array([floating.steps, *(run.steps for run in runs.values())])
    weights, intercepts = float_models(np.stack(rows, axis=1), training.labels, steps)

    def figures(weights, intercept):
        model, bias = scaler.unscale_model(weights[None, None], np.array([[intercept]]))
        loss = mean_losses(Loss.HINGE, training.features, training.labels[:, None], model, bias)
        right = accuracies(test.features, test.labels, np.array([-1.0, 1.0]), model, bias)
        return float(loss[0]), 100 * float(right[0])

    def of_run(run):
        return figures(run.weights[-1], run.intercepts[-1])

    print_header("encoding, bits, training loss: refetching, float64 on its 16-bit rows, "
                 "straw man, test accuracy: refetching, float64 on its 16-bit rows, straw man")
    for text, bits, (loss, right) in (
            ("float64 SGD on unquantized rows", "", figures(weights[0], intercepts[0])),
            ("floating-point pipeline", 32, of_run(floating))):
        print_row(text, bits, "", f"{loss:.5f}", "", "", f"{right:.2f} %", "")
    found = {key: [of_run(run), figures(weights[place], intercepts[place]),
                   of_run(straw_men[key])]
             for place, (key, run) in enumerate(runs.items(), start=1)}
    for (encoding, bits), three in found.items():
        print_row(encoding, bits, *(f"{loss:.5f}" for loss, _ in three),
                  *(f"{right:.2f} %" for _, right in three))
    fine = np.array([three for (_, bits), three in found.items() if bits >= FINE_BITS])
    if len(fine) > 1:       # the same problem, rounded differently: what chance does
        means, deviations = fine.mean(axis=0), fine.std(axis=0, ddof=1)
        print_row("mean and standard deviation", f"{FINE_BITS} and more",
                  *(f"{means[one, 0]:.5f} +- {deviations[one, 0]:.5f}" for one in range(3)),
                  *(f"{means[one, 1]:.2f} +- {deviations[one, 1]:.2f} %" for one in range(3)))


def main() -> int:
    """Run the problems asked for."""
    parser = argparse.ArgumentParser(description="Refetching; prints Markdown tables.")
    add_choice(parser, "problems", PROBLEMS)
    parser.add_argument("--rows", type=integer(2), default=TRAIN_ROWS,
                        help="rows of a synthetic problem (default: %(default)s)")
    parser.add_argument("--features", type=integer(1, PipelineConfig.max_features),
                        default=FEATURES,
                        help="features of a synthetic problem (default: %(default)s)")
    parser.add_argument("--bits", type=integer(1, 8), nargs="+", default=list(range(8, 1, -1)),
                        help="widths (default: 8 to 2)")
    parser.add_argument("--epochs", type=integer(2), default=EPOCHS,
                        help="at least 2 (default: %(default)s)")
    arguments = parser.parse_args()
    for name in arguments.problems:
        report(name, n_rows=arguments.rows, n_features=arguments.features, widths=arguments.bits,
               epochs=arguments.epochs)
    return 0


if __name__ == "__main__":
    sys.exit(main())
