"""``bitstep gradients``: codecs of gradients, and races between them."""

import argparse
import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

from bitstep.cli.options import UsageError, integer, number, or_auto
from bitstep.cli.paths import check_folder
from bitstep.cli.progress import Bar
from bitstep.writing import text_table
from bitstep_gradients.exchange import EXCHANGES, AllGather
from bitstep_gradients.lab.contestants import (
    CODECS,
    CONTROLLERS,
    Contestant,
    ContestantError,
    options_of,
    parse_contestant,
    whole_field,
)
from bitstep_gradients.lab.ranks.processes import MAX_PROCESSES, check_torch
from bitstep_gradients.lab.tasks import KINDS, TaskError, make_task
from bitstep_lab.commands.curves import Progress

ALL = "all"
TITLES = {
    "none": "float32", "fp16": "float16", "bf16": "bfloat16", "qsgd": "QSGD, L2 norm",
    "qsgd-linf": "QSGD, largest value", "terngrad": "TernGrad", "dqsg": "dithered QSG",
    "ndqsg": "nested DQSG", "nuqsgd": "NUQSGD", "alq": "ALQ", "alq-n": "ALQ-N", "amq": "AMQ",
    "amq-n": "AMQ-N", "alq-gd": "ALQ by gradient descent", "alq-n-gd": "ALQ-N by gradient descent",
    "alq-linf": "ALQ, largest value", "optimal": "optimal levels", "qcs": "QCS, unbiased",
    "qcs-mmse": "QCS, MMSE", "qcs-1bit": "QCS of 1 bit", "one-bit": "1-bit SGD",
    "sign": "scaled signs", "top-k": "largest values", "random-k": "random positions",
    "dq-sgd": "DQ-SGD, a controller of bits", "oland-raj": "bits by RMS (Oland and Raj)",
    "adaqs": "bits by mean / deviation (AdaQS)"}
MAX_WORKERS = 64
MAX_TIMEOUT_S = 1e6         # poll() of processes counts milliseconds in 32 bits


def add_parser(commands: Any) -> argparse.ArgumentParser:
    """Declare the actions and their options."""
    parser = commands.add_parser(
        "gradients", help="compare codecs of gradients between workers",
        description="Codecs that send gradients in few bits, and races between them.",
        epilog="`bitstep gradients ACTION --help` explains an action.")
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    codecs = actions.add_parser(
        "codecs", help="list the codecs with their options",
        usage="bitstep gradients codecs [options]",
        description="List the codecs and controllers of bits with their options.")
    race = actions.add_parser(
        "race", help="train a model with every codec, and write a report",
        usage="bitstep gradients race MODEL [MODEL ...] --out DIR [options]",
        description="Train models by several workers that exchange gradients, once with every "
        "codec and seed, and write DIR/index.html with tables and drawings, and CSV files beside "
        "it. A later call goes on where one was interrupted. The workers share this process, or "
        "are processes of torch.distributed (--transport gloo); the results are the same bits.",
        epilog="Example: bitstep gradients race logreg fc --workers 4 --codecs none fp16 "
        "dqsg:bits=3,bucket_size=512 top-k:share=0.01,feedback=1 --out build/gradients. How to "
        "read it: docs/gradients.md.")
    for action, run_it in ((codecs, _list), (race, _race)):
        action.add_argument("--debug", action="store_true", default=argparse.SUPPRESS,
                            help="show the traceback of an error")
        action.set_defaults(run_action=run_it, parser=action)
    _declare(race)
    return parser


