"""The other losses against float64 and scikit-learn: ``python -m bitstep_sim.reports.losses``.

Prints the tables of docs/results/losses.md. The golden model trains, and every device gives the
same models. Runs are repeatable.
"""

import argparse
import sys

import numpy as np

from bitstep.data import DataError, Dataset, load, split
from bitstep.devices.golden import GoldenDevice
from bitstep.pipeline.registers import Loss
from bitstep.quantization import fit_scaler, quantize
from bitstep.training.losses import accuracies, mean_losses
from bitstep.training.objective import Objective, Training
from bitstep.training.pipelines import pipeline_for
from bitstep.training.planning import plan
from bitstep.training.schedules import automatic_step, schedule_steps
from bitstep.training.train import class_outputs, train_model
from bitstep_lab.float_sgd import sgd
from bitstep_lab.markdown import add_choice, print_header, print_row

EPOCHS = 20
FLOAT_ROWS = {"cadata": 10_000, "cpusmall": 6_000}
LOGISTIC = {"breast_cancer": (400, 300), "digits": (1_200, 20)}      # rows to train, epochs
SEEDS = range(5)
PENALTIES = (0.003, 0.01, 0.03, 0.1)    # l1, in units of the labels' standard deviation
OUTLIERS = (0.0, 0.05, 0.2)             # share of the rows
DISTANCES = (5.0, 50.0)                 # of outliers, in standard deviations of the labels
BOXES = (0.5, 0.25)                     # relative to the largest weight without a box
PERIODS = (1, 4, 16, 32, 64, 256)       # rows between proximal steps
SHRUNK = ((Loss.HINGE, "hinge", 1.0), (Loss.HINGE, "hinge", 0.1),
          (Loss.LOGISTIC, "logistic", 0.1), (Loss.LEAST_SQUARES, "least squares", 0.1))


def floating(home: str | None) -> None:
    """Floating-point pipeline against float64 SGD with the same steps, in the same order."""
    print(f"\n## Floating-point rows: {EPOCHS} epochs, step / epoch, batch 1")
    print_header("data set, rows, step, float64 SGD: loss, floating-point pipeline: loss, "
                 "relative difference")
    for name, n_rows in FLOAT_ROWS.items():
        training, _ = split(load(name, data_home=home), n_rows)
        data = quantize(training.features, training.labels, bits=32, encoding="float")
        steps = schedule_steps("inverse", step=automatic_step(data.rows), epochs=EPOCHS)
        config = pipeline_for(n_features=data.n_features, bits=32, encoding="float")
        model = train_model([data], GoldenDevice(config), config, Objective(),
                            Training(steps=steps), timeout_s=3600)
        rows = data.scaler.transform(training.features)
        targets = training.labels[:, None] - data.label_offset
        weights, intercepts = sgd(rows, targets, steps[:, None], loss=Loss.LEAST_SQUARES)
        exact = float(mean_losses(Loss.LEAST_SQUARES, rows, targets, weights[-1],
                                  intercepts[-1])[0])
        found = float(mean_losses(Loss.LEAST_SQUARES, training.features, training.labels[:, None],
                                  model.coefs[-1:], model.intercepts[-1:])[0])
        print_row(name, f"{n_rows:,}", f"{steps[0]:.4g}", f"{exact:.8g}", f"{found:.8g}",
                  f"{found / exact - 1:+.1e}")


