"""The table of speeds: a row for every codec, with and without torch, in NumPy too."""

import sys

import numpy as np
import pytest

from bitstep_gradients import kernels, list_codecs, make_codec
from bitstep_gradients.lab import codec_speed


def rows_of(capsys, monkeypatch, *arguments) -> tuple[str, list[list[str]]]:
    """The first line that the report prints, and the cells of its table."""
    options = ["--values", "3000", "--turns", "2"]
    monkeypatch.setattr(sys, "argv", ["codec_speed", *arguments, *options])
    codec_speed.main()
    first, _, head, _, *rows = capsys.readouterr().out.splitlines()
    return first, [[cell.strip() for cell in line.split("|")[1:-1]] for line in (head, *rows)]


@pytest.mark.slow
def test_every_codec_has_a_row(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    first, (_, *rows) = rows_of(capsys, monkeypatch)
    assert "torch is not installed" in first
    assert list(dict.fromkeys(name for name, *_ in rows)) == list_codecs()
    bits = {(name, options): float(bits) for name, options, bits, *_ in rows}
    assert 32 < bits["none", ""] < 32.1
    assert 8 < bits["dqsg", "bits=8"] < 8.1


def test_ratios_to_other_work(capsys, monkeypatch):
    """Work that takes 20 ms of the processor, in place of torch's."""
    def work():
        end = codec_speed.time.process_time() + 0.02
        while codec_speed.time.process_time() < end:
            pass

    monkeypatch.setattr(codec_speed, "torch_work", lambda values: {"operators": work})
    first, (head, row) = rows_of(capsys, monkeypatch, "none")
    assert "torch, operators: 2" in first
    assert head[-1] == "/ torch operators"
    assert 0 <= float(row[-1]) < 1


def test_a_row_by_hand(monkeypatch):
    """Medians of the turns, and ratios within a turn, of encoding and decoding together."""
    times = iter([2.0, 3.0, 5.0, 4.0, 1.0, 1.0, 1.0, 2.0, 7.0])     # other work, encode, decode
    monkeypatch.setattr(codec_speed, "seconds", lambda work: next(times))
    codec, values = make_codec("fp16"), np.zeros(1000, np.float32)
    found = codec_speed.measure(codec, values, values, {"other": lambda: None}, 3)
    n_bytes = len(codec.encode(values, codec_speed.KEY))
    assert found == {"encode": 2, "decode": 5, "other": 4, "bits": 8 * n_bytes / 1000}


def test_without_compiled_loops(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    before, right = kernels.find_kernels(), codec_speed.measure
    found = []

    def measure(*arguments):
        found.append(kernels.find_kernels())
        return right(*arguments)

    monkeypatch.setattr(codec_speed, "measure", measure)
    first, (_, row) = rows_of(capsys, monkeypatch, "terngrad", "--numpy")
    assert found == [None]
    assert "loops in NumPy" in first
    assert (row[0], row[2]) != ("", "")
    assert kernels.find_kernels() is before


def test_name_that_is_no_codec(capsys, monkeypatch):
    with pytest.raises(SystemExit):
        rows_of(capsys, monkeypatch, "morse")
    assert "must be one of none" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--values", "--turns"])
def test_numbers_that_are_too_small(option, capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["codec_speed", "none", "--values", "9", option, "0"])
    with pytest.raises(SystemExit):
        codec_speed.main()
    assert f"{option}: must be an integer of at least 1, not '0'" in capsys.readouterr().err
