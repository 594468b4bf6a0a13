"""Files that are written whole, and text for people."""

import json
import math

import pytest

from bitstep.writing import (
    duration,
    numbers,
    shown_lines,
    text_table,
    whole_file,
    write_json,
    write_text,
)


def test_a_whole_file_takes_its_name_at_the_end(tmp_path):
    path = tmp_path / "x.txt"
    path.write_text("old")
    with whole_file(path) as temporary:
        assert temporary.parent == tmp_path
        temporary.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


def test_an_error_leaves_the_file_as_it_was(tmp_path):
    path = tmp_path / "x.txt"
    path.write_text("old")

    def interrupted():
        with whole_file(str(path)) as temporary:
            temporary.write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_the_file_of_a_link_is_written(tmp_path):
    """A link stays one: as root, /dev/stdout would be gone for the whole machine."""
    link, path = tmp_path / "link.txt", tmp_path / "folder" / "x.txt"
    path.parent.mkdir()
    link.symlink_to(path)
    for text in ("new", "newer"):
        write_text(link, text)
        assert link.is_symlink()
        assert path.read_text() == text
    assert list(path.parent.iterdir()) == [path]


def test_the_longest_name_of_a_file(tmp_path):
    write_text(tmp_path / (250 * "x" + ".json"), "{}")
    write_text(tmp_path / (63 * "\N{GRINNING FACE}"), "{}")


def test_nothing_written_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError), whole_file(tmp_path / "x.txt"):
        pass


def test_text_and_json(tmp_path):
    path = tmp_path / "x.json"
    write_text(path, "é")
    assert path.read_text(encoding="utf-8") == "é"
    write_json(path, {"a": [1.5, math.inf], "b": (math.nan,)})
    assert json.loads(path.read_text()) == {"a": [1.5, None], "b": [None]}


def test_numbers_have_the_same_decimals():
    assert numbers([1.0, 25.5, None]) == ["1.00000", "25.50000", "-"]
    assert numbers([1e-9, 1.0], digits=2) == ["1.0e-09", "1.0e+00"]


@pytest.mark.parametrize("seconds, text", [
    (123.4, "123 s"), (1.5, "1.50 s"), (0.0123, "12.3 ms"), (4.5e-6, "4.50 us")])
def test_duration(seconds, text):
    assert duration(seconds) == text


def test_lines_of_long_tables():
    assert shown_lines(50) == list(range(50))
    few = shown_lines(1000, also=[7])
    assert (len(few), few[0], few[-1]) == (51, 0, 999)
    assert 7 in few
    assert shown_lines(51, also=[0]) == shown_lines(51)


def test_table():
    assert text_table(["name", "n"], [["a", 1], ["bc", 10.5]]).splitlines() == [
        "name     n", "----  ----", "a        1", "bc    10.5"]
