"""Files that are written whole, and text for people."""

import errno
import json
import math
import os
import stat
from pathlib import Path

import pytest

from bitstep.writing import (
    ReservedSpace,
    duration,
    first_of,
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


def test_a_file_that_cannot_be_made_is_named(tmp_path):
    path = tmp_path / "none" / "x.txt"
    with pytest.raises(FileNotFoundError) as error:
        write_text(path, "a")
    assert error.value.filename == str(path)    # and not the temporary one


def test_a_power_cut_leaves_a_whole_file(tmp_path, monkeypatch):
    """What is written is on the disk before the name, and then the folder, which has the name."""
    path, done, sync, replace = tmp_path / "x.txt", [], os.fsync, Path.replace

    def synced(descriptor):
        status = os.fstat(descriptor)
        done.append("folder" if stat.S_ISDIR(status.st_mode) else status.st_size)
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "replace", lambda *names: done.append("name") or replace(*names))
    write_text(path, "hello")
    assert done == [5, "name", "folder"]


def test_space_is_given_back(tmp_path, monkeypatch):
    sizes = {str(tmp_path / name): 1000 for name in "abc"}
    with ReservedSpace(sizes) as space:
        files = [*space._files.values()]
        assert [os.fstat(file.fileno()).st_size for file in files] == [1000] * 3
        space.release(str(tmp_path / "b"))
        assert [file.closed for file in files] == [False, True, False]
    assert all(file.closed for file in files)
    with ReservedSpace({str(tmp_path / "empty"): 0}):
        pass

    # A disk that is full at the third file: those before are given back, and it is named.
    made, allocate = [], os.posix_fallocate

    def full(descriptor, *place):
        made.append(descriptor)
        if len(made) == 3:
            raise OSError(errno.EDQUOT, "Disk quota exceeded")
        allocate(descriptor, *place)

    monkeypatch.setattr(os, "posix_fallocate", full)
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(OSError, match="Disk quota exceeded: 1,000 bytes are needed; free some, or "
                                      "choose another folder") as error:
        ReservedSpace(sizes)
    assert (error.value.errno, error.value.filename) == (errno.EDQUOT, str(tmp_path / "c"))
    assert len(os.listdir("/proc/self/fd")) == before


def test_text_and_json(tmp_path):
    path = tmp_path / "x.json"
    write_text(path, "é")
    assert path.read_text(encoding="utf-8") == "é"
    write_json(path, {"a": [1.5, math.inf], "b": (math.nan,)})
    assert json.loads(path.read_text()) == {"a": [1.5, None], "b": [None]}


def test_numbers_have_the_same_decimals():
    assert numbers([1.0, 25.5, None]) == ["1.00000", "25.50000", "-"]
    assert numbers([1e-9, 1.0], digits=2) == ["1.0e-09", "1.0e+00"]
    assert numbers([2e-6, 4e-6], digits=2) == ["2.0e-06", "4.0e-06"]
    assert numbers([0.0, 0.02, -3.0], digits=3) == ["0.0000", "0.0200", "-3.0000"]
    assert numbers([1.5, math.inf, math.nan]) == ["1.50000", "inf", "nan"]
    assert numbers([]) == []


@pytest.mark.parametrize("seconds, text", [
    (123.4, "123 s"), (1.5, "1.50 s"), (0.0123, "12.3 ms"), (4.5e-6, "4.50 us"),
    (12345, "12,345 s"), (100, "100 s"), (1, "1.00 s"), (1e-3, "1.00 ms")])
def test_duration(seconds, text):
    assert duration(seconds) == text


def test_lines_of_long_tables():
    assert shown_lines(50) == list(range(50))
    few = shown_lines(1000, also=[7])
    assert (len(few), few[0], few[-1]) == (51, 0, 999)
    assert 7 in few
    assert shown_lines(51, also=[0]) == shown_lines(51)


def test_lists_in_sentences():
    assert first_of([1, 2], 2) == "1, 2"
    assert first_of([1, 2, 3], 2, hex) == "0x1, 0x2, ..."


def test_columns_of_figures_are_to_the_right():
    table = text_table(["a", "b", "c"], [[0.123456789, "9 %", "4 bits"], [None, "10 %", "1"]])
    assert table.splitlines()[2:] == ["0.123457   9 %  4 bits", "       -  10 %  1"]


def test_table():
    assert text_table(["name", "n"], [["a", 1], ["bc", 10.5]]).splitlines() == [
        "name     n", "----  ----", "a        1", "bc    10.5"]