def _declare(race: argparse.ArgumentParser) -> None:
    race.add_argument("models", nargs="+", metavar="MODEL", choices=tuple(KINDS), help="; ".join(
        f"{name}: {kind.title}" for name, kind in KINDS.items()) + " (lenet and resnet need torch)")
    race.add_argument("--out", required=True, metavar="DIR", help="folder of the report")
    race.add_argument("--codecs", nargs="+", default=[ALL], metavar="CODEC", help="NAME or "
                      "NAME:OPTION=VALUE,... (`bitstep gradients codecs`); the option feedback=B "
                      f"adds error feedback of weight B; {ALL}: every codec (default: {ALL})")
    race.add_argument("--error-feedback", nargs="?", type=number(0), const=1.0, metavar="B",
                      help="error feedback of weight B for every codec, above 0 and at most 1 "
                      "(without B: 1)")
    race.add_argument("--workers", type=integer(1, MAX_WORKERS), nargs="+", default=[4],
                      metavar="N", help="workers; several: a race for each (default: 4)")
    exchange = race.add_argument_group("exchange")
    exchange.add_argument("--transport", choices=("memory", "gloo"), default="memory",
                          help="memory: all workers share this process; gloo: each of 1 to "
                          f"{MAX_PROCESSES} workers is a process on this machine (needs torch; "
                          "default: memory)")
    exchange.add_argument("--exchange", choices=tuple(EXCHANGES), default=AllGather.name,
                          help="all_gather: every worker gets all messages; two-phase: a slice of "
                          "each gradient has an owner, who averages it and sends the average "
                          "(default: all_gather)")
    exchange.add_argument("--timeout", type=number(0, high=MAX_TIMEOUT_S), default=600.0,
                          metavar="S", help="seconds that a worker waits for another one, judging "
                          "the model included (default: 600)")
    data = race.add_argument_group("data")
    data.add_argument("--data", metavar="DATA", help="a file or a name (`bitstep info --data`; "
                      "default: synthetic-64 for linreg, else digits)")
    data.add_argument("--data-home", metavar="DIR", help="folder with files of named data sets "
                      "(default: $BITSTEP_DATA, else the cache folder); nothing is downloaded")
    data.add_argument("--rows", type=integer(5), metavar="N", help="rows to draw, a fifth of which "
                      "tests the model (default: all)")
    training = race.add_argument_group("training")
    training.add_argument("--steps", type=integer(1), default=300, metavar="N",
                          help="steps at which codecs are compared (default: 300)")
    training.add_argument("--budget-mb", type=number(0, above=False), metavar="F",
                          help="MB (10^6 bytes) of a rank at which codecs are compared, too; 0: "
                          "none (default: float32's in a tenth of the steps)")
    training.add_argument("--max-steps", type=integer(1), metavar="N", help="most steps while "
                          "there is budget left (default: twice --steps)")
    training.add_argument("--batch", type=integer(1), default=32, metavar="N",
                          help="rows of a worker and step (default: 32)")
    training.add_argument("--step", type=or_auto(number(0)), default="auto", metavar="S",
                          help="step size of all codecs, or auto: tuned for uncompressed gradients "
                          "(default: auto)")
    training.add_argument("--seeds", type=integer(1, 1000), default=3, metavar="N",
                          help="runs of each codec (default: 3)")
    training.add_argument("--every", type=integer(1), default=10, metavar="N",
                          help="steps from one point of the curves to the next (default: 10)")
    training.add_argument("--min-size", type=integer(0), default=0, metavar="N",
                          help="send tensors of fewer values as float32 (default: 0)")
    training.add_argument("--update-every", type=integer(1), default=50, metavar="N",
                          help="steps from one update of fitted levels to the next (default: 50)")
    network = race.add_argument_group("network, for modelled times")
    network.add_argument("--gbits", type=number(0), nargs="+", default=[1.0, 10.0], metavar="F",
                         help="bandwidths in Gbit/s; drawings show the first (default: 1 10)")
    network.add_argument("--latency-us", type=number(0, above=False), default=50.0, metavar="F",
                         help="microseconds from a rank to the next (default: 50)")


def run(arguments: argparse.Namespace) -> int:
    """Do what was asked for."""
    return arguments.run_action(arguments)


def _list(arguments: argparse.Namespace) -> int:
    rows = []
    for name, kind in {**CODECS, **CONTROLLERS}.items():
        rows.append([name, TITLES.get(name, kind.__name__), ", ".join(options_of(name)) or "-"])
    print(text_table(["name", "", "options"], rows))
    print("\nEvery one has the option feedback, too: the weight of error feedback, above 0 and at "
          "most 1.")
    return 0


def _race(arguments: argparse.Namespace) -> int:
    contestants = _contestants(arguments)
    if len(set(arguments.gbits)) < len(arguments.gbits):
        raise UsageError("--gbits must name each bandwidth once")
    max_steps = arguments.max_steps or 2 * arguments.steps
    if max_steps < arguments.steps:
        raise UsageError(f"--max-steps must be at least --steps, {arguments.steps}, not "
                         f"{max_steps}")
    if arguments.transport == "gloo":
        if max(arguments.workers) > MAX_PROCESSES:
            raise UsageError(f"--workers must be at most {MAX_PROCESSES} with --transport gloo, "
                             f"not {max(arguments.workers)}")
        check_torch()
    out = check_folder(arguments.out)
    try:
        from matplotlib.figure import Figure  # before the training, not after
        del Figure
    except ImportError as error:
        raise RuntimeError(f"bitstep gradients race needs matplotlib ({error}): "
                           'pip install "bitstep[sklearn]"') from error
    tasks = {}
    try:
        for name in dict.fromkeys(arguments.models):
            tasks[name] = make_task(name, arguments.data, rows=arguments.rows,
                                    data_home=arguments.data_home)
    except TaskError as error:
        raise UsageError(str(error)) if "torch" not in str(error) else RuntimeError(error) \
            from error
    with _one_thread():
        return _run_races(arguments, tasks, contestants, out, max_steps)


