"""``bitstep bench``: one race between pipelines, CPU baselines and scikit-learn."""

import argparse
from dataclasses import replace
from typing import Any

from bitstep.cli.device import BANDWIDTH, CLOCK_MHZ, LATENCY
from bitstep.cli.options import (
    UsageError,
    add_options,
    integer,
    label_column,
)
from bitstep.cli.paths import check_writable
from bitstep.cli.progress import StatusLine
from bitstep.options.models import MODELS
from bitstep.options.rules import Request
from bitstep.options.table import BY_SGD, OPTIONS, SCHEDULES
from bitstep.options.types import Choice
from bitstep.options.words import COMMAND_LINE
from bitstep.pipeline.losses import LOSSES
from bitstep.pipeline.parts.formats import FLOAT_BITS
from bitstep.pipeline.parts.stages import UPDATE_INTERVALS
from bitstep.pipeline.parts.widths import BUS_WIDTHS, MAX_MODELS
from bitstep.pipeline.results import waits_text
from bitstep.quantization import ENCODINGS
from bitstep.training.choices import resolve
from bitstep.writing import duration, text_table, write_json
from bitstep_lab.commands.baselines import MeasureBaselines
from bitstep_lab.commands.curves import RTL_HELP, Progress
from bitstep_lab.races.board_profiles import PROFILES, profile

# Races are those of the papers: the squared error, which few bits do not bias.
# The bound of the Huber loss depends on the labels; the baselines have no such loss.
_MODELS = tuple(name for name, kind in MODELS.items() if not LOSSES[kind.loss].clipped)
_DEFAULT_MODELS = {"regression": "linreg", "classification": "ls-svm"}
CPU_METHODS = ("sgd", "hogwild", "minibatch", "lowprec", "sklearn")


def add_parser(commands: Any) -> argparse.ArgumentParser:
    """Declare the options."""
    parser = commands.add_parser(
        "bench", help="race pipelines, CPU baselines and scikit-learn on one data set",
        description="Train the same model with several pipelines and on the CPU, on the same rows "
        "and with the same steps, and compare the times to a loss of 1.01 x the optimum.",
        epilog="Examples: bitstep bench noisy-100 --bits 8 4; bitstep bench mnist --model ls-svm "
        "--profile pynq-z1 --bits 1 --no-float --cpu. How times are taken: docs/results/races.md.")
    parser.add_argument("data", metavar="DATA", help="a file, or a name (`bitstep info --data`); "
                        "if --data-home has no file for them, rows like those of "
                        "YearPredictionMSD, cod-rna, gisette and mnist are generated")
    parser.add_argument("--baselines", action=MeasureBaselines, nargs=argparse.REMAINDER,
                        metavar="OPTION", help="instead of a race, measure the speed of the CPU "
                        "baselines on random data (see --baselines --help)")
    parser.add_argument("--data-home", metavar="DIR", help="folder with files of named data sets "
                        "(default: $BITSTEP_DATA, else the cache folder)")
    add_options(parser, "label_column")
    parser.add_argument("--rows", type=integer(2), metavar="N", help="rows to draw (default: all)")
    parser.add_argument("--model", choices=_MODELS, metavar="M",
                        help=f"{', '.join(_MODELS)} (default: linreg or ls-svm, by the labels)")
    _add_board_options(parser.add_argument_group("board"))
    racers = parser.add_argument_group("contestants")
    racers.add_argument("--bits", type=OPTIONS["bits"].kind, nargs="+", default=[8, 4],
                        metavar="B", help="widths of the quantized pipelines (default: 8 4)")
    racers.add_argument("--encoding", nargs="+", metavar="E", choices=tuple(ENCODINGS),
                        help=f"{', '.join(ENCODINGS)} (default: the model's)")
    racers.add_argument("--refetch", action="store_true",
                        help="svm: fetch rows again where their codes cannot decide")
    add_options(racers, "lookahead")
    racers.add_argument("--update-interval", type=int, metavar="N", help="initiation "
                        "interval of the quantized pipelines' updates: 2, or 4 for a fast clock; "
                        "logistic: 6; 1: rows of a batch without waiting (default: 2 or 6, and 1 "
                        "for batches of several --batch)")
    racers.add_argument("--models", type=integer(1, MAX_MODELS), default=1, metavar="N",
                        help="classes that every pipeline trains in one pass over the rows, 1 to "
                        f"{MAX_MODELS} (default: 1)")
    racers.add_argument("--float", action=argparse.BooleanOptionalAction, default=True,
                        help="race a pipeline of floating-point rows, too (default: yes)")
    racers.add_argument("--cpu", nargs="*", choices=CPU_METHODS, metavar="C",
                        default=["sgd", "hogwild", "lowprec", "sklearn"],
                        help=f"CPU baselines, of {', '.join(CPU_METHODS)}; --cpu alone: none "
                        "(default: sgd hogwild lowprec sklearn)")
    racers.add_argument("--threads", type=integer(1), nargs="+", metavar="N",
                        help="threads of hogwild and lowprec (default: 1 and all cores)")
    _add_training_options(parser.add_argument_group("training"))
    parser.add_argument("--report", metavar="FILE.json", help="write all figures of the race")
    return parser


