"""Digests of what must be equal on every machine, as JSON: ``python cases.py OUT``.

Integers of a run, files, codes, models and scores do not depend on the processor, the width of
NumPy's default integer (32 bits on 32-bit machines), BLAS or the compiled loops. Sizes are those at
which products of default integers leave 32 bits: above 131,072 rows, and where rows times features
exceed 65,536.
"""

import contextlib
import hashlib
import io
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from bitstep.cli import main as bitstep
from bitstep.data import Dataset, split
from bitstep.devices.golden import GoldenDevice
from bitstep.doctor.jobs import expected_of, training_jobs
from bitstep.golden.dither import dithers, epoch_keys
from bitstep.golden.rounded_model import rounded_model
from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.registers import Loss
from bitstep.quantization import (
    quantize,
    quantize_bit_planes,
    save_quantized,
)
from bitstep.training.chunks import chunk_seed, fingerprint
from bitstep.training.copies import weighted_order
from bitstep.training.files.checkpoint import describe_data, describe_job
from bitstep.training.objective import Objective, Training
from bitstep.training.planning import plan
from bitstep.training.scores.scoring import scored_codes, scored_features, spaced
from bitstep.training.scores.stopping import held_out
from bitstep.training.train import train_model
from bitstep_gradients.codecs.levels.adaptive import Alq
from bitstep_gradients.keys import Key
from bitstep_gradients.registry import list_codecs, make_codec
from bitstep_gradients.wire.payloads.huffman import Huffman
from bitstep_gradients.wire.payloads.plain import Fixed, Radix
from bitstep_gradients.wire.positions import decode_positions, encode_positions

MANY_ROWS = 131_081         # the least number that times 16,383, the last scored row's, is 2**31
SHAPES = ((1, 1), (3, 65_536), (257, 300), (MANY_ROWS, 1), (200_000, 3))
ENCODINGS = {"nearest": (1, 8), "stochastic": (2, 5), "compensated": (1, 4),
             "double-symmetric": (3,), "double": (8,), "float": (32,)}

Digests = Iterator[tuple[str, Any]]


def digest(value: Any) -> str:
    """Hexadecimal digits of bytes, of numbers, or of whatever JSON can hold."""
    if isinstance(value, np.ndarray):
        kind = {"f": "<f8", "i": "<i8", "u": "<u8", "b": "|u1"}.get(value.dtype.kind)
        content = value.astype(kind).tobytes() if kind else repr(value.tolist()).encode()
        value = f"{value.shape} ".encode() + content
    elif not isinstance(value, bytes):
        value = json.dumps(value, sort_keys=True).encode()
    return hashlib.sha256(value).hexdigest()[:16]


def features_of(n_rows: int, n_features: int, seed: int = 0) -> np.ndarray:
    """Features of no special form; the same bits on every machine."""
    words = np.random.PCG64(seed).random_raw(n_rows * n_features)
    return (words >> np.uint64(11)).reshape(n_rows, n_features) * 2.0 ** -50 - 3


def labels_of(features: np.ndarray) -> np.ndarray:
    """Labels that depend on some of the features, without a sum that could be rounded."""
    return features[:, 0] * 2 + (features[:, -1] > 0)


def codes() -> Digests:
    """Quantized files, and the codes in them."""
    for (encoding, widths), shape in product(ENCODINGS.items(), SHAPES):
        features = features_of(*shape)
        for bits in widths:
            data = quantize(features, labels_of(features), bits=bits, encoding=encoding, seed=3,
                            copies=2)
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "rows.npz"
                save_quantized(data, path)
                yield f"file {encoding} {bits} {shape}", path.read_bytes()
    for shape in SHAPES:
        features = features_of(*shape)
        bit_planes = quantize_bit_planes(features)
        yield f"bit_planes {shape}", [digest(bit_planes.stored[0]), digest(bit_planes.excess),
                                      digest(bit_planes.moments), digest(bit_planes.shifts)]
    features = features_of(70_000, 3)
    for bits in (1, 3, 5):
        data = quantize(features, labels_of(features), bits=bits, levels="optimal", fine_rows=False)
        yield f"optimal levels {bits}", [digest(data.rows.stored[0]),
                                         digest(data.rows.codebooks)]
    data = quantize(features, labels_of(features), bits=4, encoding="nearest", fine_rows=True,
                    scaler="quantile")
    yield "fine rows", [digest(data.rows.stored[0]), digest(data.fine_rows)]


