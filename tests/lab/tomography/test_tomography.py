"""Reconstruction from projections: rays, small scans on the golden model, and the report."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest

from bitstep_lab.tomography import phantom, reconstruction, report
from bitstep_lab.tomography.phantom import MissingImages, filtered_back_projection, phantom_scan
from bitstep_lab.tomography.projections import angles_of, circle, make_scan, ray_weights
from bitstep_lab.tomography.reconstruction import (
    FLOAT,
    STORAGES,
    Reconstruction,
    Storage,
    count_bytes,
    peak_ratio,
    reconstruct,
    stored_rows,
    tuned_step,
)
from bitstep_lab.tomography.report import Comparison, compare, conclusion, rows_of, write_report


def small_scan(**options):
    """A disk with a hole on 8 x 8 pixels, seen from 10 angles."""
    at = np.arange(8) - 4.0
    distance = np.hypot(at[:, None], at)
    return make_scan(np.where(distance < 3, 1.0, 0.0) - 0.6 * (distance < 1.5), 10, **options)


def test_rays_by_hand():
    image = np.arange(9.0).reshape(3, 3)
    rays = ray_weights(3, np.array([0.0, 45.0, 90.0]))
    columns, diagonal, rows = (rays @ image.ravel()).reshape(3, 3)
    assert columns.tolist() == [9, 12, 15]
    assert rows == pytest.approx([21, 12, 3])       # turned by 90 degrees: the lowest row first
    # The middle ray at 45 degrees: the middle pixel, and its neighbours at a distance of 1 on a
    # diagonal, half way between whose pixels (0.7071) linear interpolation takes four.
    near, far = np.sqrt(0.5), 1 - np.sqrt(0.5)
    one = near * near * image[0, 0] + near * far * (image[0, 1] + image[1, 0]) \
        + far * far * image[1, 1]
    other = near * near * image[2, 2] + near * far * (image[2, 1] + image[1, 2]) \
        + far * far * image[1, 1]
    assert diagonal[1] == pytest.approx(one + image[1, 1] + other)


def test_a_scan_is_a_consistent_system_in_another_order():
    scan = small_scan()
    assert scan.rays.shape == (80, circle(8).sum())
    assert scan.readings == pytest.approx(scan.rays @ scan.image[scan.inside])
    assert sorted(scan.order) == list(range(80))
    assert (scan.picture(scan.image[scan.inside]) == scan.image).all()
    noisy = small_scan(noise=0.5)
    assert (noisy.order == scan.order).all()
    assert np.std(noisy.readings - scan.readings) == pytest.approx(
        0.5 * scan.readings.max(), rel=0.3)


def test_8_bits_reach_full_precision_and_4_do_not():
    scan = small_scan()
    step = tuned_step(scan, schedule="constant", epochs=20, device="golden")
    full, eight, four, rounded = (
        reconstruct(scan, storage, schedule="constant", step=step, epochs=20, device="golden")
        for storage in (FLOAT, Storage(8), Storage(4), Storage(16, "float")))
    assert full.decibels[-1] > 25
    assert abs(rounded.decibels[-1] - full.decibels[-1]) < 0.05
    assert abs(eight.decibels[-1] - full.decibels[-1]) < 1
    assert four.decibels[-1] < full.decibels[-1] - 2
    assert full.picture[scan.inside] == pytest.approx(scan.image[scan.inside], abs=0.2)
    assert four.misfit == pytest.approx(np.linalg.norm(
        scan.rays @ four.picture[scan.inside] - scan.readings)**2 / 80)


@pytest.mark.parametrize("misfits, place", [
    ([5, 3, 4, 1, 0], 1),       # the last two leave the range of the words
    ([2, 3, 4, 1, 0], 0), ([None] * 5, None)])
def test_tuned_step_is_that_of_the_least_misfit(misfits, place, monkeypatch):
    left = iter(misfits)
    monkeypatch.setattr(reconstruction, "automatic_step", lambda *arguments: 0.5)
    monkeypatch.setattr(reconstruction, "GRID", (1.0, 2.0, 3.0, 4.0, 5.0))
    monkeypatch.setattr(reconstruction, "reconstruct", lambda *arguments, step, **options:
                        SimpleNamespace(misfit=next(left) or 0.0,
                                        overflowed=place is None or step > 1.5))
    if place is None:
        with pytest.raises(ValueError, match=r"No step of \[0.5, 1.0, .* keeps the model within"):
            tuned_step(small_scan(), schedule="constant", epochs=1)
    else:
        assert tuned_step(small_scan(), schedule="constant", epochs=1) == (0.5, 1.0)[place]


def test_a_model_that_leaves_its_words_is_said_to():
    found = reconstruct(small_scan(), Storage(8), schedule="constant", step=8.0, epochs=60,
                        device="golden")
    assert found.overflowed
    assert len(found.decibels) < 60


def test_bytes_of_16_bits_are_half_of_those_of_floating_point():
    scan, counts = small_scan(), {}
    for storage in (FLOAT, Storage(16, "float"), Storage(8), Storage(2, levels="optimal")):
        counts[storage.bits] = count_bytes(stored_rows(scan, storage), storage)
    assert counts[32] == 2 * counts[16] == 80 * 8 * -(-scan.rays.shape[1] // 2)
    assert counts[8] == 80 * 8 * -(-scan.rays.shape[1] // 8)
    assert counts[2] == 80 * 8 * -(-scan.rays.shape[1] // 32) + 4 * scan.rays.shape[1]


def test_16_bits_have_32767_levels_on_each_side():
    """Of a column's largest weight, which float32 keeps to a hundredth of a level."""
    scan = small_scan()
    rows = stored_rows(scan, Storage(16, "float")).rows.stored[0].view(np.float32)
    levels = 32767 * rows[:, :scan.rays.shape[1]].astype(np.float64)
    assert np.abs(levels - np.rint(levels)).max() < 0.01
    assert np.abs(levels - 32767 * scan.rays / scan.rays.max(axis=0)).max() == pytest.approx(
        0.5, abs=0.02)


