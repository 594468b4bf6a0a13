"""Projections of an image as a linear system: one row for each ray, one column for each pixel."""

from dataclasses import dataclass

import numpy as np

MAX_WEIGHTS = 1 << 27           # of all rays: 1 GiB as float64, and some copies of it


@dataclass(frozen=True, eq=False)
class Scan:
    """An image and what a scanner measures of it.

    Parameters
    ----------
    image : ndarray of float64, shape (side, side)
        Zero outside of the inscribed circle.
    inside : ndarray of bool, shape (side, side)
        Pixels that are unknown: those of the circle.
    rays : ndarray of float64, shape (angles * side, pixels inside)
        Weight of each pixel in each ray, at least 0; pixels in the order of ``image[inside]``.
    readings : ndarray of float64, shape (angles * side,)
        Measured sums along the rays.
    order : ndarray of int64, shape (angles * side,)
        Places of the rays in the scanner's order: angle by angle.
    """

    image: np.ndarray
    inside: np.ndarray
    rays: np.ndarray
    readings: np.ndarray
    order: np.ndarray

    def picture(self, pixels: np.ndarray) -> np.ndarray:
        """An image of shape (side, side) with the given pixels inside of the circle."""
        full = np.zeros(self.image.shape)
        full[self.inside] = pixels
        return full


def make_scan(image: np.ndarray, n_angles: int, *, readings: np.ndarray | None = None,
              noise: float = 0.0, seed: int = 0) -> Scan:
    """Project an image from equally spaced angles of half a turn.

    Parameters
    ----------
    image : ndarray of float, shape (side, side)
        Pixels outside of the inscribed circle are set to 0; side at least 2.
    n_angles : int
        At least 1.
    readings : ndarray of float64, shape (side, n_angles), optional
        Sums along the rays from elsewhere; default: those of the rays of :func:`ray_weights`.
    noise : float
        Standard deviation of the readings' noise, as a share of the largest reading; at least 0.
    seed : int
        Of the noise, and of the order of the rays.

    Returns
    -------
    Scan
        Its rays are in a random order, in which neighbours have little in common, as SGD wants it.

    Raises
    ------
    ValueError
        If an argument is out of range.
    """
    image = np.array(image, np.float64)
    if image.ndim != 2 or image.shape[0] != image.shape[1] or len(image) < 2:
        raise ValueError(f"image must have shape (side, side), side at least 2, not {image.shape}")
    if not np.isfinite(image).all():
        raise ValueError("image must be finite; remove NaN and infinity")
    if n_angles < 1:
        raise ValueError(f"n_angles must be at least 1, not {n_angles}")
    if len(image) ** 3 * n_angles > MAX_WEIGHTS:
        raise ValueError(f"side**3 * n_angles must be at most {MAX_WEIGHTS:,}, the weights that "
                         f"fit into memory, not {len(image) ** 3 * n_angles:,}; take fewer angles "
                         "or pixels")
    if not 0 <= noise < np.inf:
        raise ValueError(f"noise must be a share of at least 0, not {noise}")
    inside = circle(len(image))
    image[~inside] = 0
    rays = ray_weights(len(image), angles_of(n_angles))[:, inside.ravel()]
    if readings is None:
        measured = rays @ image[inside]
    elif readings.shape == (len(image), n_angles):
        measured = readings.T.ravel()
    else:
        raise ValueError(f"readings must have shape ({len(image)}, {n_angles}), "
                         f"not {readings.shape}")
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(rays))
    measured = measured + noise * np.abs(measured).max() * rng.standard_normal(len(rays))
    return Scan(image, inside, rays[order], measured[order], order)


def circle(side: int) -> np.ndarray:
    """Pixels within ``side // 2`` of the middle pixel, shape (side, side), as scikit-image has it.
    """
    at = np.arange(side) - side // 2
    return at[:, None] ** 2 + at ** 2 <= (side // 2) ** 2


def angles_of(count: int) -> np.ndarray:
    """Equally spaced angles of half a turn in degrees, from 0, shape (count,)."""
    return np.arange(count) * (180 / count)


def ray_weights(side: int, degrees: np.ndarray) -> np.ndarray:
    """Weights of the pixels in the sums along rays.

    For each angle the image is turned around its middle pixel, with linear interpolation between
    pixels and 0 beyond them, and its columns are added up. ``skimage.transform.radon`` computes
    these sums without the matrix.

    Parameters
    ----------
    side : int
    degrees : ndarray of float64, shape (n_angles,)

    Returns
    -------
    ndarray of float64, shape (n_angles * side, side * side)
        The rays of an angle follow one another; pixels are in the order of ``image.ravel()``.
    """
    centre = side // 2
    row, column = np.mgrid[:side, :side] - centre
    weights = np.zeros((len(degrees), side, side * side))
    for number, angle in enumerate(np.deg2rad(degrees)):
        cosine, sine = np.cos(angle), np.sin(angle)
        x = centre + cosine * column + sine * row
        y = centre - sine * column + cosine * row
        left, top = np.floor(x).astype(int), np.floor(y).astype(int)
        for across, down in ((0, 0), (1, 0), (0, 1), (1, 1)):
            share = np.abs(1 - across - (x - left)) * np.abs(1 - down - (y - top))
            at_x, at_y = left + across, top + down
            within = (at_x >= 0) & (at_x < side) & (at_y >= 0) & (at_y < side)
            np.add.at(weights[number], (column[within] + centre, (at_y * side + at_x)[within]),
                      share[within])
    return weights.reshape(-1, side * side)