def logistic(_: str | None) -> None:
    """Test accuracy of logistic regression at 8 bits beside scikit-learn's."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.multiclass import OneVsRestClassifier
    print("\n## Logistic regression, 8 bits stochastic, step / sqrt(epoch), batch 1, one-vs-rest; "
          "l2 = 1 / rows is scikit-learn's default, C = 1")
    print_header("data set, rows to train, rows to test, epochs, split (seed), "
                 "8 bits: test accuracy, scikit-learn C = 1, C = 100, difference to C = 1 (points)")
    for name, (n_rows, epochs) in LOGISTIC.items():
        totals = []
        for seed in SEEDS:
            training, test = split(load(name), n_rows, seed=seed)
            ours = _logistic_accuracy(training, test, epochs, seed)
            scaler = fit_scaler(training.features, "minmax")
            theirs = []
            for strength in (1.0, 100.0):
                machine = OneVsRestClassifier(LogisticRegression(C=strength, max_iter=10_000))
                machine.fit(scaler.transform(training.features), training.labels)
                theirs.append(100 * machine.score(scaler.transform(test.features), test.labels))
            totals.append([ours, *theirs])
            print_row(name, n_rows, test.n_rows, epochs, seed,
                      *(f"{value:.2f} %" for value in totals[-1]),
                      f"{ours - theirs[0]:+.2f}")
        means = np.mean(totals, axis=0)
        print_row(name, n_rows, "", epochs, "mean", *(f"{value:.2f} %" for value in means),
                  f"{means[0] - means[1]:+.2f}")


def _logistic_accuracy(training: Dataset, test: Dataset, epochs: int, seed: int) -> float:
    data = quantize(training.features, training.labels, bits=8, encoding="stochastic", seed=seed,
                    task="classification")
    classes = np.unique(training.labels)
    config = pipeline_for(n_features=data.n_features, bits=8, encoding="stochastic",
                          loss=Loss.LOGISTIC)
    steps = schedule_steps("inverse-sqrt", step=automatic_step(data.rows, loss=Loss.LOGISTIC),
                           epochs=epochs)
    model = train_model(class_outputs(data.rows, training.labels, classes),
                        GoldenDevice(config), config,
                        Objective(loss=Loss.LOGISTIC, l2=1 / data.n_rows), Training(steps=steps),
                        timeout_s=3600)
    return 100 * float(accuracies(test.features, test.labels, classes, model.coefs[-1:],
                                  model.intercepts[-1:])[0])


def optimum(rows: np.ndarray, targets: np.ndarray, *, l1: float,
            box: float) -> tuple[np.ndarray, float]:
    """Exact minimum of mean squares / 2 + l1 |x|_1 with |x_j| <= box, by coordinate descent.

    Parameters
    ----------
    rows : ndarray of float64, shape (n_rows, n_features)
    targets : ndarray of float64, shape (n_rows,)
    l1, box : float

    Returns
    -------
    weights : ndarray of float64, shape (n_features,)
    intercept : float
    """
    centre, middle = rows.mean(axis=0), targets.mean()
    shifted, goal = rows - centre, targets - middle
    gram, pull = shifted.T @ shifted / len(rows), shifted.T @ goal / len(rows)
    weights = np.zeros(rows.shape[1])
    for _ in range(20_000):
        before = weights.copy()
        for j, curvature in enumerate(np.diag(gram)):
            if curvature > 0:
                free = pull[j] - gram[j] @ weights + curvature * weights[j]
                step = np.sign(free) * max(abs(free) - l1, 0) / curvature
                weights[j] = np.clip(step, -box, box)
        if np.abs(weights - before).max() <= 1e-12 * (1 + np.abs(weights).max()):
            break
    return weights, float(middle - centre @ weights)


def proximal(_: str | None) -> None:
    """L1 and box against float64 proximal SGD and against the optimum, on diabetes."""
    dataset = split(load("diabetes"))[0]
    data = quantize(dataset.features, dataset.labels, bits=8, encoding="nearest")
    rows = data.rows.levels(slice(None))[0]        # so rounding is no part of the difference
    targets = dataset.labels - data.label_offset
    spread = float(dataset.labels.std())
    steps = schedule_steps("inverse-sqrt", step=automatic_step(data.rows) / 2, epochs=200)
    config = pipeline_for(n_features=data.n_features, bits=8, encoding="nearest", proximal=True)
    limit = float(np.abs(optimum(rows, targets, l1=0.0, box=np.inf)[0]).max())
    print(f"\n## L1 and box: diabetes, {dataset.n_rows} rows of {dataset.n_features} features, 8 "
          f"bits nearest, {len(steps)} epochs, step / sqrt(epoch)")
    print_header("penalty, period, objective: optimum, float64 proximal SGD, pipeline, "
                 "largest difference of a weight to float64 (of the largest weight), "
                 "zeros: optimum, float64, pipeline")
    cases = [(f"l1 {share:g} sd", share * spread, np.inf) for share in PENALTIES]
    cases += [(f"box {share:g} of the largest", 0.0, share * limit) for share in BOXES]
    for text, l1, box in cases:
        made = plan(data, config, Objective(l1=l1, box=None if np.isinf(box) else box),
                    Training(steps=steps))
        result = GoldenDevice(config).train(made.job, timeout_s=3600)
        ours = made.units.weights(result.models[-1]), \
            float(made.units.intercepts(result.intercepts[-1:])[0]) - data.label_offset
        weights, intercepts = sgd(rows, targets[:, None], made.steps[:, None],
                                  loss=Loss.LEAST_SQUARES, l1=l1, box=box,
                                  period=made.job.proximal_period)
        exact = weights[-1, 0, 0], float(intercepts[-1, 0, 0])
        best = optimum(rows, targets, l1=l1, box=box)
        objectives = [np.mean((rows @ weights + bias - targets) ** 2) / 2
                      + l1 * np.abs(weights).sum() for weights, bias in (best, exact, ours)]
        away = np.abs(ours[0] - exact[0]).max() / np.abs(exact[0]).max()
        print_row(text, made.job.proximal_period, *(f"{value:.3f}" for value in objectives),
                  f"{away:.1e}", *(int((weights == 0).sum()) for weights, _ in (best, exact, ours)))


def periods(_: str | None) -> None:
    """Float64 SGD on breast_cancer with proximal steps that are more or less rare."""
    dataset = split(load("breast_cancer"))[0]
    labels = np.where(dataset.labels > 0, 1.0, -1.0)
    data = quantize(dataset.features, labels, bits=8, encoding="nearest")
    rows, targets = data.rows.levels(slice(None))[0], labels[:, None]
    print(f"\n## Rows between proximal steps: breast_cancer, {dataset.n_rows} rows, float64 SGD, "
          f"{EPOCHS} epochs, step / epoch")
    print_header("rows between proximal steps, " + ", ".join(map(str, PERIODS)))
    for loss, name, l1 in SHRUNK:
        steps = schedule_steps("inverse", step=automatic_step(data.rows, loss=loss), epochs=EPOCHS)
        found, left = [], []
        for period in PERIODS:
            weights, intercepts = sgd(rows, targets, steps[:, None], loss=loss, l1=l1,
                                      period=period)
            last = weights[-1]
            found.append(float(mean_losses(loss, rows, targets, last, intercepts[-1])[0]
                               + l1 * np.abs(last).sum()))
            left.append(np.count_nonzero(last))
        print_row(f"{name}, l1 {l1:g}: loss + l1 norm", *(f"{value:.3f}" for value in found))
        print_row("weights that are left", *left)


def outliers(home: str | None) -> None:
    """The Huber loss beside least squares, on labels of which some are far too large."""
    # The other parts need neither of them.
    from sklearn.linear_model import HuberRegressor, LinearRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    from bitstep import LowPrecisionRegressor

    models = {
        "linreg, 4 bits": LowPrecisionRegressor(solver="sgd", random_state=0),
        **{f"huber, {bits} bits": LowPrecisionRegressor(loss="huber", bits=bits, random_state=0)
           for bits in (4, 8, 32)},
        "huber, 8 bits, epsilon 0.5": LowPrecisionRegressor(loss="huber", epsilon=0.5,
                                                            random_state=0),
        "LinearRegression": LinearRegression(),
        "HuberRegressor": make_pipeline(StandardScaler(), HuberRegressor(max_iter=1000))}
    print("\n## Outliers: R2 on test rows without outliers")
    print_header("data set, outliers, " + ", ".join(name.replace(",", "") for name in models))
    for name, dataset in {
            "noise, 20 features": load("noisy-20"), "diabetes": load("diabetes"),
            **{name: load(name, data_home=home) for name in FLOAT_ROWS}}.items():
        training, test = split(dataset, min(FLOAT_ROWS.get(name, 10_000),
                                            dataset.n_rows * 7 // 10))
        for share in OUTLIERS:
            rng = np.random.default_rng(1)
            labels, wrong = training.labels.copy(), rng.random(training.n_rows) < share
            labels[wrong] += rng.choice(DISTANCES, wrong.sum()) * labels.std()
            print_row(name, f"{100 * share:g} %", *(
                f"{model.fit(training.features, labels).score(test.features, test.labels):.3f}"
                for model in models.values()))


def main() -> int:
    """Run the parts asked for."""
    parts = {"float": floating, "logistic": logistic, "proximal": proximal, "periods": periods,
             "outliers": outliers}
    parser = argparse.ArgumentParser(description="Losses against float64 and scikit-learn; prints "
                                     "Markdown tables.")
    add_choice(parser, "parts", parts)
    parser.add_argument("--data-home", metavar="DIR", help="folder with cadata and "
                        "cpusmall (default: as bitstep train)")
    arguments = parser.parse_args()
    for part in arguments.parts:
        try:
            parts[part](arguments.data_home)
        except DataError as error:
            raise SystemExit(f"error: {error}") from None
    return 0


if __name__ == "__main__":
    sys.exit(main())
