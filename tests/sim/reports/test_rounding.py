"""The golden model against float64 SGD at the sizes that users have."""

from typing import Any

import numpy as np
import pytest

from bitstep.options.models import MODELS
from bitstep.quantization import quantize
from bitstep_sim.reports.rounding import images, quantized, ratios


@pytest.fixture(scope="module", params=[256, 4096])
def pictures(request):
    return images(request.param)


@pytest.mark.by_day(2)
@pytest.mark.covering(1)
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("batch", [1, 16, 64, 256])
def test_defaults_learn_as_float64_does(pictures, model, batch):
    """8 bits, everything automatic: what rounding of models and updates adds to the loss."""
    features, digits = pictures
    # One short run on the hinge loss says little: see `ratios`.
    length: dict[str, Any] = {"epochs": 20, "runs": 3 if features.shape[1] == 256 else 1} \
        if model == "svm" else {"epochs": 10}
    if features.shape[1] > 256 and model != "svm":  # 16 times as many values, so fewer rows
        features, digits = features[:400], digits[:400]
    data = quantized(features, digits, model=model, bits=8)
    exact, ratio = ratios(data, model=model, batch=batch, **length)
    assert exact > 0
    assert 0.97 < ratio < 1.01


@pytest.mark.by_day(1)
def test_nearest_is_another_rounding(pictures):
    """With a range as wide as it once was, rounding to nearest loses what the dither keeps."""
    features, digits = pictures
    data = quantized(features[:400], digits[:400], model="l2-svm", bits=8)
    options = {"model": "l2-svm", "batch": 256, "epochs": 10, "model_range": 128}
    _, dithered = ratios(data, **options)
    _, nearest = ratios(data, nearest=True, **options)
    assert nearest > 1.02
    assert abs(dithered - 1) < 0.5 * (nearest - 1)


def test_images_by_hand():
    """Corners are the corners of the digits; a pixel between two is their mean."""
    small, digits = images(64)
    large, _ = images(256)
    assert small.shape == (1296, 64)
    assert digits[:5].tolist() == [0, 1, 2, 3, 4]
    corners = large.reshape(-1, 16, 16)[:, ::15, ::15]
    assert (corners == small.reshape(-1, 8, 8)[:, ::7, ::7]).all()
    assert 0 <= large.min() <= large.max() <= 16


def test_rows_that_cancel_each_other():
    """Each row is followed by its opposite, in one batch: their residuals add up to 0, and what is
    cut off one update would never help the other.
    """
    rng = np.random.default_rng(0)
    half = rng.uniform(-1, 1, (256, 64))
    features = np.repeat(half, 2, axis=0) * np.tile([1, -1], 256)[:, None]
    features[:2] = np.array([[1.0], [-1.0]])        # so that both ends of every range are met
    data = quantize(features, features @ rng.normal(size=64) > 0, bits=8, encoding="nearest",
                    task="classification")
    options: dict[str, Any] = {"model": "ls-svm", "batch": 64, "model_range": 4096, "share": 0.25}
    _, dithered = ratios(data, **options)
    _, nearest = ratios(data, nearest=True, **options)
    assert nearest > 1.1
    assert abs(dithered - 1) < 0.2 * (nearest - 1)
