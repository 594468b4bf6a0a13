"""Codecs that adapt: figures of a Gaussian bucket, statistics, updates, states."""

from typing import Any

import numpy as np
import pytest

import bitstep_gradients as gradients
from bitstep_gradients import Key, MessageError, list_codecs
from bitstep_gradients.codecs.levels.adaptive import update_steps
from bitstep_gradients.codecs.levels.rounding import fixed_levels, separated

make_codec: Any = gradients.make_codec       # its codecs have more than a Codec
KEY = Key(4)
ADAPTIVE = [name for name in list_codecs() if name[:3] in ("alq", "amq")]
# Those without the twins of alq and alq-gd by day: they weigh buckets otherwise, and that alone.
MOST = [pytest.param(name, marks=pytest.mark.slow) if name in ("alq-n", "alq-n-gd") else name
        for name in ADAPTIVE]


def relative_error(name, seeds=4, **options):
    """E|Q(v) - v|^2 / |v|^2 of Gaussian buckets of 8,192 values, after an update."""
    found = []
    for seed in range(seeds):
        vector = np.random.default_rng(seed).normal(size=8192).astype(np.float32)
        codec = make_codec(name, **options)
        if codec.adapts:
            codec.update([codec.statistics(vector)])
        found.append(codec.expected_error(vector) / np.sum(vector.astype(np.float64)**2))
    return float(np.mean(found))


@pytest.mark.by_day(3)
@pytest.mark.parametrize("name, options, least, most", [
    ("alq", {}, 0.21, 0.2240), ("alq-gd", {}, 0.21, 0.2240),
    # Of one bucket, whose weight is all the same.
    pytest.param("alq-n", {}, 0.21, 0.2240, marks=pytest.mark.slow),
    pytest.param("alq-n-gd", {}, 0.21, 0.2240, marks=pytest.mark.slow),
    ("alq", {"symmetric": False}, 0.21, 0.2240),
    ("amq", {}, 0.52, 0.531), ("amq-n", {}, 0.52, 0.531), ("alq-linf", {}, 0.10, 0.115),
    ("optimal", {}, 0.10, 0.112), ("nuqsgd", {"zero": False}, 126.9, 127.1)])
def test_gaussian_bucket(name, options, least, most):
    assert least < relative_error(name, bits=3, **options) <= most


def test_levels_of_a_gaussian_bucket():
    """In units of sigma: .4386, 1.4462, 3.3732, 90.51."""
    vector = np.random.default_rng(1).normal(size=8192).astype(np.float32)
    codec = make_codec("alq")
    codec.update([codec.statistics(vector)])
    assert codec.magnitudes * np.linalg.norm(vector) / vector.std() == \
        pytest.approx([0.4386, 1.4462, 3.3732, 90.51], rel=1e-3)


@pytest.mark.parametrize("name", ADAPTIVE)
def test_statistics_of_buckets(name):
    rng = np.random.default_rng(2)
    vector = (rng.normal(size=1000) * np.repeat(np.arange(10), 100)).astype(np.float32)
    codec = make_codec(name, bucket_size=100, samples=5)
    found = codec.statistics(vector)
    assert found.dtype == np.float32
    for row, bucket in zip(found, vector.reshape(10, 100)[1::2], strict=True):
        norm = np.abs(bucket).max() if name == "alq-linf" else np.linalg.norm(bucket)
        assert row == pytest.approx([(bucket / norm).mean(), (bucket / norm).var(), norm], rel=1e-5)
    assert make_codec(name, bucket_size=1, samples=350).statistics(np.ones(10**4)).nbytes < 5000
    assert codec.statistics(vector[:150]).shape == (2, 3)
    assert codec.statistics(np.zeros(0)).shape == (0, 3)


