from typing import Any

import numpy as np
import pytest

from bitstep.pipeline.boards import FACTS
from bitstep.pipeline.config import PipelineConfig

C = PipelineConfig


def test_where_the_pipeline_carries_on():
    assert C(update_interval=1).carries_on
    assert C(update_interval=1, rounded_updates=True).carries_on
    assert not C(update_interval=1, model_bits=4).carries_on    # each batch rounds the model
    assert C(update_interval=1, model_bits=4).drains
    assert not C(rounded_updates=True).carries_on


def test_names_differ():
    configs = [C(), C(bits=3), C(bus_width=128), C(row_format="two_levels"), C(max_features=64),
               C(lookahead=2), C(update_interval=4), C(minibatch=False), C(corrections=False),
               C(bits=32, row_format="float32"), C(loss_family="logistic", update_interval=6),
               C(proximal=True), C(refetch=True, lookahead=0), C(lookahead=0),
               C(codebooks=True), C(models=2), C(models=3), C(model_bits=4), C(row_weights=True),
               C(rounded_updates=True), C(bus_width=256, row_ports=2), C(bus_width=256),
               C(bus_width=256, row_ports=4), C(update_interval=1, lookahead=8),
               C(update_interval=1, lookahead=8, batch_lookahead=2),
               C(packed=True, lookahead=0, max_features=8)]
    assert len({config.name for config in configs}) == len(configs)
    assert all(C(**config.to_dict()) == config for config in configs)
    assert C().name == "w64-b4-one-n4096-d8-c2"


def test_ports_of_a_row_bus():
    """The fewest that are as wide, of those that a board has for rows."""
    zynq, ultrascale = FACTS["pynq-z2"], FACTS["kv260"]
    assert [zynq.ports_for(width) for width in (64, 128)] == [1, 2]
    assert [ultrascale.ports_for(width) for width in (64, 128, 256, 512)] == [1, 1, 2, 4]
    with pytest.raises(ValueError, match=r"at most the 128 bits of 2 memory ports of pynq-z2, not"):
        zynq.ports_for(256)
    for board in FACTS.values():
        for bits in board.bus_widths:
            config = board.config(bits)
            assert config.port_width <= board.port_width
            assert config.row_ports in board.row_ports


def test_least_features_of_batches_that_look_ahead():
    """Of rows of few features there is as much to gain as of any."""
    config = C(update_interval=1, lookahead=0).with_lookahead()
    ahead = config.with_batch_lookahead()
    assert ahead.batch_lookahead > 0
    assert ahead.with_lookahead(4096).lookahead < ahead.lookahead
    assert ahead.with_lookahead(4096).batch_lookahead <= ahead.batch_lookahead


@pytest.mark.parametrize("changes, message", [
    ({"row_ports": 2}, "row_ports must divide .* at least 64 bits, not 64 bits into 2; choose .*"),
    ({"bus_width": 128, "row_ports": 4}, ".* not 128 bits into 4; .*"),
    ({"bus_width": 256, "row_ports": 3}, "row_ports must be one of 1, 2, 4, not 3"),
    ({"packed": True, "lookahead": 0, "max_features": 17},
     "Packed rows of 4 bits on a bus of 64 must have 1 to 16 features .*, not 17; .*"),
    ({"packed": True, "lookahead": 0, "max_features": 65, "bus_width": 512},
     "Packed rows of 4 bits on a bus of 512 must have 1 to 64 features .*, not 65; .*"),
    ({"bus_width": 32}, "bus_width must be one of 64, 128, 256, 512, not 32"),
    ({"bits": 0}, "bits must be an integer from 1 to 8, not 0"),
    ({"bits": 9}, "bits must be an integer from 1 to 8, not 9"),
    ({"bits": 4.0}, r"bits must be an integer from 1 to 8, not 4\.0"),
    ({"bits": True}, "bits must be an integer from 1 to 8, not True"),
    ({"row_format": "triple"},
     "row_format must be one of one_level, two_levels, float32, bit_planes, not 'triple'"),
    ({"row_format": "float32"}, "bits of row format 'float32' must be one of 32, not 4"),
    ({"bits": 32}, "bits must be an integer from 1 to 8, not 32"),
    ({"max_features": 0}, "max_features must be an integer from 1 to 1048576, not 0"),
    ({"lookahead": -1}, "lookahead must be an integer from 0 to 32, not -1"),
    ({"lookahead": 33}, "lookahead must be an integer from 0 to 32, not 33"),
    # Of 7 rows the updates are there, at the earliest 9 cycles after their rows, of 15.
    ({"update_interval": 1, "lookahead": 15, "batch_lookahead": 8},
     "batch_lookahead of lookahead 15 must be an integer from 0 to 7, not 8"),
    ({"update_interval": 1, "lookahead": 15, "batch_lookahead": -1},
     "batch_lookahead of lookahead 15 must be an integer from 0 to 7, not -1"),
    ({"update_interval": 1, "lookahead": 15, "batch_lookahead": False},
     "batch_lookahead of lookahead 15 must be an integer from 0 to 7, not False"),
    ({"loss_family": "cubic"}, "loss_family must be one of linear, logistic, not 'cubic'"),
    ({"update_interval": 0},
     "update_interval of loss family 'linear' must be one of 1, 2, 4, not 0"),
    ({"update_interval": 3},
     "update_interval of loss family 'linear' must be one of 1, 2, 4, not 3"),
    ({"update_interval": 6},
     "update_interval of loss family 'linear' must be one of 1, 2, 4, not 6"),
    ({"loss_family": "logistic"},
     "update_interval of loss family 'logistic' must be one of 1, 6, not 2"),
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
    ({}, {}, True), ({}, {"lookahead": 0, "update_interval": 4, "max_features": 5000}, True),
    ({}, {"bits": 3}, False), ({}, {"bus_width": 128}, False),
    ({}, {"row_format": "two_levels"}, False),
    ({"loss_family": "logistic", "update_interval": 6}, {}, False), ({"proximal": True}, {}, True),
    ({}, {"proximal": True}, False), ({}, {"refetch": True, "lookahead": 0}, False),
    ({"row_format": "float32", "bits": 32, "lookahead": 5},
     {"row_format": "float32", "bits": 32, "lookahead": 3}, True),
    ({"row_format": "float32", "bits": 32, "lookahead": 3},
     {"row_format": "float32", "bits": 32, "lookahead": 5}, False),
    ({"model_bits": 8}, {"model_bits": 4}, True), ({"model_bits": 4}, {"model_bits": 8}, False),
    ({"model_bits": 8}, {}, False), ({}, {"model_bits": 8}, False),
    ({"codebooks": True}, {}, False),
    ({"rounded_updates": True}, {}, True), ({}, {"rounded_updates": True}, False),
    ({"row_weights": True}, {}, True), ({}, {"row_weights": True}, False),
    ({"packed": True, "max_features": 3, "lookahead": 0}, {}, False)])
def test_pipelines_that_run_the_jobs_of_another(present, wanted, runs):
    assert PipelineConfig(**present).runs(PipelineConfig(**wanted)) == runs


def test_numbers_of_numpy_are_numbers():
    plain = C(bits=4, bus_width=128, max_features=90, lookahead=2, update_interval=4,
              minibatch=False)
    values: Any = {name: np.bool_(value) if isinstance(value, bool) else
                   np.int64(value) if isinstance(value, int) else value
                   for name, value in plain.to_dict().items()}
    same = C(**values)
    assert same == plain
    assert hash(same) == hash(plain)
    assert all(type(value) in (int, bool, str) for value in same.to_dict().values())
