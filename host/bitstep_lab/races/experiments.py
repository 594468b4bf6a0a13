"""Experiments of ``bitstep curves``: every race, its figure, and its drawings."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from bitstep.data.near import did_you_mean
from bitstep.machine import available_cores
from bitstep_lab.races.contestants import (
    FLOAT,
    Contestant,
    Cpu,
    Pipeline,
    Sklearn,
    several_models,
    with_batch,
)


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """A race, and the figures that are drawn of it.

    Attributes
    ----------
    key : str
        Name of its files.
    figure : str
        Figure of the ZipML paper whose counterpart it is, or an empty text.
    title, text : str
        Heading, and what it shows.
    data, rows, model, profile, epochs, batches, l2, step
        See :class:`bitstep_lab.races.race.Race`; ``rows`` None takes all.
    contestants : tuple of Contestant
    plots : tuple of str
        Kinds of :mod:`bitstep_lab.races.plots`: ``epochs``, ``time``, ``speedup``, ``widths``,
        ``cycles``, ``refetched``.
    """

    key: str
    figure: str = ""
    title: str
    text: str
    data: str
    rows: int | None = None
    model: str
    profile: str = "paper"
    epochs: int = 10
    batches: tuple[int, ...] = (1,)
    l2: float = 0.0
    step: float | None = None
    contestants: tuple[Contestant, ...]
    plots: tuple[str, ...] = ("epochs", "time", "speedup")


def cpu_contestants() -> tuple[Contestant, ...]:
    """Baselines for batches of 1, with 1, 2, 4, ... threads up to this machine's cores."""
    cores = available_cores()
    counts, count = [], 1
    while count < cores:
        counts.append(count)
        count *= 2
    counts.append(cores)
    return (Cpu(method="sgd"), *(Cpu(method="hogwild", threads=count) for count in counts),
            *(Cpu(method="lowprec", threads=count) for count in counts), Sklearn())


def compensated(*widths: int) -> tuple[Pipeline, ...]:
    """Pipelines of encoding ``compensated``."""
    return tuple(Pipeline(bits=bits, encoding="compensated") for bits in widths)


def end_to_end(*widths: int) -> tuple[Pipeline, ...]:
    """Pipelines whose rows, model and updates have as many bits each."""
    return tuple(Pipeline(bits=bits, encoding="compensated", model_bits=bits, update_bits=bits)
                 for bits in widths)


def refetching(*widths: int) -> tuple[Pipeline, ...]:
    """Pipelines of encoding ``nearest`` that fetch rows again with 16 bits a value."""
    return tuple(Pipeline(bits=bits, encoding="nearest", refetch=True) for bits in widths)


ROUNDED = (Pipeline(bits=8, encoding="nearest"), Pipeline(bits=8, encoding="stochastic"))
ALL_WIDTHS = (1, 2, 3, 4, 5, 6, 7, 8)
BATCHED = tuple(contestant for batch in (16, 256) for contestant in (
    *(with_batch(pipeline, batch) for pipeline in (FLOAT, *compensated(8, 4))),
    Cpu(method="minibatch", batch=batch)))
BATCH_TEXT = ("Float and quantized pipelines with batches of 16 and of 256 rows; for each size all "
              "take the step that is tuned for the float pipeline. The paper finds that 256 needs "
              "more epochs than 16, and that the quantized version then converges faster than "
              "float.")
LEVELS_TEXT = ("Codes of 3 and 5 bits whose levels are equally spaced, or optimal for each column. "
               "The paper finds that optimal levels converge faster at the same bits, and that 3 "
               "bits with them are as good as 5 uniform ones.")
END_TO_END_TEXT = ("Rows, the model that dot products meet and updates of b bits each, beside rows "
                   "alone of b bits, and beside 8-bit rows with a model or updates of few bits; "
                   "batches of 16. The paper finds 5 or 6 bits enough on every data set.")
REFETCH_TEXT = ("Rows whose codes leave open whether they are within the margin are read again at "
                "16 bits. The paper reports that 8 bits need this for about 6 % of the rows of "
                "cod-rna.")


