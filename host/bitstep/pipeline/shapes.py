"""Shapes of the arrays that a pipeline reads, and the checks of them."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from bitstep.pipeline.bit_planes import PLANES
from bitstep.pipeline.parts.exclusions import reason_of
from bitstep.pipeline.parts.formats import RowFormat
from bitstep.pipeline.parts.widths import FEW_BITS, MODEL_WIDTH
from bitstep.pipeline.registers import LabelFormat

MAX_COPIES = 255            # of the rows, which the epochs read in turn
LABEL_BITS = {LabelFormat.SIGN: 1, LabelFormat.INT16: 16, LabelFormat.INT32: 32}
WEIGHT_BITS = 16            # of a row's weight, beside its labels


def label_bytes(n_rows: int, label_format: LabelFormat) -> int:
    """Bytes of a stored label stream: whole 64-bit words."""
    return -(-n_rows * LABEL_BITS[label_format] // 64) * 8


def row_label_bits(label_format: LabelFormat, streams: int, weighted: bool) -> int:
    """Bits that a row's labels take in memory, with its weight in the highest ones: a power of two.

    Parameters
    ----------
    label_format : LabelFormat
    streams : int
        Labels of a row, a power of two; of format SIGN with weights at most 16.
    weighted : bool
    """
    bits = LABEL_BITS[label_format] * streams
    return max(2 * bits, 2 * WEIGHT_BITS) if weighted else bits


def check_rows(copies: Sequence[np.ndarray], rows: RowFormat, n_features: int) -> None:
    """Raise ValueError unless copies of stored rows are what a pipeline reads.

    Parameters
    ----------
    copies : sequence of ndarray
        Should be uint8 of shape (n_rows, beats * beat_bytes), the same for all; bit-plane rows of
        shape (blocks, block_bytes).
    """
    if not 1 <= len(copies) <= MAX_COPIES or copies[0].ndim != 2 or len(copies[0]) < 1:
        raise ValueError(f"rows must be 1 to {MAX_COPIES} arrays of at least one row")
    for copy in copies:
        _check("rows", copy, np.uint8, (len(copies[0]), rows.block_bytes(n_features)))


def check_labels(stored: np.ndarray, label_format: LabelFormat, n_rows: int) -> None:
    """Raise ValueError unless a stored label stream has a label for each row, and no more."""
    _check("labels", stored, np.uint8, (label_bytes(n_rows, label_format),))


def check_weights(weights: np.ndarray | None, n_rows: int) -> None:
    """Raise ValueError unless there are no weights, or a number of 16 bits for each row."""
    if weights is not None:
        _check("weights", weights, np.uint16, (n_rows,))


def check_fine_rows(fine_rows: np.ndarray | None, n_rows: int, n_features: int) -> None:
    """Raise ValueError unless fine rows have the shape of the rows, 16 bits a value."""
    if fine_rows is None:
        raise ValueError("fine_rows must hold the rows with 16 bits a value, not nothing")
    _check("fine_rows", fine_rows, np.int16, (n_rows, n_features))


def check_proximal(job: Any) -> None:
    """Raise ValueError unless the fields of a training job for proximal steps are right."""
    if not 0 <= job.proximal_period < 1 << 32 or job.proximal_period % job.batch:
        raise ValueError(f"proximal_period must be a multiple of the batch ({job.batch}) "
                         f"below 2**32, not {job.proximal_period}")
    limit = (1 << MODEL_WIDTH - 1) - 1
    if not 0 <= job.box_limit <= limit:
        raise ValueError(f"box_limit must be from 0 to {limit}, not {job.box_limit}")


def check_few_bits(job: Any) -> None:
    """Raise ValueError unless a training job's ``model_bits`` and ``update_bits`` are right."""
    for name in ("model_bits", "update_bits"):
        check_bits(name, getattr(job, name))
    largest = job.config.model_bits
    if largest and not FEW_BITS[0] <= job.model_bits <= largest:
        raise ValueError(f"The dot products of this pipeline meet a model of at most {largest} "
                         f"bits, so model_bits must be from {FEW_BITS[0]} to {largest}, not "
                         f"{job.model_bits}; build one with model_bits={job.model_bits}")
    if not job.few_bits:
        return
    for trait, has_it, said in (
            ("no whole codes", job.config.rows.floating or job.config.rows.centred,
             f"row format {job.config.row_format!r}"),
            ("refetching", job.cell_half_levels, f"cell_half_levels {job.cell_half_levels}")):
        if has_it:
            raise ValueError(f"model_bits and update_bits do not go together with {said}: "
                             f"{reason_of('few bits', trait)}; leave them out")


