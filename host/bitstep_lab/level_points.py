"""Levels of least variance for points of a distribution, beside equally spaced ones.

    python -m bitstep_lab.level_points --out DIR

The counterpart of figure 3 of the ZipML paper: the table has the variance of stochastic rounding
to uniform levels as a multiple of that to optimal ones, and DIR/levels.png shows both on a
distribution with two peaks and a tail.
"""

import argparse
from pathlib import Path

import numpy as np

from bitstep.cli.paths import report_folder
from bitstep.levels import level_cost, optimal_levels
from bitstep_lab.markdown import markdown_table
from bitstep_lab.races.figures import new_figure, save_figure

POINTS, BINS = 20_000, 80
COUNTS = (4, 8, 16, 32)         # levels of 2 to 5 bits
DRAWN = 8


def distributions() -> dict[str, np.ndarray]:
    """Points of some distributions, by name, each of shape (POINTS,)."""
    rng = np.random.default_rng(0)
    peaks = np.where(rng.random(POINTS) < 0.7, rng.normal(-1, 0.25, POINTS),
                     rng.normal(1.5, 0.6, POINTS))
    return {"uniform": rng.random(POINTS), "normal": rng.normal(size=POINTS),
            "two peaks": peaks, "exponential": rng.exponential(size=POINTS),
            "lognormal": rng.lognormal(size=POINTS)}


def variance_ratio(points: np.ndarray, n_levels: int) -> float:
    """Variance of rounding to uniform levels, as a multiple of that to optimal ones."""
    uniform = np.linspace(points.min(), points.max(), n_levels)
    return level_cost(points, uniform) / level_cost(points, optimal_levels(points, n_levels))


def ratio_rows() -> list[list[str]]:
    """Cells of the table: a row for each distribution, a column for each number of levels."""
    return [[name, *(f"{variance_ratio(points, count):.2f}" for count in COUNTS)]
            for name, points in distributions().items()]


def draw(points: np.ndarray, n_levels: int, stem: Path) -> None:
    """Draw a histogram with optimal and uniform levels to ``stem.png`` and ``stem.svg``."""
    figure = new_figure(8.4, 3.6)
    axes = figure.add_subplot()
    axes.hist(points, BINS, color="#cccccc")
    top = axes.get_ylim()[1]
    for number, (name, levels) in enumerate((
            ("optimal levels", optimal_levels(points, n_levels)),
            ("uniform levels", np.linspace(points.min(), points.max(), n_levels)))):
        axes.plot(levels, np.full(n_levels, -top * (0.05 + 0.07 * number)), "o^"[number],
                  color=f"C{number}", label=f"{name}, variance "
                  f"{level_cost(points, levels) / len(points):.3g}")
    axes.axhline(0, color="black", linewidth=0.8)
    axes.set_xlabel("value")
    axes.set_ylabel(f"points of {len(points):,}")
    axes.legend(fontsize=8, frameon=False)
    save_figure(figure, stem)


def main() -> None:
    """Print the table, and draw if a folder is given."""
    parser = argparse.ArgumentParser(prog="python -m bitstep_lab.level_points",
                                     formatter_class=argparse.RawDescriptionHelpFormatter,
                                     description=__doc__)
    parser.add_argument("--out", type=report_folder, metavar="DIR",
                        help="folder of the drawing; default: print the table alone")
    arguments = parser.parse_args()
    print(markdown_table(["points", *(f"{count} levels" for count in COUNTS)], ratio_rows()))
    if arguments.out is not None:
        draw(distributions()["two peaks"], DRAWN, arguments.out / "levels")
        print(f"wrote {arguments.out / 'levels.png'}")


if __name__ == "__main__":
    main()
