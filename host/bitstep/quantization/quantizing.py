"""Quantizing of arrays: scale, encode and pack what is in memory, or mapped into it."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from bitstep.data.blocks import row_blocks
from bitstep.data.views import RowView
from bitstep.machine import in_threads
from bitstep.pipeline.bit_planes import BitPlaneLayout
from bitstep.pipeline.encodings import encoding_of
from bitstep.pipeline.shapes import check_weights
from bitstep.quantization.bit_planes import BitPlaneEncoder, BitPlaneOptions, BitPlaneRows
from bitstep.quantization.dataset import QuantizedDataset
from bitstep.quantization.encoder import RowEncoder, RowOptions, tables_for
from bitstep.quantization.encodings import Grid
from bitstep.quantization.labels import quantize_labels
from bitstep.quantization.rows import QuantizedRows
from bitstep.quantization.scaling import Scaler, check_finite, checked_features, fit_scaler

_BLOCKS = 8                 # of an encoder that a thread works on at a time, at most
_ROWS = 1 << 17             # as many rows at most, for whose sums 64 bits have room


def quantize_rows(features: np.ndarray | RowView, *, bits: int, encoding: str = "compensated",
                  bus_width: int = 64, scaler: str | Scaler = "minmax", copies: int = 1,
                  seed: int = 0, fine_rows: bool = False, levels: str = "uniform",
                  progress: Callable[[int], None] | None = None,
                  weights: np.ndarray | None = None) -> QuantizedRows:
    """Scale, encode and pack rows.

    The same arguments give the same bytes on every machine: block i of copy c has a random stream
    of its own, ``PCG64(SeedSequence(seed, spawn_key=(c, i)))``, and a block's size depends on the
    number of features only. Beyond its result it needs a few MB (or one row, if that is more).

    Parameters
    ----------
    features : ndarray of numbers or RowView, shape (n_rows, n_features)
        Finite; read in blocks, so it may be a memory map.
    bits : int
        Stored bits of a value, 1 to 8; at least 2 for the two ``double`` encodings; 32 for
        ``float``.
    encoding : {"nearest", "stochastic", "compensated", "double-symmetric", "double", "float"}
        See docs/number-formats.md.
    bus_width : {64, 128, 256, 512}
        Bits of a beat.
    scaler : {"quantile", "minmax", "maxabs"} or Scaler
        How columns are taken to [-1, 1]; values beyond, by a given scaler, count as the nearer end.
    copies : int
        Independently drawn copies of the rows, 1 to 255. ``nearest`` and ``float`` draw nothing,
        so their copies share one array.
    seed : int
        At least 0.
    fine_rows : bool
        True to keep fine rows, too (16 bits a value), so that a pipeline can fetch them again; for
        encodings ``nearest`` and ``stochastic``.
    levels : {"uniform", "optimal"}
        ``optimal``: each column has a table of its own levels, those of least variance for these
        rows. For encodings ``nearest``, ``stochastic`` and ``compensated`` up to 5 bits.
    progress : callable, optional
        Called after each block of rows with the number of rows done.
    weights : ndarray of uint16, shape (n_rows,), or None
        Weights of the rows (:func:`bitstep.quantization.weights.stored_weights`), which go along
        with them; they do not change a code.

    Returns
    -------
    QuantizedRows

    Raises
    ------
    DataError
        If features cannot be used; the message names row and column.
    ValueError
        If another argument is out of range.
    """
    kind = scaler.kind if isinstance(scaler, Scaler) else scaler
    options = RowOptions(bits=bits, encoding=encoding, bus_width=bus_width, scaler=kind,
                         copies=copies, seed=seed, fine_rows=fine_rows, levels=levels)
    options.config((features := checked_features(features)).shape[1])
    check_weights(weights, len(features))
    return _encoded(features, options, _scaler(features, scaler), progress, weights)


def quantize_bit_planes(features: np.ndarray | RowView, *, bus_width: int = 64,
               scaler: str | Scaler = "minmax", seed: int = 0,
               progress: Callable[[int], None] | None = None,
               weights: np.ndarray | None = None) -> BitPlaneRows:
    """Scale rows and store their bit planes: one copy, from which every precision of 1 to 16 bits
    is read.

    Parameters
    ----------
    features, bus_width, scaler, progress, weights
        See :func:`quantize_rows`.
    seed : int
        Seed of the dither of updates; the bytes do not depend on it.

    Raises
    ------
    DataError
        If features cannot be used; the message names row and column.
    ValueError
        If another argument is out of range.
    """
    kind = scaler.kind if isinstance(scaler, Scaler) else scaler
    options = BitPlaneOptions(bus_width=bus_width, scaler=kind, seed=seed)
    options.config((features := checked_features(features)).shape[1])
    check_weights(weights, len(features))
    layout = BitPlaneLayout(features.shape[1])
    encoder = BitPlaneEncoder(options, _scaler(features, scaler), len(features), weights)
    (kind, shape), = encoder.shapes().values()
    stored = np.empty(shape, kind)
    for done in _packed(features, encoder, stored, layout.block_rows):
        if progress is not None:
            progress(done)
    return BitPlaneRows(n_rows=len(features), n_features=encoder.n_features,
                        bus_width=encoder.bus_width, stored=(stored,),
                        scaler=encoder.scaler, excess=encoder.excess, seed=encoder.seed,
                        moments=encoder.moments, shifts=encoder.shifts, weights=weights,
                        level_sums=encoder.level_sums)


def _packed(features: Any, encoder: BitPlaneEncoder, stored: np.ndarray,
            per_block: int) -> Iterator[int]:
    """Store pieces of rows, which threads work on; yields the number of rows that are done."""
    size = encoder.block_rows * max(1, min(_BLOCKS, _ROWS // encoder.block_rows))

    def work(start: int) -> np.ndarray:
        piece = _finite(features, start, start + size)
        weights = None if encoder.weights is None else encoder.weights[start:start + size]
        blocks, sums = encoder.packed(encoder.positions(piece), weights)
        stored[start // per_block:][:len(blocks)] = blocks
        return sums

    starts = range(0, len(features), size)
    for start, sums in zip(starts, in_threads(work, starts), strict=True):
        encoder.count(sums)
        yield min(start + size, len(features))


def _finite(features: Any, start: int, stop: int) -> np.ndarray:
    """Some rows, which are finite."""
    piece = features[start:stop]
    kind = np.float32 if piece.dtype == np.float32 else np.float64
    with np.errstate(over="ignore", invalid="ignore"):
        whole = np.isfinite(np.sum(piece, dtype=kind))
    if not whole and not np.isfinite(piece).all():          # large values overflow a sum, too
        check_finite(features)
    return piece


def _encoded(features: Any, options: RowOptions, scaler: Scaler,
             progress: Callable[[int], None] | None,
             weights: np.ndarray | None) -> QuantizedRows:
    tables = tables_for(options, scaler, (_finite(features, start, stop) for _, start, stop
                                          in row_blocks(*features.shape)))
    encoder = RowEncoder(options, scaler, len(features), tables, weights)
    arrays = {name: np.empty(shape, kind) for name, (kind, shape) in encoder.shapes().items()}
    for _, start, stop in row_blocks(*features.shape):
        for name, part in encoder.encode(
                encoder.positions(_finite(features, start, stop))).items():
            arrays[name][start:stop] = part
        if progress is not None:
            progress(stop)
    return QuantizedRows(
        bits=encoder.bits, encoding=encoder.encoding, bus_width=encoder.bus_width,
        n_features=encoder.n_features, seed=encoder.seed,
        stored=tuple(arrays[name] for name in encoder.array_names), scaler=encoder.scaler,
        fine_rows=arrays.get("fine_rows"), variance=encoder.variance,
        codebooks=encoder.codebooks, weights=weights)


def _scaler(features: Any, scaler: str | Scaler) -> Scaler:
    """Scaler of the features: fitted to them, or the given one."""
    if not isinstance(scaler, Scaler):
        return fit_scaler(features, scaler)
    if scaler.centre.shape != features.shape[1:]:
        raise ValueError(f"scaler must be for {features.shape[1]} features, as the rows have, not "
                         f"for {len(scaler.centre)}")
    return scaler


def quantize(features: np.ndarray, labels: np.ndarray, *, bits: int,
             encoding: str = "compensated", task: str = "regression",
             label_bits: int | None = None, center_labels: bool = True,
             **options: Any) -> QuantizedDataset:
    """Scale, encode and pack a data set.

    Parameters
    ----------
    features, bits, encoding
        See :func:`quantize_rows`.
    labels : array of numbers, shape (n_rows,)
        Finite; 2 to 256 distinct ones for a classification.
    task : {"regression", "classification"}
        Kind of the labels.
    label_bits : {16, 32} or None
        Stored bits of a regression's label; None: 16, or 32 for encoding ``float``.
    center_labels : bool
        True to count a regression's labels from the centre of their range (else from 0).
    options
        Others of :func:`quantize_rows`: ``bus_width``, ``scaler``, ``copies``, ``seed``,
        ``fine_rows``, ``levels``, ``progress``.

    Returns
    -------
    QuantizedDataset

    Raises
    ------
    DataError
        If features or labels cannot be used; the message names row and column.
    ValueError
        If another argument is out of range.
    """
    Grid(encoding, bits)
    features = checked_features(features)
    # First, since rows may take minutes.
    stream = quantize_labels(
        labels, len(features), task=task, center_labels=center_labels,
        label_bits=encoding_of(encoding).label_bits if label_bits is None else label_bits)
    return QuantizedDataset(quantize_rows(features, bits=bits, encoding=encoding, **options),
                            stream)