def _run_races(arguments, tasks, contestants, out, max_steps) -> int:
    from bitstep_gradients.lab.page import (
        TRAFFIC_HEAD,
        cells_of,
        head,
        summary,
        title_of,
        traffic_of,
        write_report,
    )
    from bitstep_gradients.lab.race import BUDGET_SHARE, Race, run_race
    from bitstep_gradients.lab.ranks.trainers import open_trainer
    from bitstep_gradients.lab.timing import Network
    from bitstep_gradients.lab.training import Setting
    from bitstep_lab.races.run_store import RunStore
    networks = [Network(gbits, arguments.latency_us * 1e-6) for gbits in arguments.gbits]
    races, progress = [], _Runs(max_steps)
    try:
        for model, samples in tasks.values():
            n_values = sum(value.size for value in model.first_parameters(0).values())
            budget = 4 * n_values * arguments.steps / BUDGET_SHARE \
                if arguments.budget_mb is None else 1e6 * arguments.budget_mb
            for n_workers in dict.fromkeys(arguments.workers):
                setting = Setting(
                    n_workers, arguments.batch,
                    0.0 if arguments.step == "auto" else arguments.step, arguments.steps, budget,
                    max_steps, arguments.every, arguments.min_size, arguments.update_every,
                    arguments.exchange, arguments.transport)
                with open_trainer(model, samples, setting, arguments.timeout) as trainer:
                    race = run_race(Race(model, samples, contestants, setting, arguments.seeds),
                                    RunStore(out / "runs"), progress, trainer)
                races.append(race)
                page = write_report(out, races, networks)
                print(f"{title_of(race)}, {race['data']}")
                rows = summary(race, networks)
                print(text_table(head(networks), [cells_of(row) for row in rows]))
                if traffic := traffic_of(rows):
                    print()
                    print(text_table(TRAFFIC_HEAD, traffic))
                print()
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            f"interrupted; what is finished is in {out / 'runs'}, and the same command goes on "
            "from there") from None
    finally:
        progress.close()
    print(f"wrote {page}")
    return 0


def _contestants(arguments) -> tuple[Contestant, ...]:
    found: list[Contestant] = []
    try:
        for text in arguments.codecs:
            found += whole_field() if text == ALL else [parse_contestant(text)]
        weight = arguments.error_feedback
        if weight is not None and weight > 1:
            raise ContestantError(f"--error-feedback must be at most 1, not {weight:g}")
    except ContestantError as error:
        raise UsageError(f"--codecs: {error}" if "--" not in str(error) else str(error)) from error
    if weight is not None:
        found = [one.with_feedback(weight) for one in found]
    return tuple({one.text: one for one in found}.values())     # each once


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    """One thread for products of matrices, if threadpoolctl is there, and for torch: these are too
    small to share, and threads that wait for each other are slow on a busy machine. Sums have the
    same bits as those of processes of one thread, too.
    """
    torch, limits = sys.modules.get("torch"), contextlib.nullcontext()
    with contextlib.suppress(ImportError):
        from threadpoolctl import threadpool_limits
        limits = threadpool_limits(limits=1)
    n_threads = torch.get_num_threads() if torch else 0
    with limits:
        if torch:
            torch.set_num_threads(1)
        try:
            yield
        finally:
            if torch:
                torch.set_num_threads(n_threads)


class _Runs:
    """A line for every run, and on a terminal a bar of its steps."""

    def __init__(self, max_steps: int):
        self._total, self._line, self._bar = max_steps, Progress(), None

    def __call__(self, text: str) -> Callable[[int], None]:
        """Begin a run."""
        self.close()
        self._line(text)
        self._bar = Bar(self._total, "steps", "step")
        return self._bar.to

    def close(self) -> None:
        """Remove the bar."""
        if self._bar is not None:
            self._bar.__exit__()
