"""What speeds of codecs are compared with."""

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs torch; `make test-torch` runs it")

from bitstep_gradients.lab.codec_speed import torch_work


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor")
def test_values_come_back_within_a_step():
    values = np.random.default_rng(1).normal(size=5000).astype(np.float32)
    step = np.ptp(values) / 255
    for name, work in torch_work(values).items():
        assert np.abs(np.asarray(work()) - values).max() <= step, name
    assert list(torch_work(values)) == ["operators", "hook"]