def rows() -> Digests:
    """Orders, choices and weights of many rows."""
    for n_rows in (1, MANY_ROWS - 1, MANY_ROWS, 1_000_003, 2**31 + 5):
        yield f"spaced {n_rows}", spaced(n_rows, 16_384)
    for n_rows, classes in product((10, 104_000, 200_000), (False, True)):
        kinds = np.arange(n_rows) % 3 if classes else None
        train, held = held_out(n_rows, 0.2, 5, kinds)
        yield f"held out of {n_rows}, classes {classes}", [digest(train), digest(held)]
    numbers = np.arange(200_000.0)
    whole = Dataset("rows", numbers[:, None], numbers, "regression")
    parts = split(whole, 150_000, seed=9)
    yield "split", [digest(one.labels) for one in parts]
    weights = features_of(MANY_ROWS, 1)[:, 0] % 1.0 + 0.5
    yield "weighted order", weighted_order(weights, lambda: 4, np.arange(MANY_ROWS) % 2)
    features = features_of(1000, 3)
    yield "chunk", [fingerprint(features), chunk_seed(7, features, 0)]


def scores() -> Digests:
    """Scores of models on more rows than products of 32 bits can number."""
    features = features_of(200_000, 3)
    labels = labels_of(features)
    for loss, task in ((Loss.LEAST_SQUARES, "regression"), (Loss.LOGISTIC, "classification"),
                       (Loss.HINGE, "classification")):
        own = labels if task == "regression" else np.where(labels > 0, 1.0, -1.0)
        data = quantize(features, own, bits=4, encoding="nearest", task=task)
        solver = {"loss_family": "logistic", "update_interval": 6} if loss == Loss.LOGISTIC else {}
        config = PipelineConfig(bits=4, max_features=8, **solver)
        made = plan(data, config, Objective(loss=loss), Training(steps=np.array([0.1])))
        model = np.array([[123_456_789, -87_654_321, 1_000_003]], np.int32)
        for name, scored in (
                ("codes", scored_codes([data], loss, classes=task != "regression")),
                ("features", scored_features(features, own[:, None], data.scaler, loss,
                                             classes=task != "regression"))):
            values = scored.outputs([made], model, [55_555])
            yield f"scores {loss.name} {name}", [
                digest(scored.values), digest(values), scored.mean_loss(values).hex(),
                scored.accuracy(values), scored.noise([made], model).hex()]


def golden() -> Digests:
    """Models of the golden model, epoch after epoch, and the integers that they come from."""
    cases: tuple[dict[str, Any], ...] = (
        {"bits": 8}, {"bits": 1}, {"bits": 4, "row_format": "two_levels"},
        {"bits": 32, "row_format": "float32"}, {"bits": 16, "row_format": "bit_planes"},
        {"bits": 4, "loss_family": "logistic", "update_interval": 6})
    for options in cases:
        config = PipelineConfig(max_features=256, **options)
        for title, job in training_jobs(config).items():
            models, intercepts = expected_of(job)
            yield f"golden {options} {title}", [
                digest(models), digest(intercepts), describe_job(job),
                digest(job.rows[0]), digest(job.labels)]
    config = PipelineConfig(bits=4, max_features=64, corrections=True)
    features = features_of(300, 40)
    data = quantize(features, labels_of(features), bits=4)
    trained = train_model([data], GoldenDevice(config), config, Objective(loss=Loss.LEAST_SQUARES),
                          Training(steps=np.array([0.02, 0.01]), batch=4, model_bits=4,
                                   update_bits=6))
    yield "few bits", [digest(trained.weights), digest(trained.scaled_intercepts),
                       describe_data([data])]
    yield "dithers", [digest(dithers(2**32 - 1, MANY_ROWS)), epoch_keys(2**32 - 1, 2**31 - 2, 4),
                      epoch_keys(5, 2**32 - 3, 3)]
    words = features_of(1, 70_000)[0] * 2.0**28
    yield "rounded model", rounded_model(words.astype(np.int64), 5, 2**32 - 1, 70_000)


def commands() -> Digests:
    """Files that commands of a board write: quantized ones, models, checkpoints, reports."""
    features = features_of(260, 6)
    whole = np.column_stack([labels_of(features), features])
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        many = features_of(MANY_ROWS, 2, 1)
        np.save(folder / "many.npy", np.column_stack([many, labels_of(many)]))
        np.savetxt(folder / "rows.csv", whole, "%.17g", ",")
        (folder / "rows.svm").write_text("".join(
            " ".join([f"{1 if row[0] > 0 else -1}",
                      *(f"{column}:{value!r}" for column, value in enumerate(row[1:].tolist(), 1))])
            + "\n" for row in whole))
        (folder / "names.csv").write_text("".join(
            ",".join([*map(repr, row[1:].tolist()), "cat" if row[0] > 0 else "dog"]) + "\n"
            for row in whole))
        runs = {
            "quantize many": "quantize many.npy --bits 3 --encoding compensated --out a.npz",
            "quantize some": "quantize many.npy --bits 2 --train-rows 9000 --out b.npz",
            "quantize bit_planes": "quantize rows.csv --label-column first --bit-planes --out "
                                   "c.npz",
            "train": "train rows.csv --label-column first --train-rows 200 --bits 4 --epochs 3 "
            "--out d.npz --checkpoint e.ckpt --report f.json",
            "classes": "train rows.svm --model svm --train-rows 200 --bits 2 --epochs 3 "
            "--early-stopping --out g.npz --checkpoint h.ckpt",
            "names": "train names.csv --model logistic --epochs 2 --class-weight balanced "
            "--out i.npz",
            "bit-centred": "train rows.csv --label-column first --solver bit-centred --epochs 3 "
            "--out j.npz --report k.json",
            "codes": "train c.npz --planes 2,4 --epochs 2 --out l.npz",
        }
        for title, words in runs.items():
            arguments = words.split()
            if arguments[0] == "train":
                arguments += ["--device", "golden"]
            with inside(folder), contextlib.redirect_stdout(io.StringIO()):
                assert bitstep(arguments) == 0, words
            for name in (word for word in arguments if word in KEPT):
                yield f"{title}: {KEPT[name]}", content(folder / name)


