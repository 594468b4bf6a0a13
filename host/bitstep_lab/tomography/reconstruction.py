"""Least squares on the rays of a scan by a pipeline's arithmetic, at several stored widths."""

from dataclasses import dataclass

import numpy as np

from bitstep.devices import open_device
from bitstep.pipeline.parts.formats import FLOAT_BITS
from bitstep.pipeline.results import RangeOverflowError
from bitstep.quantization import QuantizedDataset, quantize
from bitstep.training.objective import Objective, Training
from bitstep.training.pipelines import pipeline_of
from bitstep.training.planning import plan
from bitstep.training.schedules import automatic_step, schedule_steps
from bitstep_lab.tomography.projections import Scan

SCHEDULES = ("constant", "inverse")
GRID = (1.0, 2.0, 4.0, 6.0, 8.0)    # of the automatic step of floating-point rows
LIMIT_S = 3600.0                    # for an epoch of the golden model


@dataclass(frozen=True)
class Storage:
    """A way to store the weights of the rays.

    Parameters
    ----------
    bits : int
        1 to 8, or 32 for floating-point rows. 16: no pipeline reads such rows, so that they are
        rounded to the nearest of 65,535 levels and computed with as floating-point rows.
    encoding, levels : str
        See :func:`bitstep.quantization.quantize_rows`.
    """

    bits: int
    encoding: str = "compensated"
    levels: str = "uniform"

    @property
    def name(self) -> str:
        """Name of a table's row."""
        if self.bits >= 16:
            return "32 bits, floating point" if self.bits == FLOAT_BITS else \
                f"{self.bits} bits, rounded to the nearest"
        plural = "s" * (self.bits > 1)
        return f"{self.bits} bit{plural}, `{self.encoding}`, {self.levels} levels"


FLOAT = Storage(FLOAT_BITS, "float")
STORAGES = (FLOAT, Storage(16, "float"), Storage(8), Storage(8, "nearest"),
            Storage(8, "double"), Storage(6),
            *(Storage(bits, levels="optimal") for bits in (5, 4)), Storage(4),
            *(Storage(bits, levels="optimal") for bits in (3, 2, 1)))


@dataclass(frozen=True, eq=False)
class Reconstruction:
    """An image found from rows of few bits.

    Parameters
    ----------
    storage : Storage
    n_bytes : int
        Bytes of the stored rows and of their codebooks.
    picture : ndarray of float64, shape (side, side)
        After the last epoch, or the last one before the model left the range of its words.
    decibels : ndarray of float64, shape (epochs,)
        Peak signal-to-noise ratio within the circle after each epoch.
    misfit : float
        Mean squared difference of the readings to the picture's own.
    overflowed : bool
        True if the model left the range of its words; ``decibels`` is shorter then.
    """

    storage: Storage
    n_bytes: int
    picture: np.ndarray
    decibels: np.ndarray
    misfit: float
    overflowed: bool


def peak_ratio(image: np.ndarray, found: np.ndarray) -> float:
    """Peak signal-to-noise ratio in decibels: 10 log10(peak^2 / mean squared error).

    Parameters
    ----------
    image, found : ndarray of float, of one shape
        The peak is the largest value of ``image``.
    """
    error = float(np.mean((found - image) ** 2))
    return float("inf") if error == 0 else 10 * np.log10(float(image.max()) ** 2 / error)


def stored_rows(scan: Scan, storage: Storage) -> QuantizedDataset:
    """The rays of a scan as stored rows, with their readings as labels.

    Columns are divided by their largest weight, so that 0, the weight of most pixels in a ray, is a
    level of every encoding but that of one bit with uniform levels.
    """
    rays, bits = scan.rays, storage.bits
    if bits == 16:
        top = rays.max(axis=0)
        unit = np.where(top > 0, top, 1.0) / ((1 << 15) - 1)
        rays, bits = np.rint(rays / unit) * unit, FLOAT_BITS
    return quantize(rays, scan.readings, bits=bits, encoding=storage.encoding, scaler="maxabs",
                    levels=storage.levels, label_bits=32, center_labels=False)


def count_bytes(data: QuantizedDataset, storage: Storage) -> int:
    """Bytes of the first copy of the rows; of 16 bits, half of those of floating point."""
    tables = data.rows.codebooks
    return data.rows.stored[0].nbytes * storage.bits // data.bits \
        + (0 if tables is None else tables.nbytes)


def reconstruct(scan: Scan, storage: Storage, *, schedule: str, step: float, epochs: int,
                device: str = "cpu", data: QuantizedDataset | None = None) -> Reconstruction:
    """Train the pixels as the model of a linear regression of the readings.

    Parameters
    ----------
    scan : Scan
    storage : Storage
    schedule : {"constant", "inverse"}
        ``step`` in all epochs, or step / epoch, as in the ZipML paper.
    step : float
        In scaled feature space; positive.
    epochs : int
        At least 1.
    device : str
        ``cpu`` or ``golden``, which give the same pixels.
    data : QuantizedDataset, optional
        What :func:`stored_rows` makes of the scan, if it is there.
    """
    data = stored_rows(scan, storage) if data is None else data
    objective = Objective()
    steps = schedule_steps(schedule, step=step, epochs=epochs)
    config = pipeline_of(data.rows, objective)
    made = plan(data, config, objective, Training(steps=steps, fit_intercept=False))
    with open_device(device, config) as opened:
        try:
            result, overflowed = opened.train(made.job, timeout_s=LIMIT_S), False
        except RangeOverflowError as error:
            result, overflowed = error.result, True
    pixels, _ = data.scaler.unscale_model(made.units.weights(result.models), 0.0)
    last = pixels[-1] if len(pixels) else np.zeros(data.n_features)
    return Reconstruction(
        storage, count_bytes(data, storage), scan.picture(last),
        np.array([peak_ratio(scan.image[scan.inside], one) for one in pixels]),
        float(np.mean((scan.rays @ last - scan.readings) ** 2)), overflowed)


def tuned_step(scan: Scan, *, schedule: str, epochs: int, device: str = "cpu") -> float:
    """The step of :data:`GRID` with which floating-point rows end with the least misfit.

    The image is not looked at. Other storages take this step, too, as in the ZipML paper
    (section 5).

    Raises
    ------
    ValueError
        If every step leads out of the range of the model's weights.
    """
    data = stored_rows(scan, FLOAT)
    steps = automatic_step(data.rows, 1, False) * np.array(GRID)
    found = [reconstruct(scan, FLOAT, schedule=schedule, step=step, epochs=epochs, device=device,
                         data=data) for step in steps]
    misfits = [np.inf if one.overflowed else one.misfit for one in found]
    if not np.isfinite(misfits).any():
        raise ValueError(f"No step of {steps.tolist()} keeps the model within its words; the scan "
                         "must have readings of the size of its rays")
    return float(steps[int(np.argmin(misfits))])