def experiments(quick: bool) -> list[Experiment]:
    """All races of a report, in its order.

    Parameters
    ----------
    quick : bool
        Few widths and rows, for a look: five pipelines to compile.
    """
    if quick:
        return list(_quick())
    return [*_main(), *_batches(), *_best_batches(), *_margins(), *_data_sets(), *_end_to_end(),
            *_levels(), *_several(), *_boards()]


def named(races: Sequence[Any], only: Sequence[str] | None) -> list[Any]:
    """Races of some keys, in their order; all of them if there are no keys.

    Raises
    ------
    ValueError
        If no race has a key.
    """
    keys = [race.key for race in races]
    if unknown := sorted(set(only or keys) - set(keys)):
        raise ValueError(f"There is no experiment {unknown[0]!r}; there are {', '.join(keys)}"
                         f"{did_you_mean(unknown[0], keys)}")
    return [race for race in races if race.key in (only or keys)]


def _quick() -> Iterator[Experiment]:
    cpus = cpu_contestants()
    yield Experiment(
        key="linreg-noisy-100", figure="4a, 5a, 10", title="Linear regression, 100 features",
        text="Regression whose labels have noise of half their deviation, as measured labels do.",
        data="noisy-100", model="linreg", epochs=8,
        contestants=(FLOAT, *compensated(8, 4), Pipeline(bits=4, encoding="nearest"), *cpus),
        plots=("epochs", "time", "speedup", "cycles"))
    yield Experiment(
        key="linreg-synthetic-100", figure="4a, 10", title="Regression almost without noise",
        text="The paper's Synthetic 100, with noise of 1 % of the labels' deviation: the noise of "
        "quantization is then larger than that of the data, and more bits pay.",
        data="synthetic-100", model="linreg", epochs=8,
        contestants=(FLOAT, *compensated(8, 4)), plots=("epochs", "time"))
    yield Experiment(
        key="ls-svm-mnist", figure="4b, 5b, 11", title="Least-squares SVM of ten classes",
        text="One-vs-rest; times are the sum over the ten classes.",
        data="mnist", rows=1000, model="ls-svm", epochs=5, l2=0.01,
        contestants=(FLOAT, *compensated(8, 4), Cpu(method="sgd"), Sklearn()))
    yield Experiment(
        key="batch-noisy-100", figure="6", title="Mini-batches of 16 and 256 rows",
        text=BATCH_TEXT, data="noisy-100", model="linreg", epochs=8, batches=(16,),
        contestants=BATCHED, plots=("epochs",))
    yield Experiment(
        key="svm-cod-rna", figure="9a, 12", title="SVM, rounded codes and refetching",
        text=REFETCH_TEXT, data="cod-rna", rows=8_000, model="svm", epochs=6,
        contestants=(FLOAT, *ROUNDED, *refetching(8, 4)),
        plots=("epochs", "time", "refetched"))


def _main() -> Iterator[Experiment]:
    """Regressions and least-squares SVMs of every width."""
    cpus = cpu_contestants()
    others = (Pipeline(bits=4, encoding="nearest"), Pipeline(bits=4, encoding="stochastic"),
              Pipeline(bits=4, encoding="double-symmetric"), Pipeline(bits=4, encoding="double"))
    yield Experiment(
        key="linreg-noisy-100", figure="4a, 5a", title="Linear regression, 100 features",
        text="Regression whose labels have noise of half their deviation, as measured labels do; "
        "every width and encoding, and a pipeline that waits for every update (look-ahead 0).",
        data="noisy-100", model="linreg", epochs=20,
        contestants=(FLOAT, *compensated(*ALL_WIDTHS), *others,
                     Pipeline(bits=4, encoding="compensated", lookahead=0), *cpus),
        plots=("epochs", "time", "speedup", "widths", "cycles"))
    yield Experiment(
        key="linreg-synthetic-100", figure="4a, 5a, 10", title="Regression almost without noise",
        text="The paper's Synthetic 100, with noise of 1 % of the labels' deviation: the noise of "
        "quantization is then larger than that of the data.",
        data="synthetic-100", model="linreg", epochs=20,
        contestants=(FLOAT, *compensated(*ALL_WIDTHS), *cpus),
        plots=("epochs", "time", "speedup", "widths"))
    yield Experiment(
        key="ls-svm-gisette", figure="4b, 5b, 11", title="Least-squares SVM, 5,000 features",
        text="More features than rows would need without a penalty: l2 is 0.01.",
        data="gisette", model="ls-svm", epochs=10, l2=0.01,
        contestants=(FLOAT, *compensated(2, 4, 6, 8), *cpus),
        plots=("epochs", "time", "speedup", "widths", "cycles"))
    yield Experiment(
        key="ls-svm-mnist", figure="11", title="Least-squares SVM of ten classes",
        text="One-vs-rest; times are the sum over the ten classes.",
        data="mnist", model="ls-svm", epochs=10, l2=0.001,
        contestants=(FLOAT, *compensated(1, 2, 4, 8), *cpus),
        plots=("epochs", "time", "speedup", "widths", "cycles"))