@contextlib.contextmanager
def inside(folder: Path) -> Iterator[None]:
    """The working folder, from which files have the same names in every run."""
    before = os.getcwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


KEPT = {**dict.fromkeys(("a.npz", "b.npz", "c.npz"), "quantized file"),
        **dict.fromkeys(("d.npz", "g.npz", "i.npz", "j.npz", "l.npz"), "model"),
        **dict.fromkeys(("e.ckpt", "h.ckpt"), "checkpoint"),
        **dict.fromkeys(("f.json", "k.json"), "report")}
CENTRED = "j.npz"
UNLIKE = ("seconds", "wall_seconds", "versions")


def content(path: Path) -> Any:
    """A file without what tells one run from the next.

    Losses of a report, and all of bit-centred training, are products of BLAS, of which the last
    digits differ from library to library.
    """
    if path.suffix == ".json":
        return rounded(known(json.loads(path.read_text())))
    if KEPT[path.name] == "quantized file":
        return path.read_bytes()
    with np.load(path) as arrays:
        found = {name: arrays[name] for name in arrays.files if name not in ("header", "checksum")}
        header = known(json.loads(str(arrays["header"])))
    if path.name == CENTRED:
        found = {name: np.array(rounded(array.tolist())) for name, array in found.items()}
    return {"header": header,
            "arrays": {name: [one.dtype.str, digest(one)] for name, one in found.items()}}


def known(facts: dict[str, Any]) -> dict[str, Any]:
    """Facts that are the same in every run."""
    return {name: value for name, value in facts.items() if name not in UNLIKE}


def rounded(value: Any) -> Any:
    """What JSON can hold, with floats of 9 digits."""
    if isinstance(value, float):
        return float(f"{value:.9g}")
    if isinstance(value, dict):
        return {name: rounded(one) for name, one in value.items()}
    return list(map(rounded, value)) if isinstance(value, list) else value


def messages() -> Digests:
    """Messages between workers, one of which may be a board."""
    vector = features_of(1, 5000)[0].astype(np.float32)
    key = Key(2**32 - 1, 3, 1, 2)
    yield "words", [digest(key.words(7, start=start))
                    for start in (0, 2**31 - 3, 2**32 - 4, 2**33 - 8)]
    for name in list_codecs():
        codec = make_codec(name)
        message = codec.encode(vector, key)
        yield f"codec {name}", [digest(message), digest(codec.decode(message, key))]
    for n_symbols in (2, 3, 5, 7, 11, 200, 256, 70_000, 2**31):
        symbols = np.random.PCG64(n_symbols).random_raw(999) % np.uint64(n_symbols)
        for payload in (Fixed(), Radix(), Huffman()):
            if isinstance(payload, Huffman) and n_symbols > 256:
                continue
            coded = payload.encode(symbols.astype(np.int64), n_symbols)
            decoded = payload.decode(coded, symbols.size, n_symbols)
            assert (decoded.astype(np.uint64) == symbols).all(), (payload, n_symbols)
            yield f"payload {payload.name} {n_symbols}", coded
    for count, kept in ((100, 7), (2**30, 3), (200_000, 20_000)):
        places = np.unique(np.random.PCG64(2).random_raw(kept) % np.uint64(count)).astype(np.int64)
        coded = encode_positions(places, count)
        found = decode_positions(coded, places.size, count)
        assert (found == places).all(), (count, kept)
        yield f"positions {count}", coded
    buckets = features_of(1, 300_000)[0].astype(np.float32)
    yield "statistics", Alq(bits=3, bucket_size=4, samples=350).statistics(buckets)


GROUPS: tuple[Callable[[], Digests], ...] = (codes, rows, scores, golden, commands, messages)


def main(arguments: list[str]) -> int:
    """Write the digests of all cases to a file."""
    found = {}
    for group in GROUPS:
        cases = group()
        while True:
            try:
                title, value = next(cases)
            except StopIteration:
                break
            except (Exception, SystemExit) as error:    # a case that fails is one that differs
                found[f"{group.__name__} after {list(found)[-1:]}"] = repr(error)
                break
            found[title] = digest(value)
    Path(arguments[0]).write_text(json.dumps(found, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