def _add_training_options(training: Any) -> None:
    """Options that all contestants share."""
    OPTIONS["epochs"].declare(training, default=10, help="passes over the rows", default_text="10")
    training.add_argument("--batch", type=OPTIONS["batch"].kind, nargs="+", default=[1],
                          metavar="N", help="rows of a mini-batch; of several each contestant has "
                          "the one with which it is first at the line, pipelines without waiting "
                          "where it is more than 1 row (default: 1)")
    OPTIONS["schedule"].declare(training, kind=Choice(SCHEDULES), metavar=None, default="inverse",
                                default_text="inverse", help="step of each epoch")
    OPTIONS["step"].declare(training, default="auto", help="first step of all contestants, or "
                            "auto: tuned for the float pipeline")
    OPTIONS["l2"].declare(training, default=0.0, **BY_SGD["l2"])
    OPTIONS["seed"].declare(training, default=0)


def _add_board_options(board: Any) -> None:
    """Options of the pipelines' board."""
    board.add_argument("--profile", choices=tuple(PROFILES), default="paper", metavar="P",
                       help=f"board: {', '.join(PROFILES)} (default: paper; see "
                       "--list-profiles)")
    board.add_argument("--list-profiles", action=ListProfiles, nargs=0,
                       help="show the profiles and their sources")
    board.add_argument("--rtl", action="store_true", help=RTL_HELP)
    board.add_argument("--bus-width", type=int, choices=BUS_WIDTHS, metavar="W",
                       help="bus of the rows, of several ports, instead of the profile's: "
                       f"{', '.join(map(str, BUS_WIDTHS))}")
    board.add_argument("--clock-mhz", type=CLOCK_MHZ, metavar="F",
                       help="clock, instead of the profile's")
    board.add_argument("--memory-gbps", type=BANDWIDTH, metavar="F",
                       help="memory bandwidth, instead of the profile's")
    board.add_argument("--memory-latency", type=LATENCY, metavar="N",
                       help="memory latency in cycles, instead of the profile's")


class ListProfiles(argparse.Action):
    """Shows the table of profiles and ends the program."""

    def __call__(self, parser, namespace, values, option_string=None):
        """Print and exit."""
        print(text_table(["profile", "bus", "MHz", "memory GB/s", "latency", "stream GB/s"], [
            [one.name, one.bus_width, one.clock_hz / 1e6, one.memory_gbps, one.memory_latency,
             one.stream_gbps] for one in PROFILES.values()]))
        for one in PROFILES.values():
            print(f"\n{one.name}: {one.source}")
        parser.exit()


def run(arguments: argparse.Namespace) -> int:
    """Run the race, print its table and write its report."""
    from bitstep_lab.races.contestants import Race
    from bitstep_lab.races.race import Track, run_race
    from bitstep_lab.races.race_data import race_data
    check_writable(arguments.report, sources=[arguments.data])
    contestants(arguments, arguments.model or _DEFAULT_MODELS["regression"])    # an error now
    data = race_data(arguments.data, rows=arguments.rows, data_home=arguments.data_home,
                     seed=arguments.seed, label_column=label_column(arguments))
    model = arguments.model or _DEFAULT_MODELS[data.dataset.task]
    if MODELS[model].task != data.dataset.task:
        raise UsageError(f"--model {model} is for a {MODELS[model].task}, and {arguments.data} is "
                         f"a {data.dataset.task}")
    racers = contestants(arguments, model)
    _check_batches(arguments, racers, data.dataset.n_rows)
    board = profile(arguments.profile, memory_gbps=arguments.memory_gbps,
                    clock_hz=arguments.clock_mhz and arguments.clock_mhz * 1e6,
                    memory_latency=arguments.memory_latency, bus_width=arguments.bus_width)
    race = Race(data, model, board, racers, epochs=arguments.epochs,
                batches=arguments.batch, schedule=arguments.schedule, l2=arguments.l2,
                step=None if arguments.step == "auto" else arguments.step, seed=arguments.seed,
                rtl=arguments.rtl)
    status = StatusLine("board")
    try:
        found = run_race(race, Track(progress=Progress(),
                                     device_options={"progress": status}))
    finally:
        status.clear()
    if arguments.report:        # before it is printed: who reads that may have seen enough
        write_json(arguments.report, found)
    print_race(found)
    if arguments.report:
        print(f"wrote {arguments.report}")
    return 0


