"""Messages of codecs in bit-centred training over shards."""

import numpy as np
import pytest

pytest.importorskip("sklearn")
pytest.importorskip("numba")

from bitstep_gradients.lab.offsets import coded_training, rows_of

FEATURES, LABELS = rows_of("3000x12", None)


@pytest.mark.by_day(1)
@pytest.mark.parametrize("offsets, gradients, share", [
    ({"bits": 8}, None, 0.9), ({"bits": 4}, {"bits": 8}, 0.6)])
def test_few_bits_keep_the_optimum(offsets, gradients, share):
    plain, plain_bytes = coded_training(FEATURES, LABELS, 4, 20, None, None)
    coded, sent = coded_training(FEATURES, LABELS, 4, 20, offsets, gradients)
    assert plain_bytes == pytest.approx(2 * 13 * 8 * 20 / 20, rel=0.06)
    assert sent < share * plain_bytes
    assert plain[-1] < 1e-8
    assert coded[-1] < 1e-8
    assert not np.array_equal(plain, coded)