def check_bits(name: str, bits: int) -> None:
    """Raise ValueError unless a number of bits is one that a model or updates can have."""
    if not isinstance(bits, (int, np.integer)) or isinstance(bits, bool) or not (
            bits == 0 or FEW_BITS[0] <= bits <= FEW_BITS[1]):
        raise ValueError(f"{name} must be an integer from {FEW_BITS[0]} to {FEW_BITS[1]}, or 0 "
                         f"for all bits, not {bits!r}")


def check_codebooks(tables: np.ndarray | None, rows: RowFormat, n_features: int) -> None:
    """Raise ValueError unless codebooks are what a pipeline reads, or neither is there."""
    if rows.front_end != "tables":
        if tables is not None:
            raise ValueError("This pipeline has no codebooks; build one with "
                             "codebooks=True")
        return
    if tables is None:
        raise ValueError("codebooks must hold the levels of every feature's codes, not nothing")
    _check("codebooks", tables, np.int8, (n_features, 1 << rows.bits))
    if tables.min() < -rows.level_limit:
        raise ValueError(f"codebooks must be from {-rows.level_limit} to "
                         f"{rows.level_limit}, not {tables.min()}")


def check_bit_planes(job: Any, least_label_shift: int) -> None:
    """Raise ValueError unless the fields of a training job that only bit-plane rows have are right.

    Parameters
    ----------
    job : bitstep.pipeline.job.TrainingJob
        Its rows have the shape of its configuration.
    least_label_shift : int
        Least ``label_shift`` of its labels, with all planes.
    """
    bit_planes = job.config.rows.planes > 0
    if any(bit_planes != (steps.planes > 0) for steps in job.epochs):
        raise ValueError("planes of every epoch must be from 1 to 16 for bit-plane rows, and 0 for "
                         f"others, not {[steps.planes for steps in job.epochs]}")
    if not bit_planes:
        if job.bit_plane_rows or job.constants is not None or job.constant_intercept:
            raise ValueError("bit_plane_rows, constants and constant_intercept need a pipeline of "
                             f"row format 'bit_planes', not {job.config.row_format!r}")
        return
    most = job.stored_rows
    if not 1 <= job.bit_plane_rows <= most:
        raise ValueError(f"bit_plane_rows must be from 1 to {most}, the rows of "
                         f"{len(job.rows[0])} blocks, not {job.bit_plane_rows}")
    left = PLANES - min(steps.planes for steps in job.epochs)
    least = left + least_label_shift
    if job.label_shift < least or job.intercept_level % (1 << left):
        raise ValueError(f"label_shift must be at least {least}, and intercept_level a multiple of "
                         f"{1 << left}, for the least planes of an epoch, not {job.label_shift} "
                         f"and {job.intercept_level}; store labels with fewer bits")
    if (job.constants is not None or job.constant_intercept) and not job.correction_period:
        raise ValueError("constants need a correction_period, and there is none")
    if job.constants is not None:
        check_words("constants", job.constants, job.n_features, MODEL_WIDTH)
    limit = 1 << MODEL_WIDTH - 1
    if not -limit <= job.constant_intercept < limit:
        raise ValueError(f"constant_intercept must fit {MODEL_WIDTH} bits, "
                         f"not {job.constant_intercept}")


def check_words(name: str, words: np.ndarray, n_features: int, width: int) -> None:
    """Raise ValueError unless there is a signed number of ``width`` bits for each feature."""
    if words.shape != (n_features,):
        raise ValueError(f"{name} must have shape ({n_features},), not {words.shape}")
    if words.dtype == np.int32 and width >= 32:
        return
    limit = 1 << width - 1
    if len(words) and (np.minimum.reduce(words) < -limit or np.maximum.reduce(words) >= limit):
        raise ValueError(f"{name} must fit {width} bits, signed")


def _check(name, array, dtype, shape):
    if array.shape != shape or array.dtype != dtype:
        raise ValueError(f"{name} must be {np.dtype(dtype)} of shape {shape}, not {array.dtype} of "
                         f"shape {array.shape}")
