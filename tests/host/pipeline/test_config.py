from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from bitstep.pipeline.config import PipelineConfig, level_limit, solver_stages

C = PipelineConfig


@pytest.mark.parametrize("row_format, limits", [
    ("one_level", [1, 1, 3, 7, 15, 31, 63, 127]), ("two_levels", [None, 1, 1, 2, 4, 8, 16, 32])])
def test_levels(row_format, limits):
    for bits, limit in enumerate(limits, start=1):
        if limit is not None:
            config = C(bits=bits, row_format=row_format)
            assert config.level_limit == level_limit(bits, row_format) == limit
            assert -1 << config.level_width - 1 <= -limit < limit < 1 << config.level_width - 1


def test_padding_needs_a_mask_where_no_code_is_zero():
    assert [C(bits=bits).has_zero_code for bits in (1, 2, 8)] == [False, True, True]
    assert [C(bits=bits, row_format="two_levels").has_zero_code for bits in (2, 3)] == [False, True]


@pytest.mark.parametrize("bits, bus_width, lanes, model_lanes", [
    (1, 64, 64, 64), (3, 64, 21, 22), (5, 64, 12, 12), (7, 64, 9, 10), (8, 64, 8, 8),
    (3, 512, 170, 170), (7, 512, 73, 74), (1, 512, 512, 512)])
