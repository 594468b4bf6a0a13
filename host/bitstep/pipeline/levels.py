"""Codes and labels, from stored bytes to integers."""

import numpy as np

from bitstep.pipeline.parts.formats import RowFormat
from bitstep.pipeline.registers import LabelFormat


def unpack_codes(stored: np.ndarray, rows: RowFormat, n_features: int) -> np.ndarray:
    """Codes of stored rows.

    Parameters
    ----------
    stored : ndarray of uint8, shape (n_rows, beats * beat_bytes)
        Each row starts on a beat; a beat holds ``lanes`` codes, lowest bits first.
    rows : RowFormat
        Their format.

    Returns
    -------
    ndarray of uint8, shape (n_rows, n_features)
    """
    lanes, beats = rows.lanes, rows.beats(n_features)
    bits = np.unpackbits(stored, axis=1, bitorder="little").reshape(-1, beats, rows.bus_width)
    bits = bits[:, :, :lanes * rows.bits].reshape(-1, beats, lanes, rows.bits)
    codes = np.zeros(bits.shape[:3], np.uint8)
    for position in range(rows.bits):
        codes |= bits[..., position] << position
    return codes.reshape(-1, beats * lanes)[:, :n_features]


def _signed(codes: np.ndarray, width: int) -> np.ndarray:
    values = codes.astype(np.int64)
    return values - ((values >> (width - 1)) << width)


def decode(codes: np.ndarray, *, bits: int, row_format: str) -> tuple[np.ndarray, np.ndarray]:
    """Levels that codes stand for.

    Parameters
    ----------
    codes : ndarray of uint8, any shape
        Stored codes of ``bits`` bits.

    Returns
    -------
    dot, gradient : ndarray of int64, same shape
        The level used in the dot product and the one used in the gradient, each at most
        :func:`bitstep.pipeline.parts.formats.level_limit` in magnitude. They are equal for row
        format ``one_level``.
    """
    if row_format == "one_level":
        level = 2 * codes.astype(np.int64) - 1 if bits == 1 else _signed(codes, bits)
        return level, level
    ups = [(codes.astype(np.int64) >> sample) & 1 for sample in (0, 1)]
    if bits == 2:
        return 2 * ups[0] - 1, 2 * ups[1] - 1
    interval = _signed(codes >> 2, bits - 2)
    return interval + ups[0], interval + ups[1]


def look_up(codes: np.ndarray, tables: np.ndarray) -> np.ndarray:
    """Levels of codes whose features have tables.

    Parameters
    ----------
    codes : ndarray of uint8, shape (n_rows, n_features)
    tables : ndarray of int8, shape (n_features, 2 ** bits)

    Returns
    -------
    ndarray of int64, shape (n_rows, n_features)
    """
    return tables[np.arange(len(tables)), codes].astype(np.int64)


def unpack_labels(labels: np.ndarray, label_format: LabelFormat, n_rows: int) -> np.ndarray:
    """Stored labels as integers: +1 and -1 for signs.

    Parameters
    ----------
    labels : ndarray of uint8
        The stored label stream, lowest bits first.

    Returns
    -------
    ndarray of int64, shape (n_rows,)
    """
    if label_format == LabelFormat.SIGN:
        part = labels[:-(-n_rows // 8)]     # of all others the bits would be unpacked, too
        signs = np.unpackbits(part, bitorder="little")[:n_rows].astype(np.int64)
        signs <<= 1
        signs -= 1
        return signs
    dtype = "<i2" if label_format == LabelFormat.INT16 else "<i4"
    return labels.view(dtype)[:n_rows].astype(np.int64)
