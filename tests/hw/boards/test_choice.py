"""Pipelines as a command line names them."""

import pytest

from bitstep.pipeline.config import PipelineConfig
from bitstep_hw.boards.choice import parse_config


@pytest.mark.parametrize(("text", "config"), [
    ("bits=3,lookahead=1,max_features=64",
     PipelineConfig(bits=3, lookahead=1, max_features=64)),
    ("bits=8,lookahead=auto", PipelineConfig(bits=8).with_lookahead()),
    ("", PipelineConfig().with_lookahead()),
    ("minibatch=False,refetch=True", PipelineConfig(minibatch=False, refetch=True, lookahead=0)),
    ("bits=32,row_format=float32,update_interval=4,lookahead=2",
     PipelineConfig(bits=32, row_format="float32", update_interval=4, lookahead=2)),
    ("bits=4,batch_lookahead=7,update_interval=1",      # of the look-ahead that is chosen
     PipelineConfig(bits=4, update_interval=1, lookahead=15, batch_lookahead=7)),
])
def test_parse_config(text, config):
    assert parse_config(text) == config


def test_bit_plane_rows():
    bit_planes = PipelineConfig(bits=16, row_format="bit_planes", max_features=64, lookahead=1)
    assert parse_config("max_features=64,lookahead=1", bit_planes=True) == bit_planes
    assert parse_config("bits=16,row_format=bit_planes,max_features=64,lookahead=1") == bit_planes


@pytest.mark.parametrize(("text", "message"), [
    ("4", "A configuration must be field=value,..., such as bits=4, not '4'; fields are: bus_"),
    ("lanes=4", "'lanes' is no field of a configuration; fields are: bus_width, bits"),
    ("bits=four", "bits must be an integer, not 'four'"),
    ("minibatch=no", "minibatch must be True or False, not 'no'"),
    ("bits=9", "bits must be an integer from 1 to 8, not 9"),
    ("update_interval=1,batch_lookahead=30",
     "batch_lookahead of lookahead 15 must be an integer from 0 to 7, not 30"),
    ("bits=4,bits=8", "bits must be given once, not twice in 'bits=4,bits=8'; leave one out"),
    ("lookahead=auto,bits=4,lookahead=1", "lookahead must be given once"),
    ("batch_lookahead=7", "update_interval=2 does not go together|batch_lookahead=7 does not go"),
])
def test_bad_config(text, message):
    with pytest.raises(ValueError, match=message):
        parse_config(text)