def test_ratio_by_hand():
    assert peak_ratio(np.array([2.0, 0.0]), np.array([2.0, 0.2])) == pytest.approx(
        10 * np.log10(4 / 0.02))
    assert peak_ratio(np.ones(2), np.ones(2)) == np.inf


def fake(storage, decibels, n_bytes, overflowed=False):
    return Reconstruction(storage, n_bytes, np.zeros((8, 8)), np.array(decibels), 0.0, overflowed)


def test_conclusion_takes_the_least_data_that_is_near():
    runs = [fake(FLOAT, [30.0], 3200), fake(Storage(8), [29.6], 800),
            fake(Storage(4), [29.0], 400), fake(Storage(2), [29.9], 200, overflowed=True)]
    found = Comparison(small_scan(), 1, {}, {"constant": runs, "inverse": runs[:1]})
    assert "8 bits" in conclusion(found, "constant")
    assert "4.00 times less data, at least the paper's 2.7" in conclusion(found, "constant")
    assert "no storage comes within 0.5 dB" in conclusion(found, "inverse")


def test_cells_by_hand():
    found = Comparison(small_scan(), 2, {}, {
        "constant": [fake(FLOAT, [20.0, 30.04], 3_200_000),
                     fake(Storage(8), [29.6], 800_000, overflowed=True)],
        "inverse": [fake(FLOAT, [31.0, 28.0], 3_200_000), fake(Storage(8), [27.0], 800_000)]})
    assert rows_of(found) == [
        ["32 bits, floating point", "3.2", "1", "30.0 dB", "28.0 dB"],
        ["8 bits, `compensated`, uniform levels", "0.8", "4", "out of range in epoch 2", "27.0 dB"]]


def test_each_schedule_has_a_step_of_its_own(monkeypatch):
    used, steps = [], {"constant": 0.5, "inverse": 4.0}
    monkeypatch.setattr(report, "tuned_step", lambda scan, *, schedule, **options: steps[schedule])
    monkeypatch.setattr(report, "reconstruct", lambda scan, storage, *, schedule, step, **options:
                        used.append((storage.bits, schedule, step)))
    found = compare(small_scan(), [Storage(3), FLOAT], epochs=2)
    assert found.steps == steps
    assert used == [(bits, *one) for bits in (32, 3) for one in steps.items()]