def _batches() -> Iterator[Experiment]:
    """Mini-batches."""
    for batched, title in (("noisy-100", "Mini-batches, regression"),
                           ("synthetic-100", "Mini-batches, regression almost without noise")):
        yield Experiment(
            key=f"batch-{batched}", figure="6", title=title, text=BATCH_TEXT, data=batched,
            model="linreg", epochs=20, batches=(16,), contestants=BATCHED, plots=("epochs", "time"))


def _best_batches() -> Iterator[Experiment]:
    """Each contestant with the batch that suits it, on rows of few beats."""
    cpus = cpu_contestants()
    for data, rows, model, epochs in (
            ("noisy-100", None, "linreg", 8), ("cadata", None, "linreg", 20),
            ("cpusmall", None, "linreg", 20), ("YearPredictionMSD", 50_000, "linreg", 10),
            ("cod-rna", None, "ls-svm", 10), ("cod-rna", None, "logistic", 10)):
        codes = (Pipeline(bits=8, encoding="nearest"),) if model == "logistic" \
            else compensated(4, 8)
        yield Experiment(
            key=f"best-batch-{model}-{data}", title=f"Each with its best batch, {model}, {data}",
            text="Every contestant has batches of 1, 16 or 64 rows: those with which it is first "
            "at the line, with the step that is tuned for float with them. Pipelines with batches "
            "of 16 and 64 do not wait between their rows.", data=data, rows=rows, model=model,
            epochs=epochs, batches=(1, 16, 64), contestants=(FLOAT, *codes, *cpus),
            plots=("epochs", "time", "speedup"))


def _margins() -> Iterator[Experiment]:
    """Losses of classifiers, on rounded codes."""
    for model, figure, name in (("svm", "9a", "SVM"), ("logistic", "9b", "Logistic regression"),
                                ("l2-svm", "", "SVM with squared hinge")):
        yield Experiment(
            key=f"{model}-cod-rna", figure=figure, title=f"{name}, rounded codes",
            text="8-bit codes rounded to nearest or at random, the straw man that the paper finds "
            "as good as its polynomials; `python -m bitstep_lab.negative_results` compares those.",
            data="cod-rna", model=model, epochs=10, contestants=(
                FLOAT, *ROUNDED, Pipeline(bits=4, encoding="nearest"), *cpu_contestants()))


def _data_sets() -> Iterator[Experiment]:
    """Other data sets, and refetching."""
    cpus = cpu_contestants()
    for data, rows, epochs in (("synthetic-10", None, 20), ("synthetic-1000", None, 10),
                               ("cadata", 10_000, 20), ("cpusmall", 6_000, 20),
                               ("YearPredictionMSD", None, 5)):
        yield Experiment(
            key=f"linreg-{data}", figure="10", title=f"Linear regression, {data}",
            text="End-to-end low precision against float on one of several data sets.", data=data,
            rows=rows, model="linreg", epochs=epochs,
            contestants=(FLOAT, *compensated(2, 4, 6, 8), *cpus),
            plots=("epochs", "time", "speedup", "widths"))
    yield Experiment(
        key="ls-svm-cod-rna", figure="11", title="Least-squares SVM, cod-rna",
        text="Rows of 8 features: narrower than one beat at every width, float included.",
        data="cod-rna", model="ls-svm", epochs=10,
        contestants=(FLOAT, *compensated(2, 4, 6, 8), *cpus),
        plots=("epochs", "time", "speedup", "widths"))
    yield Experiment(
        key="refetch-cod-rna", figure="12", title="SVM with refetching", text=REFETCH_TEXT,
        data="cod-rna", model="svm", epochs=10,
        contestants=(FLOAT, *refetching(2, 3, 4, 5, 6, 7, 8)),
        plots=("epochs", "time", "speedup", "refetched"))


