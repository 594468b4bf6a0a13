"""The phantom of Shepp and Logan and its projections, by scikit-image."""

import numpy as np

from bitstep_lab.tomography.projections import Scan, angles_of, circle, make_scan

TOLERANCE = 1e-9            # of the largest reading, between scikit-image's projector and the rays


class MissingImages(ImportError):
    """scikit-image is not installed."""


def phantom_scan(side: int, n_angles: int, *, noise: float = 0.0, seed: int = 0) -> Scan:
    """Scan of scikit-image's phantom, whose readings are by scikit-image's projector.

    Parameters
    ----------
    side : int
        Pixels on each side, 8 to 400, to which the phantom is made smaller.
    n_angles, noise, seed
        See :func:`bitstep_lab.tomography.projections.make_scan`.

    Returns
    -------
    Scan

    Raises
    ------
    MissingImages
        If scikit-image is not installed.
    RuntimeError
        If its projector computes other sums than the rays; then the comparison would be of two
        projectors.
    """
    data, transform = _scikit_image()
    image = transform.resize(data.shepp_logan_phantom(), (side, side), anti_aliasing=True)
    image = np.where(circle(side), np.asarray(image, np.float64), 0.0)
    readings = transform.radon(image, angles_of(n_angles))
    scan = make_scan(image, n_angles, readings=readings, noise=noise, seed=seed)
    if not noise:
        check_readings(scan)
    return scan


def check_readings(scan: Scan) -> None:
    """Raise RuntimeError unless the readings are the sums along the rays."""
    apart = np.abs(scan.rays @ scan.image[scan.inside] - scan.readings).max()
    if apart > TOLERANCE * np.abs(scan.readings).max():
        raise RuntimeError("The sums of skimage.transform.radon must be those of the rays, and "
                           f"differ by {apart:.3g}; take scikit-image 0.22 to 0.26")


def filtered_back_projection(scan: Scan, n_angles: int) -> np.ndarray:
    """The image by scikit-image's direct method, for comparison, shape (side, side)."""
    _, transform = _scikit_image()
    side = len(scan.image)
    readings = np.empty(scan.readings.shape)
    readings[scan.order] = scan.readings
    found = transform.iradon(readings.reshape(n_angles, side).T, angles_of(n_angles))
    return np.where(scan.inside, found, 0.0)


def _scikit_image():
    try:
        from skimage import data, transform  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise MissingImages(f"The phantom needs scikit-image ({error}): "
                            'pip install "bitstep[images]"') from error
    return data, transform