@pytest.mark.parametrize("name", MOST)
def test_ranks_have_the_same_levels_and_read_each_other(name):
    rng = np.random.default_rng(3)
    vectors = [rng.laplace(size=(40, 25)) * 10**rank for rank in range(3)]
    codecs = [make_codec(name, bucket_size=64, zero=True, bits=4, samples=4) for _ in vectors]
    before = codecs[0].state_tag
    statistics = [codec.statistics(one) for codec, one in zip(codecs, vectors, strict=True)]
    for codec in codecs:
        codec.update([one.copy() for one in statistics])
    assert len({codec.state_tag for codec in codecs}) == 1
    assert codecs[0].state_tag not in (0, before)
    message = codecs[0].encode(vectors[0], KEY)
    assert (codecs[1].decode(message, KEY) == codecs[2].decode(message, KEY)).all()
    with pytest.raises(MessageError, match=f"has state {codecs[0].state_tag}, .* has {before}"):
        make_codec(name, bucket_size=64, zero=True, bits=4, samples=4).decode(message, KEY)


@pytest.mark.parametrize("name", ADAPTIVE)
def test_save_and_restore(name):
    vector = np.random.default_rng(4).normal(size=500)
    codec, other = (make_codec(name, bits=4) for _ in range(2))
    codec.update([codec.statistics(vector)])
    state = codec.state_dict()
    other.load_state_dict(state)
    assert other.encode(vector, KEY) == codec.encode(vector, KEY)
    for each in (codec, other):
        each.update([codec.statistics(vector + 1)])
    assert (codec.levels == other.levels).all()
    assert (state["levels"] != codec.state_dict()["levels"]).any()      # a copy


@pytest.mark.parametrize("state, text", [
    ({}, "must have levels alone, not nothing"), ({"levels": [1], "p": 2}, "not levels, p"),
    ({"levels": np.arange(7)}, "levels must be 8 rising integers"),
    ({"levels": np.arange(8.0)}, "rising integers"),
    ({"levels": np.zeros(8, int)}, "rising integers"),
    ({"levels": np.arange(8) + 2**30}, "rising integers"),
    ({"levels": np.arange(-3, 5)}, "levels must be symmetric without a zero level")])
def test_bad_states(state, text):
    codec = make_codec("alq")
    before = codec.state_tag
    with pytest.raises(ValueError, match=text):
        codec.load_state_dict(state)
    assert codec.state_tag == before


@pytest.mark.parametrize("ends", [(-2**30 - 64, 2**30), (-2**30, 2**30 + 64)])
def test_states_with_levels_beyond_the_norm(ends):
    with pytest.raises(ValueError, match="rising integers"):
        make_codec("alq", symmetric=False, levels=3).load_state_dict(
            {"levels": np.array([ends[0], 0, ends[1]])})


@pytest.mark.parametrize("least", [0.0, -1.0])
@pytest.mark.parametrize("cluster", [-1.0, -0.5, 2.0**-30, 0.3, 1.0])
def test_levels_that_are_too_close_together_are_moved_apart(cluster, least):
    """Wherever they are, the last one stays 1, and none is the one below the first."""
    near = np.clip(cluster + 1e-10 * np.arange(-20, 20), least + 1e-12, 1 - 1e-12)
    levels = separated(np.sort(np.append(near, [0.4, 1.0])), least)
    fixed = fixed_levels(levels)                # all differ
    assert levels[-1] == 1
    assert fixed[0] > least * 2**30
    assert np.abs(levels[:-1] - np.sort(np.append(near, 0.4))).max() <= 42 * 2.0**-24
    apart = np.array([0.1, 0.25, 1.0])
    assert separated(apart, least) is apart


@pytest.mark.parametrize("wrong", [
    np.zeros(3), np.zeros((2, 2)), np.array([[0, np.nan, 1]]), np.array([[0, -1, 1]]),
    np.array([[5, 1, 1]]), np.array([[0, 1, -1]])])
def test_bad_statistics(wrong):
    codec = make_codec("alq")
    before = codec.state_tag
    with pytest.raises(ValueError, match="statistics must be arrays of statistics"):
        codec.update([codec.statistics(np.ones(5)), wrong])
    assert codec.state_tag == before


@pytest.mark.parametrize("name", ADAPTIVE)
def test_nothing_to_learn_from(name):
    codec = make_codec(name)
    before = codec.state_tag
    codec.update([])
    codec.update([codec.statistics(np.zeros(10)), codec.statistics(np.zeros(0))])
    assert codec.state_tag == before


