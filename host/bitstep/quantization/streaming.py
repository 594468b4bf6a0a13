"""Quantizing of a table in two passes, whose rows may be larger than memory.

The first pass is :meth:`bitstep.data.tables.table.Table.survey`: labels, and ranges of the columns.
Optimal levels take a pass of their own after it. The second pass turns values into positions on
the grid, from which codes are drawn. Codes are drawn block after block in the order of the stored
rows, which a shuffle makes another one than that of the file. So positions wait in parts of the
stored rows: in memory where they fit, else in a temporary file, a part of which fits.
"""

import json
import math
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bitstep.data.blocks import block_rows
from bitstep.data.dataset import DataError, split_rows
from bitstep.data.tables.table import Survey, Table
from bitstep.pipeline.parts.widths import MAX_FEATURES
from bitstep.quantization.archive import (
    ArchiveWriter,
    Arrays,
    archive_bytes,
    check_space,
    open_archive,
    write_at,
)
from bitstep.quantization.bit_planes import PLANES, BitPlaneEncoder, BitPlaneOptions
from bitstep.quantization.encoder import RowEncoder, RowOptions, tables_for
from bitstep.quantization.labels import LabelStream
from bitstep.quantization.scaling import Columns, Scaler, scaler_of_columns
from bitstep.quantization.storage import finish_archive

PART_BYTES = 1 << 27        # of positions that are in memory at a time
_HEADER_BYTES = 1 << 16     # more than a header has
_PIECE_BYTES = 1 << 22      # of the temporary file that are read at a time

Encoder = RowEncoder | BitPlaneEncoder
Progress = Callable[[int], None]


class Chosen(NamedTuple):
    """Rows of a table that become stored rows.

    Attributes
    ----------
    order : ndarray of int, or None
        Number of each row in the file, in the order of the stored rows; None: they are the first
        ``count`` rows of the file.
    count : int
    n_rows : int
        Rows of the table.
    """

    order: np.ndarray | None
    count: int
    n_rows: int

    def numbers(self) -> np.ndarray | None:
        """Numbers of the rows in increasing order; None if they are all rows of the table."""
        if self.count == self.n_rows:
            return None
        return np.arange(self.count) if self.order is None else np.sort(self.order)

    def labels(self, survey: Survey) -> np.ndarray:
        """Labels of the rows, in their order."""
        return survey.labels[:self.count] if self.order is None else survey.labels[self.order]


class QuantizedFile(NamedTuple):
    """Facts of a file that was written; ``row_bytes`` are those of a copy's stored rows."""

    n_rows: int
    n_features: int
    bits: int
    copies: int
    encoding: str
    row_bytes: int


def choose_rows(name: str, n_rows: int, train_rows: int | None, shuffle: bool,
                seed: int) -> Chosen:
    """Choose the rows of a table that :func:`bitstep.data.split` trains on.

    Parameters
    ----------
    name : str
        Table, for the message.
    n_rows : int
        Its rows.
    train_rows, shuffle, seed
        See :func:`bitstep.data.split`.

    Raises
    ------
    DataError
        If the table has fewer rows.
    """
    rows, _ = split_rows(name, n_rows, train_rows, shuffle, seed)
    if isinstance(rows, slice):
        return Chosen(None, rows.stop, n_rows)
    return Chosen(rows, len(rows), n_rows)


