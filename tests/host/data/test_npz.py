"""Where arrays lie in files, against what NumPy reads of them."""

import io
import zipfile

import numpy as np
import pytest

from bitstep.data.npz import (
    COMPRESSED,
    MappedFile,
    StoredArray,
    find_arrays,
    has_arrays,
    read_array_header,
)

GRID = np.arange(24.0).reshape(4, 6)
ARRAYS = {"rows": GRID, "columns": np.asfortranarray(GRID), "line": GRID[0], "part": GRID[:, ::2],
          "cube": np.asfortranarray(GRID.reshape(2, 3, 4)), "none": GRID[:0], "one": np.array(5),
          "text": np.array(["a", "bc"])}


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_arrays_are_where_they_are_found(tmp_path, save):
    path = tmp_path / "set.npz"
    save(path, **ARRAYS)
    found, mapped = find_arrays(path), MappedFile(path)
    assert list(found) == list(ARRAYS)
    for name, array in ARRAYS.items():
        assert (found[name].dtype, found[name].shape) == (array.dtype, array.shape)
        assert found[name].n_bytes == array.nbytes
        if save is np.savez:
            np.testing.assert_array_equal(mapped.array(found[name]), array)
        else:
            assert found[name].offset == COMPRESSED
    assert found["columns"].by_columns
    assert not found["rows"].by_columns
    assert not found["line"].by_columns     # whose values follow each other
    assert has_arrays(path, "rows", "one")
    assert not has_arrays(path, "rows", "other")
    assert not has_arrays(tmp_path, "rows")


def test_a_member_that_is_elsewhere(tmp_path):
    path = tmp_path / "set.npz"
    np.savez(path, x=GRID)
    path.write_bytes(b"X" + path.read_bytes()[1:])
    with pytest.raises(zipfile.BadZipFile, match=r"x\.npy is not where the archive says"):
        find_arrays(path)


def test_a_member_that_ends_behind_the_file(tmp_path):
    """Its header and the list of the archive agree."""
    path = tmp_path / "set.npz"
    np.savez(path, x=GRID)
    content, more = path.read_bytes().replace(b"(4, 6)", b"(9, 6)"), 5 * 6 * 8
    place = content.index(b"PK\x01\x02") + 20
    sizes = np.frombuffer(content[place:place + 8], "<u4") + np.uint32(more)
    path.write_bytes(content[:place] + sizes.astype("<u4").tobytes() + content[place + 8:])
    with pytest.raises(zipfile.BadZipFile, match=r"x\.npy ends behind the file"):
        find_arrays(path)


def test_bytes_of_shapes_that_no_file_has():
    assert StoredArray(np.dtype(np.float64), (1 << 40, 1 << 30), False, 0).n_bytes == 1 << 73


def written(array, version=None):
    file = io.BytesIO()
    np.lib.format.write_array(file, array, version)
    return file.getvalue()


def test_longer_headers():
    content = io.BytesIO(written(GRID, (2, 0)))
    found = read_array_header(content)
    assert content.read() == GRID.tobytes()
    assert found.shape == (4, 6)


@pytest.mark.parametrize("content, message", [
    (written(GRID) + bytes(8), r"x\.npy holds 200 bytes of values, not the 192 of its shape"),
    (written(GRID)[:-8], r"x\.npy holds 184 bytes of values, not the 192 of its shape"),
    (written(np.array([{}])), "an array of Python objects cannot be read, because it may run"),
    (written(np.zeros(1, [("\N{SNOWMAN}", float)]), (3, 0)), "the array has version 3.0 of the"),
    (b"no array", "magic string")])
@pytest.mark.parametrize("kind", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_members_that_are_no_arrays(tmp_path, content, message, kind):
    with zipfile.ZipFile(tmp_path / "set.npz", "w", kind) as archive:
        archive.writestr("x.npy", content)
    with pytest.raises(ValueError, match=message):
        find_arrays(tmp_path / "set.npz")