def test_report(tmp_path):
    pytest.importorskip("matplotlib")
    lines = []
    found = compare(small_scan(), [Storage(3, levels="optimal")], epochs=2, device="golden",
                    progress=lines.append)
    assert lines[-1] == "3 bits, compensated, optimal levels"
    table = rows_of(found)
    assert [row[0] for row in table] == ["32 bits, floating point",
                                         "3 bits, `compensated`, optimal levels"]
    page = write_report(tmp_path, found, ("another method", found.scan.image, 12.3))
    text = page.read_text("utf-8")
    assert text.count("data:image/png") == 2
    assert table[1][3] in text
    assert "another method: 12.3 dB" in text
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "epochs.png", "epochs.svg", "images.png", "images.svg", "index.html", "results.json"]


def test_every_storage_can_be_quantized():
    scan = small_scan()
    assert [stored_rows(scan, one).bits for one in STORAGES] == [
        min(one.bits, 8) if one.bits < 16 else 32 for one in STORAGES]
    assert len({one.name for one in STORAGES}) == len(STORAGES)


def test_projector_of_scikit_image():
    pytest.importorskip("skimage", reason="scikit-image is not installed")
    from skimage.transform import radon  # pyright: ignore[reportMissingImports]
    for side, count in ((8, 5), (9, 4)):
        image = np.random.default_rng(side).random((side, side)) * circle(side)
        sums = ray_weights(side, angles_of(count)) @ image.ravel()
        found = radon(image, angles_of(count))
        assert found == pytest.approx(sums.reshape(count, side).T)
    scan = phantom_scan(16, 12)
    assert scan.image.max() > 0.3
    assert peak_ratio(scan.image, filtered_back_projection(scan, 12)) > 15


def test_phantom_by_a_projector_that_agrees_or_not(monkeypatch):
    """The direct method has the readings in the scanner's order again, with the noise on them."""
    image, wrong, told = small_scan().image, 0.0, []

    def radon(image, angles):
        return (ray_weights(8, angles) @ image.ravel()).reshape(-1, 8).T + wrong

    transform = SimpleNamespace(
        radon=radon, resize=lambda image, shape, anti_aliasing: image,
        iradon=lambda readings, angles: told.append((readings, angles)) or np.ones((8, 8)))
    data = SimpleNamespace(shepp_logan_phantom=lambda: image)
    monkeypatch.setattr(phantom, "_scikit_image", lambda: (data, transform))
    scan = phantom_scan(8, 5)
    assert (scan.image == image).all()
    assert (filtered_back_projection(scan, 5) == circle(8)).all()
    ((readings, angles),) = told
    assert angles.tolist() == [0, 36, 72, 108, 144]
    np.testing.assert_allclose(readings, radon(image, angles), atol=1e-12)
    wrong = 1e-3
    with pytest.raises(RuntimeError, match=r"must be those of the rays, and differ by 0\.001"):
        phantom_scan(8, 5)
    assert phantom_scan(8, 5, noise=0.1).readings.shape == (40,)


def test_scikit_image_is_asked_for(monkeypatch):
    monkeypatch.setitem(sys.modules, "skimage", None)
    with pytest.raises(MissingImages, match=r"pip install \"bitstep\[images\]\""):
        phantom_scan(16, 12)


@pytest.mark.parametrize("change, message", [
    ({"image": np.ones((3, 4))}, "image must have shape"),
    ({"image": np.full((4, 4), np.nan)}, "image must be finite"),
    ({"n_angles": 0}, "n_angles must be at least 1"),
    ({"n_angles": 1 << 22}, "must be at most 134,217,728"),
    ({"noise": -0.1}, "noise must be a share"),
    ({"readings": np.ones((4, 3))}, "readings must have shape"),
])
def test_bad_scans(change, message):
    with pytest.raises(ValueError, match=message):
        make_scan(**{"image": np.ones((4, 4)), "n_angles": 2, **change})