def test_shapes(bits, bus_width, lanes, model_lanes):
    config = C(bits=bits, bus_width=bus_width, max_features=2 * lanes + 1)
    assert (config.lanes, config.model_lanes, config.beat_bytes) \
        == (lanes, model_lanes, bus_width // 8)
    assert (config.max_beats, config.capacity) == (3, 3 * lanes)
    assert [config.beats(n) for n in (1, lanes, lanes + 1, 2 * lanes + 1)] == [1, 1, 2, 3]
    assert config.model_words(lanes + 1) == 2 * model_lanes + 2


@pytest.mark.parametrize("lanes, stages", [(8, 2), (9, 2), (16, 2), (21, 3), (64, 3), (128, 4),
                                           (170, 4), (512, 5)])
def test_tree_has_a_register_for_two_levels(lanes, stages):
    bus_width, bits = {8: (64, 8), 9: (64, 7), 16: (64, 4), 21: (64, 3), 64: (64, 1),
                       128: (512, 4), 170: (512, 3), 512: (512, 1)}[lanes]
    config = C(bus_width=bus_width, bits=bits)
    assert config.lanes == lanes
    assert config.tree_stages == stages
    assert 4 ** (stages - 1) < lanes <= 4 ** stages


def test_latencies_of_the_documentation():
    assert C(bits=4).latency == 13
    assert C(bits=1).latency == 14
    assert C(bus_width=512, bits=1).latency == 16
    assert C(bits=4, cycles_per_update=4).latency == 16
    assert C(bits=4, solver="logistic", cycles_per_update=6).latency == 16
    assert C(bits=32, row_format="float32").latency == 14
    assert C(bits=32, row_format="float32", bus_width=512).latency == 15
    assert [solver_stages(cycles) for cycles in (2, 4, 6)] == [4, 5, 7]


@pytest.mark.parametrize("config, stages, cycles, delay", [
    (C(bits=4), 9, 5, 0), (C(bus_width=512, bits=1), 12, 5, 0),
    (C(bits=4, cycles_per_update=4), 11, 15, 5), (C(bits=1, cycles_per_update=4), 12, 15, 4),
    (C(bus_width=512, bits=1, cycles_per_update=4), 14, 15, 2),
    (C(bits=4, solver="logistic", cycles_per_update=6), 9, 15, 7),
    (C(bits=32, row_format="float32", cycles_per_update=4), 10, 15, 6)], ids=str)
def test_times_of_the_dither(config, stages, cycles, delay):
    """A block of four rows takes no longer than four rows; the first one is there with the first
    dot product, which the delay puts off as far as it must and no further.
    """
    assert (config.dot_stages, config.dither_cycles, config.start_delay) == (stages, cycles, delay)
    assert config.dither_cycles < 4 * config.cycles_per_update
    assert config.start_delay == 0 or config.dot_stages + config.start_delay == cycles + 1
    assert config.latency == stages + solver_stages(config.cycles_per_update)


def test_float_rows():
    config = C(bits=32, row_format="float32", bus_width=128, max_features=9)
    assert (config.lanes, config.model_lanes, config.capacity) == (4, 4, 12)
    assert (config.level_limit, config.gradient_limit, config.intercept_limit) == (1 << 22, 1, 1)
    assert (config.level_width, config.product_stages, config.max_label_shift) == (32, 2, 62)
    assert config.has_zero_code
    codes = C(bits=4)
    assert (codes.gradient_limit, codes.intercept_limit, codes.product_stages) == (7, 7, 1)
    assert codes.max_label_shift == 40


@pytest.mark.parametrize("bits, fraction", [(1, 14), (2, 14), (3, 13), (8, 8)])
def test_fine_rows_fit_16_bits(bits, fraction):
    config = C(bits=bits, refetch=True, lookahead=0)
    assert config.fine_fraction == fraction
    assert config.level_limit << fraction < 1 << 15


@pytest.mark.parametrize("bits, n_features, words", [
    (4, 1, 4), (4, 16, 16), (4, 17, 20), (3, 21, 24), (3, 22, 24), (3, 25, 28), (8, 12, 12)])
def test_words_of_a_fine_row(bits, n_features, words):
    assert C(bits=bits).fine_words(n_features) == words


@pytest.mark.parametrize("beats, lookahead", [(1, 6), (2, 6), (3, 4), (4, 3), (5, 3), (6, 2),
                                              (12, 1), (13, 1), (100, 1)])
def test_required_lookahead(beats, lookahead):
    """The first beat of row i comes at least ``latency`` after the last of row i - D - 1."""
    config = C(bits=4)                          # latency 13
    assert config.required_lookahead(beats) == lookahead
    pitch = max(beats, 2)

    def distance(d):
        return (d + 1) * pitch - (beats - 1)

    assert distance(lookahead) >= 13 > distance(lookahead - 1)
    assert config.effective_lookahead(beats) == min(8, lookahead)
    assert replace(config, lookahead=2).effective_lookahead(beats) == min(2, lookahead)


@pytest.mark.parametrize("config", [C(bits=4, max_features=640, lookahead=8),
                                    C(bits=1, max_features=6400, lookahead=3, cycles_per_update=4),
                                    C(bits=8, max_features=80, lookahead=0)])
def test_lines_hold_every_row_that_uses_them(config):
    for beats in range(1, config.max_beats + 1):
        for line in range(1, config.effective_lookahead(beats) + 2):
            assert config.line_depth(line) >= beats
    assert config.line_depth(1) == config.max_beats
    far = [config.line_depth(line) for line in range(3, config.lookahead + 2)]
    assert all(depth <= config.latency + config.cycles_per_update for depth in far)


def test_widths_hold_the_extremes():
    for config in (C(bits=8, max_features=4096), C(bits=1, max_features=64),
                   C(bits=8, row_format="two_levels", max_features=1 << 20),
                   C(bits=32, row_format="float32", max_features=1000)):
        terms = config.capacity + 1
        assert terms * config.level_limit << 32 < 1 << config.dot_width - 1
        assert terms * config.level_limit * config.gradient_limit < 1 << config.gram_width - 1


@pytest.mark.parametrize("config, lanes", [(C(bits=8), 2), (C(bits=2), 2), (C(bits=1), 4),
                                           (C(bits=7, bus_width=512), 6),
                                           (C(bits=1, bus_width=512), 32)])
def test_correction_lanes(config, lanes):
    assert config.correction_lanes == lanes


@pytest.mark.parametrize("n_features, lookahead", [(16, 6), (17, 6), (33, 4), (4096, 1)])
def test_with_lookahead(n_features, lookahead):
    assert C(bits=4).with_lookahead(n_features) == C(bits=4, lookahead=lookahead)


def test_names_differ():
    configs = [C(), C(bits=3), C(bus_width=128), C(row_format="two_levels"), C(max_features=64),
               C(lookahead=2), C(cycles_per_update=4), C(minibatch=False), C(corrections=False),
               C(bits=32, row_format="float32"), C(solver="logistic", cycles_per_update=6),
               C(proximal=True), C(refetch=True, lookahead=0), C(lookahead=0)]
    assert len({config.name for config in configs}) == len(configs)
    assert all(C(**config.to_dict()) == config for config in configs)
    assert C().name == "w64-b4-one-n4096-d8-c2"


@pytest.mark.parametrize("changes, message", [
    ({"bus_width": 32}, "bus_width must be one of 64, 128, 256, 512, not 32"),
    ({"bits": 0}, "bits must be an integer from 1 to 8, not 0"),
    ({"bits": 9}, "bits must be an integer from 1 to 8, not 9"),
    ({"bits": 4.0}, r"bits must be an integer from 1 to 8, not 4\.0"),
    ({"bits": True}, "bits must be an integer from 1 to 8, not True"),
    ({"row_format": "triple"},
     "row_format must be one of one_level, two_levels, float32, woven, not 'triple'"),
    ({"row_format": "float32"}, "bits of row format 'float32' must be one of 32, not 4"),
    ({"bits": 32}, "bits must be an integer from 1 to 8, not 32"),
    ({"max_features": 0}, "max_features must be an integer from 1 to 1048576, not 0"),
    ({"lookahead": -1}, "lookahead must be an integer from 0 to 32, not -1"),
    ({"lookahead": 33}, "lookahead must be an integer from 0 to 32, not 33"),
    ({"solver": "cubic"}, "solver must be one of linear, logistic, not 'cubic'"),
    ({"cycles_per_update": 1},
     "cycles_per_update of solver 'linear' must be one of 2, 4, not 1"),
    ({"cycles_per_update": 3},
     "cycles_per_update of solver 'linear' must be one of 2, 4, not 3"),
    ({"cycles_per_update": 6},
     "cycles_per_update of solver 'linear' must be one of 2, 4, not 6"),
    ({"solver": "logistic"}, "cycles_per_update of solver 'logistic' must be one of 6, not 2"),
    ({"minibatch": 1}, "minibatch must be True or False, not 1"),
    ({"corrections": None}, "corrections must be True or False, not None"),
    ({"proximal": 1}, "proximal must be True or False, not 1"),
    ({"models": 0}, "models must be an integer from 1 to 8, not 0"),
    ({"models": 9}, "models must be an integer from 1 to 8, not 9"),
    ({"refetch": "yes"}, "refetch must be True or False, not 'yes'"),
])
def test_errors(changes, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        C(**changes)


@pytest.mark.parametrize("present, wanted, runs", [
    ({}, {}, True), ({}, {"lookahead": 0, "cycles_per_update": 4, "max_features": 5000}, True),
    ({}, {"bits": 3}, False), ({}, {"bus_width": 128}, False),
    ({}, {"row_format": "two_levels"}, False),
    ({"solver": "logistic", "cycles_per_update": 6}, {}, False), ({"proximal": True}, {}, True),
    ({}, {"proximal": True}, False), ({}, {"refetch": True, "lookahead": 0}, False),
    ({"row_format": "float32", "bits": 32, "lookahead": 5},
     {"row_format": "float32", "bits": 32, "lookahead": 3}, True),
    ({"row_format": "float32", "bits": 32, "lookahead": 3},
     {"row_format": "float32", "bits": 32, "lookahead": 5}, False)])
def test_pipelines_that_run_the_jobs_of_another(present, wanted, runs):
    assert PipelineConfig(**present).runs(PipelineConfig(**wanted)) == runs


def test_numbers_of_numpy_are_numbers():
    plain = C(bits=4, bus_width=128, max_features=90, lookahead=2, cycles_per_update=4,
              minibatch=False)
    values: Any = {name: np.bool_(value) if isinstance(value, bool) else
                   np.int64(value) if isinstance(value, int) else value
                   for name, value in plain.to_dict().items()}
    same = C(**values)
    assert same == plain
    assert hash(same) == hash(plain)
    assert all(type(value) in (int, bool, str) for value in same.to_dict().values())
