"""Error of the average by all_gather and by the two-phase scheme, on gradients of FC-300-100.

    python -m bitstep_gradients.lab.phases

An owner's average goes through the codec once more, and no mean over the ranks makes that second
error smaller.
"""

import argparse
from threading import Thread

import numpy as np

from bitstep.cli.options import integer
from bitstep_gradients.exchange import EXCHANGES, Aggregator
from bitstep_gradients.exchange.transport import ThreadGroup
from bitstep_gradients.lab.contestants import Contestant, ContestantError, parse_contestant
from bitstep_gradients.lab.perceptrons import Parameters
from bitstep_gradients.lab.tasks import make_task
from bitstep_gradients.lab.training import Batches, descend, gradients_of
from bitstep_gradients.vectors import sum_of_squares
from bitstep_lab.markdown import markdown_table

WORKERS, BATCH, STEP, SEED = (2, 4, 8), 32, 0.0625, 0
POINTS, EVERY = 5, 10
CODECS = ("dqsg:bucket_size=512", "dqsg:bits=4,bucket_size=512", "qsgd-linf:bits=4,bucket_size=512")
LIMIT_S = 600.0


def errors(contestants: list[Contestant], n_workers: int) -> dict[str, dict[str, float]]:
    """Squared distance of the average to that of the gradients, by the latter's squared norm.

    Parameters
    ----------
    contestants : list of Contestant
    n_workers : int

    Returns
    -------
    errors : dict of dict of float
        By contestant and scheme: means over steps of an uncompressed training.
    """
    model, samples = make_task("fc")
    parameters = model.first_parameters(SEED)
    batches = Batches(samples, n_workers, BATCH, SEED)
    found = {one.text: {scheme: [] for scheme in EXCHANGES} for one in contestants}
    for step in range(EVERY * (POINTS - 1) + 1):
        _, gradients = gradients_of(model, parameters, batches.draw())
        exact = {name: np.asarray(np.mean([one[name] for one in gradients], axis=0,
                                          dtype=np.float64)) for name in parameters}
        if step % EVERY == 0:
            norm = sum(map(sum_of_squares, exact.values()))
            for one in contestants:
                for scheme, rows in found[one.text].items():
                    average = _average(one, scheme, step, gradients)
                    rows.append(sum(sum_of_squares(average[name] - exact[name])
                                    for name in exact) / norm)
        descend(parameters, STEP, {name: one.astype(np.float32) for name, one in exact.items()})
    return {text: {scheme: float(np.mean(rows)) for scheme, rows in schemes.items()}
            for text, schemes in found.items()}


def _average(contestant: Contestant, scheme: str, step: int,
             gradients: list[Parameters]) -> Parameters:
    """The average that all ranks end with, by threads."""
    found: dict[int, Parameters] = {}

    def work(transport):
        aggregator = Aggregator(contestant.make(1), exchange=scheme, min_size=0, seed=step)
        found[transport.rank] = aggregator.average(transport, gradients[transport.rank]) or {}

    threads = [Thread(target=work, args=(transport,), daemon=True)
               for transport in ThreadGroup(len(gradients), LIMIT_S).transports()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found[0]


def main(arguments: list[str] | None = None) -> None:
    """Print a Markdown table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n    ")[0],
                                     prog="python -m bitstep_gradients.lab.phases")
    parser.add_argument("--codecs", nargs="+", metavar="CODEC", default=list(CODECS),
                        help=f"as in `bitstep gradients race` (default: {' '.join(CODECS)})")
    parser.add_argument("--workers", nargs="+", type=integer(1), default=list(WORKERS),
                        metavar="N")
    options = parser.parse_args(arguments)
    try:
        contestants = [parse_contestant(text) for text in options.codecs]
    except ContestantError as error:
        parser.error(f"--codecs: {error}")
    rows = []
    for n_workers in options.workers:
        for text, schemes in errors(contestants, n_workers).items():
            once, twice = (schemes[name] for name in ("all_gather", "two-phase"))
            rows.append([f"`{text}`", str(n_workers), f"{once:.3g}", f"{twice:.3g}",
                         f"{twice / once:.2f}"])
    print(markdown_table(["codec", "workers", "all_gather", "two-phase", "ratio"], rows))


if __name__ == "__main__":
    main()