def _check_batches(arguments: argparse.Namespace, racers: list[Any], n_rows: int) -> None:
    """Raise UsageError for a batch that the rows are too few for, before any run."""
    corrected = arguments.l2 > 0 or any(
        ENCODINGS[one.encoding].corrected for one in racers if hasattr(one, "encoding"))
    most = n_rows - corrected
    if max(arguments.batch) > most:
        said = ", since L2 or the encoding needs corrections between batches" if corrected else ""
        raise UsageError(f"--batch must be at most {most} with {n_rows} rows{said}, not "
                         f"{max(arguments.batch)}")


def contestants(arguments: argparse.Namespace, model: str) -> list[Any]:
    """Contestants that the options name.

    Raises
    ------
    UsageError
        If nobody does, or if an encoding does not suit the model.
    """
    from bitstep_lab.races.contestants import FLOAT, Cpu, Pipeline, Sklearn
    from bitstep_lab.races.run_store import machine
    kind = MODELS[model]
    allowed = UPDATE_INTERVALS[LOSSES[kind.loss].loss_family]
    if arguments.update_interval not in (None, *allowed):
        raise UsageError(f"--update-interval of --model {model} must be "
                         f"{'one of ' * (len(allowed) > 1)}{', '.join(map(str, allowed))}, not "
                         f"{arguments.update_interval}")
    found: list[Any] = [replace(FLOAT, models=arguments.models)] if arguments.float else []
    encodings = arguments.encoding or [kind.encoding]
    for encoding in encodings:
        for bits in arguments.bits:
            if bits == FLOAT_BITS or encoding == "float":
                continue        # the float pipeline, which takes part already
            rows = resolve(Request(COMMAND_LINE, {
                "model": model, "bits": bits, "encoding": encoding, "refetch": arguments.refetch,
                "batch": arguments.batch[0], "models": arguments.models,
                "update_interval": arguments.update_interval})).rows
            found.append(Pipeline(bits=bits, encoding=encoding, refetch=rows.refetch,
                                  lookahead=arguments.lookahead,
                                  update_interval=arguments.update_interval,
                                  models=arguments.models))
    threads = arguments.threads or sorted({1, machine()["cores"]})
    for method in arguments.cpu:
        if method == "sklearn":
            found.append(Sklearn())
        elif method in ("hogwild", "lowprec"):
            found += [Cpu(method=method, threads=count) for count in threads]
        else:
            found.append(Cpu(method=method))
    if not found:
        raise UsageError("No contestant selected: leave out --no-float, or name --bits below 32 or "
                         "--cpu")
    return found


def print_race(race: dict[str, Any]) -> None:
    """A race as a text table."""
    from bitstep_lab.races.judging import result_table, rtl_sentence
    board = race["profile"]
    print(f"{race['data']}: {race['model']} on profile {board['name']} ({board['bus_width']} bits, "
          f"{board['clock_hz'] / 1e6:g} MHz), {race['epochs']} epochs")
    print(text_table(*result_table(race)))
    line = {"optimum": "1.01 x the optimum", "float": "1.01 x the float pipeline's last loss, "
            "which does not reach 1.01 x the optimum"}[race["line"]]
    print(f"Times are to a loss of {race['targets'][race['line']]:.6g}: {line} "
          f"({race['optimum']:.6g}).")
    print(rtl_sentence(race["rtl"]))
    for result in race["results"]:
        if result["status"] != "ok":
            print(f"{result['name']}: {result['status']}")
        elif result["kind"] == "pipeline":
            print(f"{result['name']}: {duration(result['seconds'][-1])} of device time for all "
                  f"epochs, {result['cycles'][-1]:,} cycles; waits: "
                  + waits_text(result["stalls"], result["cycles"][-1])
                  + (f"; {100 * result['refetched']:.2f} % of the rows fetched again"
                     if result["refetched"] is not None else ""))


