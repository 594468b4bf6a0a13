"""The bus width that a training takes when nobody says one: that of the board's bitstreams."""

import dataclasses
import sys

import numpy as np
import pytest
from fake_pynq import FakePynq, write_bitstream

from bitstep import LowPrecisionRegressor
from bitstep.cli import main
from bitstep.options.rules import Request
from bitstep.options.words import PYTHON
from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.results import DeviceError
from bitstep.training.choices import check_options

WIDE = PipelineConfig(bits=4, bus_width=128, row_ports=2, max_features=64)
NARROW = PipelineConfig(bits=2, max_features=64)


@pytest.fixture(autouse=True)
def board(tmp_path, monkeypatch):
    """A board with a wide bitstream for 4 bits and a narrow one for 2."""
    monkeypatch.setenv("BITSTEP_BITSTREAMS", str(tmp_path))
    for config in (WIDE, NARROW):
        write_bitstream(tmp_path, config, name=config.name)
    monkeypatch.setitem(sys.modules, "pynq", FakePynq(WIDE))


def trained(*arguments):
    return main(["train", *map(str, arguments), "--device", "pynq", "--solver", "sgd",
                 "--epochs", "2"])


def test_nobody_says_one(tmp_path, capsys):
    assert trained("diabetes", "--bits", 4) == 0
    assert "4 bits compensated, device pynq" in capsys.readouterr().out
    model = LowPrecisionRegressor(bits=4, device="pynq", solver="sgd", epochs=2, random_state=0)
    golden = LowPrecisionRegressor(bits=4, device="golden", solver="sgd", epochs=2, random_state=0)
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(50, 30)), rng.normal(size=50)
    np.testing.assert_array_equal(model.fit(X, y).coef_, golden.fit(X, y).coef_)


def test_a_file_that_was_made_elsewhere(tmp_path, capsys):
    """Quantized for a bus of 64 bits, as is the default where there is no board."""
    stored = tmp_path / "rows.npz"
    main(["quantize", "diabetes", "--bits", "4", "--out", str(stored)])
    assert trained(stored) == 0
    assert "4 bits compensated, device pynq" in capsys.readouterr().out


PROXIMAL = PipelineConfig(bits=4, max_features=64, proximal=True)
ASKED = [       # parts of a pipeline, and what asks for them
    ({"proximal": True}, {"l1": 0.01}), ({"proximal": True}, {"box": 0.5}),
    ({"refetch": True, "lookahead": 0}, {"model": "svm", "refetch": True}),
    ({"codebooks": True}, {"levels": "optimal"}), ({"rounded_updates": True}, {"update_bits": 8}),
    ({"model_bits": 8}, {"model_bits": 6}),
]


@pytest.mark.parametrize("parts, asked", ASKED, ids=lambda values: " ".join(values))
def test_only_a_narrow_one_has_the_parts(parts, asked):
    """The wider one for such rows cannot run the training, so its bus is of no use."""
    narrow = dataclasses.replace(WIDE, bus_width=64, row_ports=1, **parts)
    request = Request(PYTHON, {"model": "linreg", "solver": "sgd", "bits": 4, **asked},
                      facts={"built": [narrow, WIDE]})
    assert check_options(request)["bus_width"] == 64
    missing = dataclasses.replace(request, facts={"built": [WIDE]})     # opening it says so
    assert check_options(missing)["bus_width"] == 128


def test_training_on_a_narrow_one_with_the_part(tmp_path, monkeypatch, capsys):
    write_bitstream(tmp_path, PROXIMAL, name=PROXIMAL.name)
    monkeypatch.setitem(sys.modules, "pynq", FakePynq(PROXIMAL))
    assert trained("diabetes", "--bits", 4, "--l1", 0.01, "--train-rows", 50) == 0
    assert "device pynq" in capsys.readouterr().out


def test_only_a_narrow_one_has_room(tmp_path, monkeypatch, capsys):
    config = PipelineConfig(bits=4, max_features=256)
    write_bitstream(tmp_path, config, name=config.name)
    monkeypatch.setitem(sys.modules, "pynq", FakePynq(config))
    assert trained("synthetic-100", "--bits", 4, "--train-rows", 50) == 0
    assert "device pynq" in capsys.readouterr().out


def test_what_is_asked_for_counts(capsys):
    assert trained("diabetes", "--bits", 4, "--bus-width", 64) == 1
    assert "for 4 bits, a 64-bit bus" in capsys.readouterr().err
    with pytest.raises(DeviceError, match="for 3 bits, a 64-bit bus"):
        LowPrecisionRegressor(bits=3, device="pynq", solver="sgd").fit(np.eye(9), np.arange(9.0))
