import pytest

from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.parts.formats import level_limit

C = PipelineConfig


@pytest.mark.parametrize("row_format, limits", [
    ("one_level", [1, 1, 3, 7, 15, 31, 63, 127]), ("two_levels", [None, 1, 1, 2, 4, 8, 16, 32])])
def test_levels(row_format, limits):
    for bits, limit in enumerate(limits, start=1):
        if limit is not None:
            config = C(bits=bits, row_format=row_format)
            assert config.rows.level_limit == level_limit(bits, row_format) == limit
            width = config.rows.level_width
            assert -1 << width - 1 <= -limit < limit < 1 << width - 1


def test_padding_needs_a_mask_where_no_code_is_zero():
    assert [C(bits=bits).rows.has_zero_code for bits in (1, 2, 8)] == [False, True, True]
    assert [C(bits=bits, row_format="two_levels").rows.has_zero_code
            for bits in (2, 3)] == [False, True]


@pytest.mark.parametrize("bits, bus_width, lanes, model_lanes", [
    (1, 64, 64, 64), (3, 64, 21, 22), (5, 64, 12, 12), (7, 64, 9, 10), (8, 64, 8, 8),
    (3, 512, 170, 170), (7, 512, 73, 74), (1, 512, 512, 512)])
def test_shapes(bits, bus_width, lanes, model_lanes):
    config = C(bits=bits, bus_width=bus_width, max_features=2 * lanes + 1)
    assert (config.rows.lanes, config.rows.model_lanes, config.rows.beat_bytes) \
        == (lanes, model_lanes, bus_width // 8)
    assert (config.rows.max_beats, config.rows.capacity) == (3, 3 * lanes)
    assert [config.rows.beats(n) for n in (1, lanes, lanes + 1, 2 * lanes + 1)] == [1, 1, 2, 3]
    assert config.rows.model_words(lanes + 1) == 2 * model_lanes + 2


def test_float_rows():
    config = C(bits=32, row_format="float32", bus_width=128, max_features=9)
    assert (config.rows.lanes, config.rows.model_lanes, config.rows.capacity) == (4, 4, 12)
    rows = config.rows
    assert (rows.level_limit, rows.gradient_limit, rows.intercept_limit) == (1 << 22, 1, 1)
    assert (rows.level_width, config.stages.dot.product, rows.max_label_shift) == (32, 2, 62)
    assert config.rows.has_zero_code
    codes = C(bits=4)
    assert (codes.rows.gradient_limit, codes.rows.intercept_limit, codes.stages.dot.product) \
        == (7, 7, 1)
    assert codes.rows.max_label_shift == 40


@pytest.mark.parametrize("bits, fraction", [(1, 14), (2, 14), (3, 13), (8, 8)])
def test_fine_rows_fit_16_bits(bits, fraction):
    config = C(bits=bits, refetch=True, lookahead=0)
    assert config.rows.fine_fraction == fraction
    assert config.rows.level_limit << fraction < 1 << 15


@pytest.mark.parametrize("bits, n_features, words", [
    (4, 1, 4), (4, 16, 16), (4, 17, 20), (3, 21, 24), (3, 22, 24), (3, 25, 28), (8, 12, 12)])
def test_words_of_a_fine_row(bits, n_features, words):
    assert C(bits=bits).rows.fine_words(n_features) == words


def test_widths_hold_the_extremes():
    for config in (C(bits=8, max_features=4096), C(bits=1, max_features=64),
                   C(bits=8, row_format="two_levels", max_features=1 << 20),
                   C(bits=32, row_format="float32", max_features=1000)):
        terms = config.rows.capacity + 1
        assert terms * config.rows.level_limit << 32 < 1 << config.rows.dot_width - 1
        squares = terms * config.rows.level_limit * config.rows.gradient_limit
        assert squares < 1 << config.rows.gram_width - 1


@pytest.mark.parametrize("config, beat, code", [
    (C(bits=3, max_features=64), 64, 3),                                    # as in memory
    (C(bits=3, max_features=64, codebooks=True), 21 * 8, 8),             # levels of 8 bits
    (C(bits=16, row_format="bit_planes", max_features=64), 16 * 16, 16)], ids=str)
def test_beats_behind_the_front_end(config, beat, code):
    assert (config.rows.beat_width, config.rows.code_bits) == (beat, code)
    assert config.rows.beat_bytes == 8


def test_front_ends():
    rows = [C().rows, C(row_format="two_levels").rows, C(row_format="float32", bits=32).rows,
            C(codebooks=True).rows, C(row_format="bit_planes", bits=16).rows,
            C(max_features=3, packed=True, lookahead=0).rows]
    assert [one.front_end for one in rows] == [None, None, None, "tables", "planes", None]
    assert [one.packed for one in rows] == [False] * 5 + [True]
    assert [one.floating for one in rows] == [False, False, True, False, False, False]
    assert [one.centred for one in rows] == [False] * 4 + [True, False]
    assert [one.has_zero_code for one in rows] == [True, True, True, True, False, True]


def test_tables_hold_a_level_of_every_lane_for_each_code():
    rows = C(bits=3, max_features=64, codebooks=True).rows       # 21 lanes: 3 words of 8 levels
    assert rows.codebook_beat_words == 3 * 8
    assert [rows.codebook_words(n) for n in (1, 21, 22)] == [24, 24, 48]
    assert rows.level_limit == 127
    assert C(bits=3).rows.codebook_words(22) == 0


def test_bit_plane_rows():
    rows = C(bits=16, row_format="bit_planes", max_features=64).rows
    assert (rows.lanes, rows.level_limit, rows.level_width) == (16, 1 << 16, 17)
    assert (rows.intercept_width, rows.square_width) == (17, 33)
    # 13 groups of 4 bits in a plane of a row of 50 features.
    assert rows.check_cycles(50) == 4


def test_packed_rows():
    rows = C(max_features=3, packed=True, lookahead=0, models=3).rows    # 5 rows of 12 bits in 64
    assert (rows.lanes, rows.rows_per_beat, rows.label_rows, rows.label_streams) == (3, 5, 8, 4)
    assert rows.used_share == 60 / 64
    assert [rows.check_cycles(n) for n in (1, 3)] == [34, 34]
    samples = C(bits=4, row_format="two_levels", max_features=8, packed=True, lookahead=0).rows
    assert (samples.level_limit, samples.rows_per_beat) == (2, 2)


@pytest.mark.parametrize("config, share", [
    (C(bits=4), 1), (C(bits=3), 63 / 64), (C(bits=16, row_format="bit_planes"), 1)])
def test_used_share_of_a_full_beat(config, share):
    assert config.rows.used_share == share
