"""Rows, labels and models as the bytes of docs/memory-layout.md."""

from collections.abc import Sequence

import numpy as np

from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.parts.formats import FLOAT_BITS
from bitstep.pipeline.parts.widths import BUS_WIDTHS, ceil_div
from bitstep.pipeline.registers import PAGE_BYTES, LabelFormat
from bitstep.pipeline.shapes import LABEL_BITS, label_bytes, row_label_bits


def pack_codes(codes: np.ndarray, bits: int, bus_width: int) -> np.ndarray:
    """Rows of beats; the inverse of :func:`bitstep.pipeline.levels.unpack_codes`.

    Parameters
    ----------
    codes : ndarray of uint8, shape (n_rows, n_features)
        Each below ``2 ** bits``.
    bits : int
        Stored bits of a code, 1 to 8.
    bus_width : {64, 128, 256, 512}
        Bits of a beat, which holds ``bus_width // bits`` codes, lowest bits first.

    Returns
    -------
    ndarray of uint8, shape (n_rows, beats * bus_width / 8)

    Raises
    ------
    ValueError
        If the codes are not uint8 in two dimensions, or bits or bus width are out of range.
    """
    if codes.dtype != np.uint8 or codes.ndim != 2 or codes.shape[1] < 1:
        raise ValueError("codes must be uint8 of shape (n_rows, n_features), not "
                         f"{codes.dtype} of shape {codes.shape}")
    if not 1 <= bits <= 8 or bus_width not in BUS_WIDTHS:
        raise ValueError(f"bits must be from 1 to 8 and bus_width one of "
                         f"{', '.join(map(str, BUS_WIDTHS))}, not {bits} and {bus_width}")
    n_rows, n_features = codes.shape
    lanes = bus_width // bits
    beats = ceil_div(n_features, lanes)
    # Eight codes fill exactly ``bits`` bytes, for every number of bits.
    groups = ceil_div(min(lanes, n_features), 8)
    slots = np.zeros((n_rows, beats, groups * 8), np.uint8)
    whole = n_features // lanes
    rest = n_features - whole * lanes
    if whole:
        slots[:, :whole, :lanes] = codes[:, :whole * lanes].reshape(n_rows, whole, lanes)
    if rest:
        slots[:, whole, :rest] = codes[:, whole * lanes:]
    words = slots.view("<u8")
    for width in (8, 16, 32):
        _join_neighbours(words, width, gap=width // 8 * (8 - bits))
    stored = slots.reshape(n_rows, beats, groups, 8)[..., :bits]
    stored = stored.reshape(n_rows, beats, groups * bits)
    used = min(groups * bits, bus_width // 8)
    if used == bus_width // 8:
        return np.ascontiguousarray(stored[..., :used]).reshape(n_rows, -1)
    rows = np.zeros((n_rows, beats, bus_width // 8), np.uint8)
    rows[..., :used] = stored[..., :used]
    return rows.reshape(n_rows, -1)


def pack_floats(values: np.ndarray, bus_width: int) -> np.ndarray:
    """Rows of beats of single-precision numbers, ``bus_width // 32`` in a beat.

    Parameters
    ----------
    values : ndarray of float32, shape (n_rows, n_features)
    bus_width : {64, 128, 256, 512}

    Returns
    -------
    ndarray of uint8, shape (n_rows, beats * bus_width / 8)
        Little-endian, padded with zeros.

    Raises
    ------
    ValueError
        If the values are not float32 in two dimensions, or the bus width is out of range.
    """
    if values.dtype != np.float32 or values.ndim != 2 or values.shape[1] < 1:
        raise ValueError("values must be float32 of shape (n_rows, n_features), not "
                         f"{values.dtype} of shape {values.shape}")
    if bus_width not in BUS_WIDTHS:
        raise ValueError(f"bus_width must be one of {', '.join(map(str, BUS_WIDTHS))}, "
                         f"not {bus_width}")
    lanes = bus_width // FLOAT_BITS
    n_rows, n_features = values.shape
    rows = np.zeros((n_rows, ceil_div(n_features, lanes) * lanes), "<f4")
    rows[:, :n_features] = values
    return rows.view(np.uint8)


def unpack_floats(rows: np.ndarray, n_features: int) -> np.ndarray:
    """Single-precision numbers of stored rows; the inverse of :func:`pack_floats`.

    Parameters
    ----------
    rows : ndarray of uint8, shape (n_rows, beats * bus_width / 8)

    Returns
    -------
    ndarray of float32, shape (n_rows, n_features)
    """
    return np.ascontiguousarray(rows).view("<f4")[:, :n_features].astype(np.float32, copy=False)


def pack_packed(rows: np.ndarray, config: PipelineConfig) -> np.ndarray:
    """Rows without padding between them, from rows of a beat each.

    Parameters
    ----------
    rows : ndarray of uint8, shape (n_rows, beat_bytes)
        Stored codes of at most ``config.max_features`` features.
    config : PipelineConfig
        A pipeline for packed rows.

    Returns
    -------
    ndarray of uint8, shape (ceil(n_rows / config.rows.rows_per_beat), beat_bytes)
        A row's first bit follows the last of the row before; behind the last row, and behind the
        rows of a beat, are zeros.
    """
    per_beat, width = config.rows.rows_per_beat, config.max_features * config.bits
    n_beats = ceil_div(len(rows), per_beat)
    stored = np.zeros((n_beats, config.rows.beat_bytes), np.uint8)
    if width % 8 == 0:
        parts = np.zeros((n_beats * per_beat, width // 8), np.uint8)
        parts[:len(rows)] = rows[:, :width // 8]
        stored[:, :per_beat * width // 8] = parts.reshape(n_beats, -1)
        return stored
    bits = np.zeros((n_beats * per_beat, width), np.uint8)
    bits[:len(rows)] = np.unpackbits(rows, axis=1, count=width, bitorder="little")
    whole = np.packbits(bits.reshape(n_beats, -1), axis=1, bitorder="little")
    stored[:, :whole.shape[1]] = whole
    return stored


def port_stride(n_bytes: int, config: PipelineConfig) -> int:
    """Bytes from a slice of the rows to the next; 0 for rows that come over one port.

    Parameters
    ----------
    n_bytes : int
        Of the rows, with all copies.
    config : PipelineConfig
    """
    if config.row_ports == 1:
        return 0
    return ceil_div(n_bytes // config.row_ports, PAGE_BYTES) * PAGE_BYTES


def place_rows(memory: np.ndarray, copies: Sequence[np.ndarray], config: PipelineConfig,
               stride: int | None = None) -> None:
    """Write rows as a pipeline reads them: slice k has part k of every beat, copy after copy.

    Parameters
    ----------
    memory : ndarray of uint8, shape (n_bytes,)
        Room for the slices.
    copies : sequence of ndarray of uint8
        Whole beats.
    config : PipelineConfig
    stride : int, optional
        Bytes from a slice to the next; None: :func:`port_stride`.
    """
    ports = config.row_ports
    if stride is None:
        stride = port_stride(sum(copy.nbytes for copy in copies), config)
    for port in range(ports):
        start = port * stride
        for copy in copies:
            words = np.ascontiguousarray(copy).reshape(-1).view("<u8")
            end = start + copy.nbytes // ports
            memory[start:end].view("<u8").reshape(-1, config.port_width // 64)[:] = \
                words.reshape(-1, ports, config.port_width // 64)[:, port]
            start = end


def place_packed(of_rows: np.ndarray, config: PipelineConfig, unused: int) -> np.ndarray:
    """Labels or weights of rows in the order in which a pipeline reads them; they stay as they are
    unless rows are packed.

    Parameters
    ----------
    of_rows : ndarray of int64 or uint16, shape (n_rows,) or (n_rows, n_streams)
        Labels side by side of each row, or weights.
    config : PipelineConfig
    unused : int
        Number at places that belong to no row.

    Returns
    -------
    ndarray, dtype of ``of_rows``, shape (beats * config.rows.label_rows, ...)
        Those of each beat begin at a multiple of ``config.rows.label_rows`` rows.
    """
    per_beat, row_shape = config.rows.rows_per_beat, of_rows.shape[1:]
    n_beats = ceil_div(len(of_rows), per_beat)
    whole = np.full((n_beats * per_beat, *row_shape), unused, of_rows.dtype)
    whole[:len(of_rows)] = of_rows
    placed = np.full((n_beats, config.rows.label_rows, *row_shape), unused, of_rows.dtype)
    placed[:, :per_beat] = whole.reshape(n_beats, per_beat, *row_shape)
    return placed.reshape(-1, *row_shape)


def _join_neighbours(words: np.ndarray, width: int, gap: int) -> None:
    """Close the gap between each even and the odd field above it, both ``width`` bits wide."""
    if gap == 0:
        return
    mask = np.uint64(sum((1 << width) - 1 << at for at in range(0, 64, 2 * width)))
    even = words & mask
    words ^= even
    words >>= np.uint64(gap)
    words |= even


def pack_labels(labels: np.ndarray, label_format: LabelFormat) -> np.ndarray:
    """Label stream; the inverse of :func:`bitstep.pipeline.levels.unpack_labels`.

    Parameters
    ----------
    labels : ndarray of int, shape (n_rows,)
        +1 and -1 for ``SIGN``; integers that fit for ``INT16`` and ``INT32``.
    label_format : LabelFormat

    Returns
    -------
    ndarray of uint8
        Whole 8-byte words, padded with zeros.

    Raises
    ------
    ValueError
        If a label does not fit the format.
    """
    stored = np.zeros(label_bytes(len(labels), label_format), np.uint8)
    if label_format == LabelFormat.SIGN:
        if not (np.abs(labels) == 1).all():
            raise ValueError("labels must be +1 or -1 for the 1-bit format")
        data = np.packbits(labels > 0, bitorder="little")
    else:
        kind = np.dtype("<i2" if label_format == LabelFormat.INT16 else "<i4")
        range_ = np.iinfo(kind)
        if len(labels) and (labels.min() < range_.min or labels.max() > range_.max):
            raise ValueError(f"labels must be from {range_.min} to {range_.max} for format "
                             f"{label_format.name}, not {labels.min()} to {labels.max()}")
        data = labels.astype(kind).view(np.uint8)
    stored[:len(data)] = data
    return stored


def pack_weighted_labels(labels: np.ndarray, weights: np.ndarray,
                         label_format: LabelFormat) -> np.ndarray:
    """Label stream of rows with weights: the labels of a row, then its weight
    (docs/memory-layout.md).

    Parameters
    ----------
    labels : ndarray of int64, shape (n_rows, n_streams)
        Labels side by side of each row; ``n_streams`` is a power of two.
    weights : ndarray of uint16, shape (n_rows,)
    label_format : LabelFormat

    Returns
    -------
    ndarray of uint8
        Whole 8-byte words, padded with zeros.
    """
    n_rows, streams = labels.shape
    size = row_label_bits(label_format, streams, True) // 8
    rows = np.zeros((-(-n_rows * size // 8) * 8 // size, size), np.uint8)
    if label_format == LabelFormat.SIGN:
        found = np.packbits(labels > 0, axis=1, bitorder="little")
    else:
        found = pack_labels(labels.reshape(-1), label_format)[
            :n_rows * streams * LABEL_BITS[label_format] // 8].reshape(n_rows, -1)
    rows[:n_rows, :found.shape[1]] = found
    rows[:n_rows, -2:] = weights.astype("<u2")[:, None].view(np.uint8)
    return rows.reshape(-1)


class ModelLayout:
    """Order of the weights of a model in memory (docs/memory-layout.md).

    Parameters
    ----------
    config : PipelineConfig
        Pipeline that reads and writes the model.
    n_features : int

    Attributes
    ----------
    n_words, n_bytes : int
        Size of a model with its intercept and padding.
    position : ndarray of int, shape (n_features,)
        Number of each feature's word.
    intercept : int
        Number of the intercept's word.
    fine_words : int
        Size of a fine row.
    """

    def __init__(self, config: PipelineConfig, n_features: int):
        self._config = config
        feature = np.arange(n_features)
        self.n_words = config.rows.model_words(n_features)
        self.n_bytes = 4 * self.n_words
        lanes = config.rows.lanes
        self.position = feature // lanes * config.rows.model_lanes + feature % lanes
        self.intercept = self.n_words - 2
        self.fine_words = config.rows.fine_words(n_features)

    def pack(self, model: np.ndarray, intercept: int) -> np.ndarray:
        """Return the bytes of one model."""
        words = np.zeros(self.n_words, "<i4")
        words[self.position] = model
        words[self.intercept] = intercept
        return words.view(np.uint8)

    def pack_fine(self, rows: np.ndarray) -> np.ndarray:
        """Return the bytes of all fine rows."""
        words = np.zeros((len(rows), self.fine_words), "<i2")
        words[:, self.position] = rows
        return words.reshape(-1).view(np.uint8)

    def pack_codebooks(self, tables: np.ndarray) -> np.ndarray:
        """Return the bytes of codebooks: for each beat of a row and each code a level of
        every lane, padded to 64 bits.
        """
        rows, (n_features, n_codes) = self._config.rows, tables.shape
        beats = rows.beats(n_features)
        levels = np.zeros((beats * rows.lanes, n_codes), np.int8)
        levels[:n_features] = tables
        stored = np.zeros((beats, n_codes, 8 * rows.codebook_beat_words // n_codes), np.int8)
        stored[:, :, :rows.lanes] = levels.reshape(beats, rows.lanes, -1).swapaxes(1, 2)
        return stored.reshape(-1).view(np.uint8)

    def unpack(self, words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return models and intercepts from words of shape (n_models, n_words)."""
        return words[:, self.position], words[:, self.intercept]
