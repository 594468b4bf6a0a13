"""Arrays of ``.npy`` and ``.npz`` files: where their bytes are, and maps of them."""

import lzma
import mmap
import os
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

try:                        # Python 3.14 and later
    from compression.zstd import ZstdError  # type: ignore[import-not-found]
except ImportError:
    ZstdError = zipfile.BadZipFile

COMPRESSED = -1             # in place of an offset
# What reading a file raises that is damaged, or of a kind that Python does not read, as with a
# password; a ValueError besides.
BROKEN = (OSError, EOFError, RuntimeError, lzma.LZMAError, zlib.error, ZstdError,
          zipfile.BadZipFile, tokenize.TokenError)
_LOCAL_HEADER = struct.Struct("<4s22xHH")       # of a zip member: signature, lengths of two fields


class StoredArray(NamedTuple):
    """An array in a file.

    Attributes
    ----------
    dtype : dtype
    shape : tuple of int
    by_columns : bool
        True if its columns are contiguous (Fortran order), False if its rows are.
    offset : int
        Bytes before its first value; :data:`COMPRESSED` if there is no such place.
    """

    dtype: np.dtype
    shape: tuple[int, ...]
    by_columns: bool
    offset: int

    @property
    def n_bytes(self) -> int:
        """Bytes of the values."""
        return self.dtype.itemsize * int(np.prod(self.shape, dtype=object))


def has_arrays(path: str | Path, *names: str) -> bool:
    """True if a file is an .npz that holds arrays of these names."""
    if not Path(path).is_file():    # a pipe would be waited for, and emptied
        return False
    try:
        with zipfile.ZipFile(path) as file:
            return {f"{name}.npy" for name in names} <= set(file.namelist())
    except BROKEN:
        return False


def read_array_header(file: BinaryIO) -> StoredArray:
    """Read the header of an array in NumPy's format; the file is at its start.

    Raises
    ------
    ValueError, or one of BROKEN
        If there is no such header, or the array holds Python objects.
    """
    version = np.lib.format.read_magic(file)
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"the array has version {version[0]}.{version[1]} of the format, which "
                         "holds no numbers")
    read: Any = np.lib.format.read_array_header_1_0 if version == (1, 0) \
        else np.lib.format.read_array_header_2_0
    try:
        shape, by_columns, dtype = read(file)
    except tokenize.TokenError as error:
        raise OSError("the header of the array is damaged") from error
    if dtype.hasobject:
        raise ValueError("an array of Python objects cannot be read, because it may run anything")
    # An array of one dimension has both orders; its values follow each other.
    return StoredArray(dtype, shape, by_columns and len(shape) > 1, file.tell())


def find_arrays(path: Path) -> dict[str, StoredArray]:
    """Find the arrays of an ``.npz`` file by name.

    Raises
    ------
    ValueError, or one of BROKEN
        If the file is missing, damaged or cut short, or a member is no array.
    """
    arrays = {}
    with path.open("rb") as raw, zipfile.ZipFile(raw) as archive:
        size = os.fstat(raw.fileno()).st_size
        for member in archive.infolist():
            name = member.filename
            if not name.endswith(".npy"):
                continue
            if member.compress_type == zipfile.ZIP_STORED:
                raw.seek(member.header_offset)
                header = raw.read(_LOCAL_HEADER.size)
                if header[:4] != b"PK\x03\x04" or len(header) < _LOCAL_HEADER.size:
                    raise zipfile.BadZipFile(f"{name} is not where the archive says")
                start = raw.tell() + sum(_LOCAL_HEADER.unpack(header)[1:])
                raw.seek(start)
                array = read_array_header(raw)
                header_bytes = array.offset - start
                if start + member.file_size > size:
                    raise zipfile.BadZipFile(f"{name} ends behind the file")
            else:
                with archive.open(member) as file:
                    array = read_array_header(file)     # type: ignore[arg-type]
                header_bytes, array = array.offset, array._replace(offset=COMPRESSED)
            if header_bytes + array.n_bytes != member.file_size:
                raise ValueError(f"{name} holds {member.file_size - header_bytes} bytes of values, "
                                 f"not the {array.n_bytes} of its shape {array.shape}")
            arrays[name[:-len(".npy")]] = array
    return arrays


def check_sums(path: Path, names: Iterable[str]) -> None:
    """Read arrays of an ``.npz`` file that are not compressed, for their checksums alone: whoever
    reads their rows where they are sees none of them.

    Raises
    ------
    One of BROKEN
        If the values are not those that were written.
    """
    with zipfile.ZipFile(path) as archive:
        for name in names:
            member = archive.getinfo(f"{name}.npy")
            if member.compress_type == zipfile.ZIP_STORED:
                with archive.open(member) as file:
                    while file.read(1 << 20):
                        pass


class MappedFile:
    """The bytes of a file in memory, read by the system when they are touched.

    Parameters
    ----------
    path : Path
        A file that is not empty. If somebody cuts it short while it is mapped, a read beyond its
        end stops the process.
    """

    def __init__(self, path: Path):
        with path.open("rb") as file:
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)

    def array(self, stored: StoredArray) -> np.ndarray:
        """A read-only view of an array that is not compressed.

        Raises
        ------
        ValueError
            If the file is too short for it.
        """
        assert stored.offset != COMPRESSED
        return np.ndarray(stored.shape, stored.dtype, self._map, stored.offset,
                          order="F" if stored.by_columns else "C")

    def release(self) -> None:
        """Give the memory back to the system, which reads the bytes again when they are touched.

        So that a pass over the file does not keep all of it in memory.
        """
        if hasattr(mmap, "MADV_DONTNEED"):
            self._map.madvise(mmap.MADV_DONTNEED)