def write_quantized(table: Table, survey: Survey, chosen: Chosen, labels: LabelStream,
                    options: RowOptions | BitPlaneOptions, path: Path,
                    progress: Progress | None = None,
                    on_waste: Callable[[str], None] | None = None) -> QuantizedFile:
    """Quantize rows of a table into a file: the second pass.

    The file is what :func:`bitstep.quantization.save_quantized` writes of the same rows, bit for
    bit. In memory are :data:`PART_BYTES` of positions, some pieces of rows, and, if the rows are in
    another order than in the file, 10 bytes for each.

    Parameters
    ----------
    table : Table
    survey : Survey
        Of the chosen rows.
    chosen : Chosen
    labels : LabelStream
        Of the chosen rows, in their order.
    options : RowOptions or BitPlaneOptions
    path : Path
        A file there is replaced when the new one is complete.
    progress : callable, optional
        Called with the number of rows that are written.
    on_waste : callable, optional
        See :func:`bitstep.quantization.scaling.fit_scaler`.

    Raises
    ------
    DataError
        If rows cannot be used, or the file is not that of the first pass.
    OSError
        If the file cannot be written; before any row is, if its folder has no room for it.
    """
    if len(survey.low) > MAX_FEATURES:
        raise DataError(f"features must have at least one row and 1 to {MAX_FEATURES} columns, "
                        f"not shape ({chosen.count}, {len(survey.low)})")
    scaler = scaler_of_columns(Columns(*survey[1:]), options.scaler, on_waste)
    encoder = _encoder(table, chosen, options, scaler)
    arrays = encoder.shapes()
    waiting = 0
    if chosen.order is not None and _part_rows(encoder) < chosen.count:
        waiting = chosen.count * encoder.n_features * encoder.position_type.itemsize
    needed = _size(arrays, labels, encoder, table.feature_names) + waiting
    check_space(path, needed, "for the file" if not waiting else
                f"{needed - waiting:,} for the file, {waiting:,} for rows that wait for their "
                "turn, because shuffling reorders them")
    with open_archive(path, arrays) as archive:
        if chosen.order is None:
            blocks = _blocks(_in_order(table, chosen, encoder), encoder)
        elif waiting:
            blocks = _shuffled_on_disk(table, chosen, encoder, path)
        else:
            blocks = _shuffled_in_memory(table, chosen, encoder)
        _encode(archive, encoder, blocks, progress)
        finish_archive(archive, encoder, labels, encoder.array_names, table.feature_names)
    return QuantizedFile(chosen.count, encoder.n_features, encoder.bits, options.copies,
                         encoder.encoding,
                  math.prod(arrays["rows_0"][1]))


def _encoder(table: Table, chosen: Chosen, options: RowOptions | BitPlaneOptions,
             scaler: Scaler) -> Encoder:
    if isinstance(options, BitPlaneOptions):
        return BitPlaneEncoder(options, scaler, chosen.count)
    return RowEncoder(options, scaler, chosen.count,
                      tables_for(options, scaler, _pieces(table, chosen)))


def _pieces(table: Table, chosen: Chosen) -> Iterator[np.ndarray]:
    """Features of the chosen rows, a block at a time, in the order of the table."""
    for piece in table.pieces(chosen.numbers()):
        size = block_rows(piece.features.shape[1])
        for start in range(0, len(piece.features), size):
            yield piece.features[start:start + size]


def _size(arrays: Arrays, labels: LabelStream, encoder: Encoder,
          names: tuple[str, ...] | None) -> int:
    names_bytes = len(json.dumps(names))
    float64, numbers = np.dtype(np.float64), (encoder.n_features,)
    of_columns = {"variance": numbers}
    if isinstance(encoder, BitPlaneEncoder):
        of_columns = {"excess": (PLANES, *numbers), "moments": (2, *numbers),
                      "shifts": (PLANES, *numbers)}
    if encoder.scaler.clip is not None:
        arrays = {**arrays, "clip": (float64, (2, encoder.n_features))}
    if (tables := encoder.codebooks) is not None:
        arrays = {**arrays, "codebooks": (tables.dtype, tables.shape)}
    return archive_bytes({
        **arrays, "labels": (np.dtype(np.uint8), labels.stored.shape), "centre": (float64, numbers),
        "scale": (float64, numbers), **{name: (float64, of) for name, of in of_columns.items()},
        "header": (np.dtype(np.uint8), (_HEADER_BYTES + names_bytes,))})


def _encode(archive: ArchiveWriter, encoder: Encoder, blocks: Iterator[np.ndarray],
            progress: Progress | None) -> None:
    done = 0
    for positions in blocks:
        for name, part in encoder.encode(positions).items():
            archive.append(name, part)
        done += len(positions)
        if progress is not None:
            progress(done)


