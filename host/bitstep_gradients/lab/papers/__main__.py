"""Figures that the papers print beside those that came out here, as sections of
docs/results/gradients.md.

Without options: figures that need no training. With --regression: linear regressions of the QCS
paper. With --race: figures of a race of FC-300-100. With --errors: errors of 3-bit codecs on the
gradients of networks.

    bitstep gradients race fc --steps 40 --seeds 2 --step 0.0625 --budget-mb 0 --out DIR \\
        --codecs $(python -m bitstep_gradients.lab.papers --codecs)
    python -m bitstep_gradients.lab.papers --race DIR
"""

import argparse
import json
from pathlib import Path
from textwrap import fill

from bitstep_gradients.lab.papers import (
    alq,
    dq_sgd,
    dqsg,
    errors,
    qcs,
    regression,
    trained,
    zipml,
)
from bitstep_gradients.lab.papers.claims import runs_table, table
from bitstep_gradients.lab.papers.training import RUNS
from bitstep_gradients.lab.tasks import TaskError

PAGE_WIDTH = 118            # of a line of the page
PAPERS = {"ALQ": alq, "QCS": qcs, "DQSG": dqsg, "DQ-SGD": dq_sgd, "ZipML": zipml}


def section() -> str:
    """The tables of all papers, in Markdown."""
    parts = []
    for name, paper in PAPERS.items():
        parts += [f"### {name}", fill(f"**{paper.CONCLUSION}**", PAGE_WIDTH),
                  table(paper.claims()), "What needs a training:", runs_table(RUNS[name])]
    return "\n\n".join(parts)


def trained_section(folder: Path) -> str:
    """The table of claims that a race judges, in Markdown.

    Parameters
    ----------
    folder : Path
        Folder of the race's report.

    Raises
    ------
    ValueError
        If it has no race of FC-300-100 with all codecs.
    """
    try:
        races = json.loads((folder / "races.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ValueError(f"the folder must have the report of a race: {error}") from error
    race = next((race for race in races if race["model"] == "fc"), None)
    if race is None:
        raise ValueError(f"{folder} must have a race of fc; it has "
                         f"{', '.join(race['model'] for race in races)}")
    return table([claim for claims in trained.claims(race).values() for claim in claims])


def main(arguments: list[str] | None = None) -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n    ")[0],
                                     prog="python -m bitstep_gradients.lab.papers",
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument("--regression", action="store_true",
                        help="train linear regressions with several step sizes")
    choice.add_argument("--codecs", action="store_true", help="print the codecs of the race")
    choice.add_argument("--race", metavar="DIR", type=Path, help="report of the race")
    choice.add_argument("--errors", metavar="MODEL", nargs="+", choices=tuple(errors.SCHEDULES),
                        help="errors of 3-bit codecs on gradients: fc, resnet (needs torch)")
    options = parser.parse_args(arguments)
    if options.codecs:
        print(" ".join(trained.CODECS))
    elif options.errors:
        try:
            print(errors.table(options.errors))
        except TaskError as error:
            parser.error(str(error))
    elif options.regression:
        found = regression.curves()
        print(f"{regression.table(found)}\n\n{table(regression.claims(found))}")
    elif options.race:
        try:
            print(trained_section(options.race))
        except ValueError as error:
            parser.error(str(error))
    else:
        print(section())


if __name__ == "__main__":
    main()
