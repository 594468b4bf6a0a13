"""``python -m bitstep_lab.gradients.papers``: a section of docs/results/gradients.md."""

from bitstep_lab.gradients.papers import alq, dq_sgd, dqsg, qcs, zipml
from bitstep_lab.gradients.papers.claims import runs_table, table
from bitstep_lab.gradients.papers.training import RUNS

PAPERS = {"ALQ": alq, "QCS": qcs, "DQSG": dqsg, "DQ-SGD": dq_sgd, "ZipML": zipml}


def section() -> str:
    """The tables of all papers, in Markdown."""
    parts = []
    for name, paper in PAPERS.items():
        parts += [f"### {name}", f"**{paper.CONCLUSION}**", table(paper.claims()),
                  "What needs a training:", runs_table(RUNS[name])]
    return "\n\n".join(parts)


def main() -> None:
    """Print the tables."""
    print(section())


if __name__ == "__main__":
    main()
