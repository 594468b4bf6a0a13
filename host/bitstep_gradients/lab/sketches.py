"""Figures of QCS, NDQSG, signs and sparse vectors in docs/results/gradients.md.

``python -m bitstep_gradients.lab.sketches`` prints them.
"""

import argparse
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from bitstep.writing import text_table
from bitstep_gradients import Codec, Key, make_codec
from bitstep_gradients.codecs.gains import best_sketch, compression_gain
from bitstep_gradients.codecs.ndqsg import Ndqsg
from bitstep_gradients.codecs.nesting import overload_probability
from bitstep_gradients.codecs.qcs import Qcs, gamma

THEOREM = ((64, 64, 1), (64, 32, 1), (64, 16, 2), (64, 2, 1), (128, 128, 4), (64, 1, 1))
GAINS = (20.19, 32, 64, 100)
SIZES = (64, 128, 256, 512)
DEVIATIONS = (0, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 1)
FC_300_100 = 266_610
CODECS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("top-k", {"share": 0.01}), ("random-k", {"share": 0.01, "unbiased": False}),
    ("qcs-1bit", {"share": 0.25}), ("qcs-mmse", {"share": 0.25, "payload": "radix"}),
    ("sign", {"bucket_size": 512}), ("one-bit", {"bucket_size": 512}), ("qcs-1bit", {}),
    ("qcs-mmse", {"payload": "radix"}), ("qcs", {"share": 0.68, "levels": 2, "payload": "radix"}),
    ("qcs", {"payload": "radix"}), ("dqsg", {"bucket_size": 512, "payload": "radix"}),
    ("qsgd-linf", {"bucket_size": 512, "payload": "radix"}))


def relative_errors(codec: Codec, vector: np.ndarray, steps: int) -> np.ndarray:
    """|v' - v|^2 / |v|^2 of messages with different keys: float64, shape (steps,)."""
    found = np.empty(steps)
    for step in range(steps):
        decoded = codec.decode(codec.encode(vector, Key(1, step)), Key(1, step))
        found[step] = np.sum((decoded.astype(np.float64) - vector)**2) / np.sum(vector**2)
    return found


def theorem_rows(buckets: int) -> list[Sequence[Any]]:
    """Bound and largest measured error ratio of three kinds of vectors, over many buckets."""
    rng, rows = np.random.default_rng(1), []
    for n, k, levels in THEOREM:
        codec, worst = Qcs(share=k / n, levels=levels, bucket_size=n), 0.0
        for kind in (rng.normal(size=n), np.eye(n)[0], np.ones(n)):
            tiled = np.tile(kind, 100)
            worst = max(worst, relative_errors(codec, tiled, max(buckets // 100, 1)).mean())
        rows.append((n, k, levels, f"{gamma(n, k, levels):.4g}", f"{worst:.3g}"))
    return rows


def gain_rows() -> list[Sequence[Any]]:
    """Least gamma at a compression gain, with its rows and levels, for four sizes of buckets."""
    rows = []
    for gain in GAINS:
        cells = []
        for n in SIZES:
            least, k, levels = best_sketch(n, gain)
            cells.append(f"{least:.2f} ({k} rows, Q = {levels:g})")
        rows.append((f"{gain:g}", *cells))
    return rows


def nesting_rows(count: int) -> list[Sequence[Any]]:
    """Bits a value and overloads of nested messages, M = 3 and ratio 3, as side information gets
    poor: values up to half the scale, so that little of the side information lies beyond it.
    """
    codec, rows = Ndqsg(payload="radix"), []
    for deviation in DEVIATIONS:
        rng = np.random.default_rng(3)
        vector = rng.uniform(-0.5, 0.5, count)
        vector[0] = 1
        side = vector + deviation * rng.normal(size=count)
        message = codec.encode(vector, Key(1), side)
        facts = codec.nesting(message)
        error = np.mean((codec.decode(message, Key(1), side) - vector)**2)
        rows.append((f"{deviation:g}", "nested" if facts.nested else "plain",
                     f"{100 * overload_probability(deviation, 1 / 3, 1):.3g} %",
                     f"{100 * facts.overloads / count:.3g} %" if facts.nested else None,
                     f"{8 * len(message) / count:.3f}", f"{error:.5f}"))
    return rows


def codec_rows(count: int, steps: int) -> list[Sequence[Any]]:
    """Bits a value and error ratio of codecs on normal values, and on values with heavy tails
    (Student's t with 3 degrees of freedom).
    """
    rng, rows = np.random.default_rng(4), []
    kinds = (rng.normal(size=count), rng.standard_t(3, size=count))
    for name, options in CODECS:
        codec = make_codec(name, **options)
        bits = 8 * len(codec.encode(kinds[0], Key(1))) / count
        errors = [f"{relative_errors(codec, kind, steps).mean():.3g}" for kind in kinds]
        shown = ", ".join(f"{key} {value}" for key, value in options.items() if key != "payload")
        rows.append((f"{name} {shown}".strip(), f"{bits:.3f}", *errors))
    return rows


def tables(*, buckets: int = 4000, count: int = FC_300_100, steps: int = 20) -> str:
    """Write all tables.

    Parameters
    ----------
    buckets : int
        Of every kind of vector, for the error ratio of QCS.
    count : int
        Values of the vectors of the other tables.
    steps : int
        Messages of every codec.
    """
    gain = compression_gain(64, 64, 1)
    return "\n\n".join((
        "QCS: error ratio and its bound\n" + text_table(
            ["n", "k", "Q", "bound", "measured"], theorem_rows(buckets)),
        f"QCS: least bound at a compression gain (k = n, Q = 1 has {gain:.2f})\n" + text_table(
            ["gain", *(f"n = {n}" for n in SIZES)], gain_rows()),
        "NDQSG: poor side information\n" + text_table(
            ["deviation", "coding", "overloads, formula", "measured", "bits a value", "error"],
            nesting_rows(count)),
        "Codecs: bits and error ratio\n" + text_table(
            ["codec", "bits a value", "normal", "heavy tails"], codec_rows(count, steps))))


def main() -> int:
    """Print all tables."""
    argparse.ArgumentParser(description="Figures of QCS, NDQSG, signs and sparse vectors; a "
                            "minute or less.").parse_args()
    print(tables())
    return 0


if __name__ == "__main__":
    sys.exit(main())