def test_norms_weigh_the_buckets_or_not():
    """Each kind is better in its own sense, where large buckets have another mean."""
    rng = np.random.default_rng(5)
    large = 100 * (1 + 0.1 * rng.normal(size=(4, 256)))
    vector = np.concatenate([large, rng.normal(size=(16, 256))]).astype(np.float32).reshape(-1)
    codecs = {name: make_codec(name, bucket_size=256) for name in ("alq", "alq-n", "amq", "amq-n")}
    for codec in codecs.values():
        codec.update([codec.statistics(vector)])

    def normalised(codec):
        squares = np.sum(vector.reshape(-1, 256).astype(np.float64)**2, axis=1)
        return sum(codec.expected_error(bucket) / square for bucket, square in
                   zip(vector.reshape(-1, 256), squares, strict=True))

    for kind in ("alq", "amq"):
        plain, other = codecs[kind], codecs[kind + "-n"]
        assert plain.expected_error(vector) < other.expected_error(vector)
        assert normalised(other) < normalised(plain)


@pytest.mark.parametrize("name, options", [("alq", {}), ("alq-linf", {"zero": True, "bits": 4}),
                                           ("alq", {"symmetric": False}), ("amq-n", {})])
def test_shares_of_levels(name, options):
    """Of the fitted distribution, beside those of the vectors that it was fitted to."""
    rng = np.random.default_rng(8)
    vectors = [rng.normal(loc=rank, size=4096) for rank in range(3)]
    codec = make_codec(name, **options)
    statistics = [codec.statistics(vector) for vector in vectors]
    codec.update(statistics)
    weights = np.array([one[0, 2]**2 for one in statistics]) if codec.by_norm else np.ones(3)
    expected = np.average([codec.probabilities(one) for one in vectors], axis=0, weights=weights)
    assert codec.level_shares(statistics) == pytest.approx(expected, abs=0.02)
    assert codec.level_shares(statistics).sum() == pytest.approx(1)
    with pytest.raises(ValueError, match="not zero"):
        codec.level_shares([codec.statistics(np.zeros(5))])


@pytest.mark.covering(1)
@pytest.mark.parametrize("name", ADAPTIVE)
@pytest.mark.parametrize("bits", [1, 2, 8])
def test_levels_of_extreme_vectors_differ(name, bits):
    rng = np.random.default_rng(6)
    vectors = {"one value": np.append(1.0, np.zeros(4999)), "constant": np.ones(3000),
               "outlier": np.append(rng.normal(size=5000), 1e12), "few": np.array([1.0, -2])}
    for vector in vectors.values():
        codec = make_codec(name, bits=bits)
        codec.update([codec.statistics(vector)])
        assert (np.diff(codec.levels) > 0).all()
        assert codec.levels[[0, -1]].tolist() == [-1, 1]
        assert np.isfinite(codec.decode(codec.encode(vector, KEY), KEY)).all()


@pytest.mark.parametrize("name", ["alq", "alq-linf", "alq-gd"])
@pytest.mark.parametrize("bucket_size", [64, 1000])
def test_an_update_pays(name, bucket_size):
    """On vectors that it has not seen, of several ranks."""
    rng = np.random.default_rng(7)
    codec = make_codec(name, bucket_size=bucket_size, samples=50)
    draw = [rng.laplace(size=20_000) for _ in range(5)]
    before = codec.expected_error(draw[0])
    codec.update([codec.statistics(one) for one in draw[1:]])
    assert codec.expected_error(draw[0]) < 0.75 * before


def test_update_steps():
    assert update_steps(30_001) == [100, 2000, 10_000, 20_000, 30_000]
    assert update_steps(100) == []
    assert update_steps(12, first=(5, 1), every=5) == [1, 5, 10]
    with pytest.raises(ValueError, match="every must be"):
        update_steps(5, every=0)


@pytest.mark.parametrize("name", ["qsgd", "nuqsgd", "optimal"])
def test_codecs_that_do_not_adapt(name):
    codec = make_codec(name)
    with pytest.raises(TypeError, match=f"{name} does not adapt"):
        codec.statistics(np.ones(3))
    with pytest.raises(ValueError, match="has no state"):
        codec.load_state_dict({"levels": np.arange(8)})