def _part_rows(encoder: Encoder) -> int:
    """Rows of a part, whole blocks."""
    block_bytes = encoder.block_rows * encoder.n_features * encoder.position_type.itemsize
    return encoder.block_rows * max(1, PART_BYTES // block_bytes)


def _in_order(table: Table, chosen: Chosen,
              encoder: Encoder) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Numbers of rows and their positions, in the order of the file."""
    for piece in table.pieces(chosen.numbers()):
        for start in range(0, len(piece.rows), encoder.block_rows):
            part = slice(start, start + encoder.block_rows)
            yield piece.rows[part], encoder.positions(piece.features[part])


def _blocks(parts: Iterator[tuple[np.ndarray, np.ndarray]],
            encoder: Encoder) -> Iterator[np.ndarray]:
    """Positions of blocks of rows that come in order, in pieces of other sizes."""
    block = np.empty((encoder.block_rows, encoder.n_features), encoder.position_type)
    filled = 0
    for _, positions in parts:
        while len(positions):
            count = min(len(positions), len(block) - filled)
            block[filled:filled + count] = positions[:count]
            positions, filled = positions[count:], filled + count
            if filled == len(block):
                yield block
                filled = 0
    if filled:
        yield block[:filled]


def _shuffled_in_memory(table: Table, chosen: Chosen, encoder: Encoder) -> Iterator[np.ndarray]:
    assert chosen.order is not None
    target = np.empty(chosen.n_rows, np.int64)
    target[chosen.order] = np.arange(chosen.count)
    found = np.empty((chosen.count, encoder.n_features), encoder.position_type)
    for rows, positions in _in_order(table, chosen, encoder):
        found[target[rows]] = positions
    yield from _cut(found, encoder)


def _shuffled_on_disk(table: Table, chosen: Chosen, encoder: Encoder,
                      path: Path) -> Iterator[np.ndarray]:
    """Blocks of rows in another order than the file's.

    Each part of the stored rows has its place in a temporary file, where its rows are gathered in
    the order of the table; then part after part is read and put in order.
    """
    assert chosen.order is not None
    size, row_bytes = _part_rows(encoder), encoder.n_features * encoder.position_type.itemsize
    starts = np.arange(0, chosen.count, size)
    part_of = np.zeros(chosen.n_rows, np.min_scalar_type(len(starts)))
    for number, start in enumerate(starts):
        part_of[chosen.order[start:start + size]] = number
    with tempfile.TemporaryFile(dir=path.absolute().parent, prefix=f".{path.name}.",
                                buffering=0) as file:
        ends = starts.copy()        # of what each part has so far
        for rows, positions in _in_order(table, chosen, encoder):
            order = np.argsort(part_of[rows], kind="stable")
            sorted_parts = part_of[rows][order]
            edges = np.flatnonzero(np.diff(sorted_parts)) + 1
            for group in np.split(order, edges):
                part = part_of[rows[group[0]]]
                write_at(file, int(ends[part]) * row_bytes, positions[group].data.cast("B"), path)
                ends[part] += len(group)
        del part_of
        for start in starts:
            order = chosen.order[start:start + size]
            yield from _cut(_read_part(file, order, int(start), encoder), encoder)


def _read_part(file, order: np.ndarray, start: int, encoder: Encoder) -> np.ndarray:
    """Positions of a part of the stored rows, in their order."""
    kind, n_features = encoder.position_type, encoder.n_features
    found = np.empty((len(order), n_features), kind)
    targets = np.argsort(order)         # the rows are in the order of the table
    step = max(1, _PIECE_BYTES // (n_features * kind.itemsize))
    file.seek(start * n_features * kind.itemsize)
    for first in range(0, len(order), step):
        rows = targets[first:first + step]
        piece = np.empty((len(rows), n_features), kind)
        view = piece.data.cast("B")
        while len(view):
            done = file.readinto(view)
            assert done, "the temporary file has been written"
            view = view[done:]
        found[rows] = piece
    return found


def _cut(positions: np.ndarray, encoder: Encoder) -> Iterator[np.ndarray]:
    for start in range(0, len(positions), encoder.block_rows):
        yield positions[start:start + encoder.block_rows]
