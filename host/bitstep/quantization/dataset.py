"""Quantized data sets: stored rows with stored labels."""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from bitstep.pipeline.registers import LabelFormat
from bitstep.pipeline.shapes import check_labels
from bitstep.quantization.bit_planes import BitPlaneRows
from bitstep.quantization.labels import LabelStream, middle_and_spread
from bitstep.quantization.rows import QuantizedRows
from bitstep.quantization.scaling import Scaler


@dataclass(frozen=True, eq=False)
class QuantizedDataset:
    """Quantized rows with one stream of labels.

    Several data sets may share their rows: one for each class of a one-vs-rest classification
    (:func:`bitstep.training.train.class_outputs`).

    Parameters
    ----------
    rows : QuantizedRows or BitPlaneRows
    labels : LabelStream
        One label for each row.
    feature_names : tuple of str or None
        Names of the columns, if they have some.

    Raises
    ------
    ValueError
        If there are more or fewer labels than rows.
    """

    rows: QuantizedRows | BitPlaneRows
    labels: LabelStream
    feature_names: tuple[str, ...] | None = field(default=None, kw_only=True)

    def __post_init__(self):
        check_labels(self.labels.stored, self.labels.label_format, self.n_rows)

    @property
    def bits(self) -> int:
        """Stored bits of a value."""
        return self.rows.bits

    @property
    def encoding(self) -> str:
        """A key of :data:`bitstep.quantization.ENCODINGS`, or ``bit_planes``."""
        return self.rows.encoding

    @property
    def row_format(self) -> str:
        """See :attr:`bitstep.quantization.rows.QuantizedRows.row_format`."""
        return self.rows.row_format

    @property
    def bus_width(self) -> int:
        """Bits of a beat."""
        return self.rows.bus_width

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.rows.n_rows

    @property
    def n_features(self) -> int:
        """Features of a row."""
        return self.rows.n_features

    @property
    def level_limit(self) -> int:
        """See :attr:`bitstep.quantization.rows.QuantizedRows.level_limit`."""
        return self.rows.level_limit

    @property
    def scaler(self) -> Scaler:
        """Features to u in [-1, 1]."""
        return self.rows.scaler

    @property
    def variance(self) -> np.ndarray:
        """Mean quantization variance of every column, in units of u squared."""
        return self.rows.variance

    @property
    def fine_rows(self) -> np.ndarray | None:
        """Rows with 16 bits a value, or None."""
        return self.rows.fine_rows

    @property
    def label_format(self) -> LabelFormat:
        """Format of a stored label."""
        return self.labels.label_format

    @property
    def label_scale(self) -> float:
        """Value of a stored label's last bit."""
        return self.labels.scale

    @property
    def label_offset(self) -> float:
        """Value of a stored label of 0."""
        return self.labels.offset

    @property
    def classes(self) -> np.ndarray | None:
        """See :class:`bitstep.quantization.labels.LabelStream`."""
        return self.labels.classes

    @property
    def task(self) -> str:
        """``regression`` or ``classification``."""
        return self.labels.task

    @property
    def label_spread(self) -> float:
        """Spread of the labels of a regression, in units of a stored label
        (:func:`bitstep.quantization.labels.middle_and_spread`); 1 where all are alike.
        """
        return self._middle_and_spread[1] or 1.0

    @property
    def label_median(self) -> float:
        """Median of the labels of a regression."""
        return self.label_offset + self.label_scale * self._middle_and_spread[0]

    @property
    def labels_alike(self) -> bool:
        """True if half of a regression's stored labels and more are one integer."""
        middle = self._middle_and_spread[0]
        alike = sum(int(np.count_nonzero(np.abs(part - middle) < 0.5))
                    for part in self.labels.blocks(self.n_rows))
        return 2 * alike >= self.n_rows

    @cached_property
    def _middle_and_spread(self):
        return middle_and_spread(self.labels.blocks(self.n_rows), self.n_rows)

    def stored_labels(self) -> np.ndarray:
        """Stored labels L as integers, shape (n_rows,); +1 and -1 for two classes."""
        return self.labels.integers(self.n_rows)

    def label_values(self, start: int = 0, stop: int | None = None) -> np.ndarray:
        """Labels of the rows from ``start`` to ``stop``: the elements of ``classes``, or, of a
        regression, the values that the stored integers stand for.

        Returns
        -------
        ndarray of float64, shape (stop - start,)
        """
        stored = self.labels.part(start, self.n_rows if stop is None else stop)
        if self.classes is None:
            return self.label_offset + self.label_scale * stored
        return self.classes[stored if len(self.classes) > 2 else (stored > 0).astype(np.int64)]