def _end_to_end() -> Iterator[Experiment]:
    """Rows, model and updates of as many bits each, beside rows alone."""
    sets = {"synthetic-10": None, "synthetic-100": None, "synthetic-1000": None, "noisy-100": None,
            "cadata": 10_000, "cpusmall": 6_000, "diabetes": None, "YearPredictionMSD": 50_000}
    for data, rows in (sets | {"cod-rna": None, "gisette": None}).items():
        figure, model = ("11", "ls-svm") if data in ("cod-rna", "gisette") else ("10", "linreg")
        yield Experiment(
            key=f"end-to-end-{data}", figure=figure, data=data, rows=rows, model=model,
            title=f"End-to-end quantization, {data}", text=END_TO_END_TEXT, plots=("epochs",),
            epochs=20, batches=(16,), l2=0.01 if data == "gisette" else 0.0,
            contestants=(FLOAT, *end_to_end(*range(2, 9)), *compensated(*range(2, 9)), *(
                Pipeline(bits=8, encoding="compensated", model_bits=model_bits, update_bits=bits)
                for model_bits, bits in ((2, 0), (4, 0), (0, 2)))))


def _levels() -> Iterator[Experiment]:
    """Optimal levels beside uniform ones, at the same bits."""
    for data, rows, epochs in (("YearPredictionMSD", 50_000, 10), ("synthetic-10", None, 20),
                               ("synthetic-100", None, 20), ("synthetic-1000", None, 10),
                               ("noisy-100", None, 20), ("cadata", 10_000, 20),
                               ("cpusmall", 6_000, 20)):
        yield Experiment(
            key=f"levels-{data}", figure="7a, 8" if data == "YearPredictionMSD" else "8",
            title=f"Optimal levels, {data}", text=LEVELS_TEXT, data=data, rows=rows,
            model="linreg", epochs=epochs, plots=("epochs",),
            contestants=(FLOAT, *compensated(8, 5, 3), *(
                Pipeline(bits=bits, encoding="compensated", levels="optimal")
                for bits in (5, 3))))


def _several() -> Iterator[Experiment]:
    """Classes that share passes over the rows."""
    widths = compensated(2, 3, 4, 8)
    yield Experiment(
        key="classes-mnist", title="Ten classes in two passes",
        text="One-vs-rest, five classes a pass, in floating point too, beside ten passes.",
        data="mnist", model="ls-svm", epochs=10, l2=0.001,
        contestants=(FLOAT, *several_models(5, FLOAT, *widths), *widths, *cpu_contestants()),
        plots=("epochs", "time", "speedup"))


def _boards() -> Iterator[Experiment]:
    """Cycles of wide rows, and a board of 64 bits."""
    yield Experiment(
        key="cycles-4096", title="Cycles of wide rows",
        text="Rows of 4,096 features at every width, from a memory without a limit: what is left "
        "of 32 / b when a row ends within a beat and an epoch ends with the model's way to memory. "
        "The step is so short that every width stays in its range: losses mean nothing here.",
        data="noisy-4096", model="linreg", profile="paper-ideal", epochs=2, step=1e-4,
        contestants=(FLOAT, *compensated(*ALL_WIDTHS)), plots=("cycles",))
    yield Experiment(
        key="pynq-mnist", title="PYNQ-Z1: MNIST's shape",
        text="64-bit bus at 100 MHz; ten classes, times are their sum.", data="mnist",
        profile="pynq-z1", model="ls-svm", epochs=10, l2=0.001,
        contestants=compensated(1, 4), plots=("epochs", "time"))
    yield Experiment(
        key="pynq-year", title="PYNQ-Z1: YearPrediction's shape",
        text="64-bit bus at 100 MHz, 50,000 rows.", data="YearPredictionMSD", rows=50_000,
        profile="pynq-z1", model="linreg", epochs=10,
        contestants=(FLOAT, *compensated(4, 8)), plots=("epochs", "time", "speedup"))
