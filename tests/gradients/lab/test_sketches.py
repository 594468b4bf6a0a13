"""Tables of sketches: what they conclude holds with fewer values too."""

import numpy as np
import pytest

from bitstep_gradients import make_codec
from bitstep_gradients.codecs.qcs import Qcs
from bitstep_gradients.lab.sketches import (
    codec_rows,
    gain_rows,
    nesting_rows,
    relative_errors,
    tables,
    theorem_rows,
)


def test_relative_errors_are_the_expected_ones():
    vector = np.random.default_rng(1).normal(size=500)
    codec = make_codec("dqsg", levels=2)
    expected = codec.expected_error(vector)
    assert expected is not None
    found = relative_errors(codec, vector, 40)
    assert abs(found.mean() * np.sum(vector**2) / expected - 1) < 0.05
    assert len(set(found)) == 40        # each with random words of its own


def test_error_ratio_is_that_of_the_worst_vectors():
    for n, k, levels, _, measured in theorem_rows(300):
        codec = Qcs(share=k / n, levels=levels, bucket_size=n)
        for kind in (np.eye(n)[0], np.ones(n)):
            # To the three digits of the table.
            assert float(measured) >= 0.99 * relative_errors(codec, np.tile(kind, 100), 3).mean()


def test_theorem_holds():
    for n, k, _, bound, measured in theorem_rows(1000)[:5]:
        assert float(measured) <= float(bound), (n, k)


def test_poor_side_information_ends_at_plain_messages():
    rows = nesting_rows(20_000)
    bits = [float(row[4]) for row in rows]
    assert bits == sorted(bits)
    assert rows[0][1] == "nested"
    assert rows[-1][1] == "plain"
    assert [row[1] for row in rows].count("plain") == 3
    for row in rows[3:6]:               # of 20,000 values enough overload
        assert float(row[3][:-2]) == pytest.approx(float(row[2][:-2]), rel=0.15)
    assert [row[3] for row in rows[6:]] == [None] * 3
    assert {float(row[5]) for row in rows} <= {round(1 / 108 + d, 5) for d in np.arange(
        -20, 21) * 1e-5}


def test_tables():
    text = tables(buckets=100, count=5000, steps=2)
    assert text.count("\n\n") == 3
    for part in ("k = n, Q = 1 has 20.19", "0.85 (43 rows, Q = 2)", "top-k share 0.01"):
        assert part in text
    assert len(gain_rows()) == 4
    # Bits of the sketches rise with the rows; error falls.
    found = {row[0]: row for row in codec_rows(5000, 5)}
    assert float(found["qcs-1bit share 0.25"][1]) < float(found["qcs-1bit"][1])
    assert float(found["qcs-1bit share 0.25"][2]) > float(found["qcs-1bit"][2])
