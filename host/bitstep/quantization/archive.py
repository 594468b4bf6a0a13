"""Archives of arrays (``.npz``) that are written piece by piece, to be mapped into memory."""

import contextlib
import io
import shutil
import struct
import zlib
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO

import numpy as np

from bitstep.writing import whole_file

RawFile = BinaryIO | io.FileIO
Arrays = dict[str, tuple[np.dtype, tuple[int, ...]]]    # dtype and shape, by name

ALIGNMENT = 64              # of an array's first byte: a line of a cache
_BIG = 0xFFFFFFFF           # stands for a number in the 64-bit field
_DATE = 0x0021              # 1 January 1980: the same arrays give the same file
_VERSION = 45               # of zip that knows 64-bit sizes
_PADDING = 0xD935           # kind of a field that aligns what follows


class _Member:
    """An array in the archive: its place, and sums over the bytes written so far."""

    def __init__(self, name: str, dtype: np.dtype, shape: tuple[int, ...], start: int):
        stream = io.BytesIO()
        np.lib.format.write_array_header_1_0(stream, {
            "descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape})
        self.name, self.dtype, self.shape = f"{name}.npy".encode("ascii"), dtype, shape
        self.header = stream.getvalue()
        self.size = len(self.header) + dtype.itemsize * int(np.prod(shape, dtype=object))
        self.start = start
        # Local header, name, sizes of 64 bits, and a field of at least 6 bytes that pads.
        self.padding = 6 + -(start + 30 + len(self.name) + 20 + 6) % ALIGNMENT
        self.data = start + 30 + len(self.name) + 20 + self.padding
        self.end = self.data + self.size
        self.written = len(self.header)
        self.crc, self.digest = zlib.crc32(self.header), sha256()

    def local_header(self) -> bytes:
        """Bytes before the array."""
        fields = struct.pack("<HHQQ", 1, 16, self.size, self.size) \
            + struct.pack("<HHH", _PADDING, self.padding - 4, ALIGNMENT) \
            + bytes(self.padding - 6)
        return struct.pack("<4s5H3I2H", b"PK\x03\x04", _VERSION, 0, 0, 0, _DATE, self.crc, _BIG,
                           _BIG, len(self.name), len(fields)) + self.name + fields + self.header

    def entry(self) -> bytes:
        """Its entry in the directory at the end."""
        fields = struct.pack("<HHQQQ", 1, 24, self.size, self.size, self.start)
        return struct.pack("<4s6H3I5H2I", b"PK\x01\x02", _VERSION, _VERSION, 0, 0, 0, _DATE,
                           self.crc, _BIG, _BIG, len(self.name), len(fields), 0, 0, 0,
                           0o644 << 16, _BIG) + self.name + fields


class ArchiveWriter:
    """An ``.npz`` file, not compressed, whose large arrays grow side by side.

    Every array starts at a multiple of 64 bytes. The same arrays give the same bytes, in pieces of
    any size.

    Parameters
    ----------
    file : RawFile
        File to write, without a buffer.
    arrays : dict of str to (dtype, shape)
        Arrays that :meth:`append` writes, in the order of the file.
    path : Path
        Its name, for messages.
    """

    def __init__(self, file: RawFile, arrays: Arrays, path: Path):
        self._file, self._path, self._members, self._end = file, path, {}, 0
        for name, (dtype, shape) in arrays.items():
            self._place(name, dtype, shape)

    def append(self, name: str, piece: np.ndarray) -> None:
        """Write the next values of an array."""
        member = self._members[name]
        content = np.ascontiguousarray(piece, member.dtype).data.cast("B")
        assert member.written + len(content) <= member.size, f"{name} is too long"
        self._write(member.data + member.written, content)
        member.written += len(content)
        member.crc = zlib.crc32(content, member.crc)
        member.digest.update(content)

    def add(self, name: str, array: np.ndarray) -> None:
        """Write a whole array behind the others."""
        self._place(name, array.dtype, array.shape)
        if array.size:
            self.append(name, array)

    def checksums(self) -> dict[str, str]:
        """SHA-256 of the values of every array so far, which must be complete."""
        self._check_complete()
        return {name: member.digest.hexdigest() for name, member in self._members.items()}

    def finish(self) -> None:
        """Write the headers and the directory."""
        self._check_complete()
        for member in self._members.values():
            self._write(member.start, member.local_header())
        entries = b"".join(member.entry() for member in self._members.values())
        count, start, end = len(self._members), self._end, self._end + len(entries)
        self._write(start, entries + struct.pack(
            "<4sQ2H2I4Q", b"PK\x06\x06", 44, _VERSION, _VERSION, 0, 0, count, count,
            len(entries), start) + struct.pack("<4sIQI", b"PK\x06\x07", 0, end, 1) + struct.pack(
            "<4s4H2IH", b"PK\x05\x06", 0, 0, min(count, 0xFFFF), min(count, 0xFFFF),
            min(len(entries), _BIG), _BIG, 0))

    def _place(self, name, dtype, shape):
        member = _Member(name, np.dtype(dtype), tuple(shape), self._end)
        self._members[name], self._end = member, member.end

    def _check_complete(self):
        for name, member in self._members.items():
            assert member.written == member.size, f"{name} is not complete"

    def _write(self, offset, content):
        write_at(self._file, offset, content, self._path)


@contextlib.contextmanager
def open_archive(path: Path, arrays: Arrays) -> Iterator[ArchiveWriter]:
    """Write an archive that takes its name when the block is over.

    Parameters
    ----------
    path : Path
    arrays : dict of str to (dtype, shape)
        See :class:`ArchiveWriter`.

    Raises
    ------
    OSError
        If the file cannot be written; the message names it.
    """
    with whole_file(path) as temporary, temporary.open("wb", buffering=0) as file:
        writer = ArchiveWriter(file, arrays, path)
        yield writer
        writer.finish()


def write_at(file: RawFile, offset: int, content: "bytes | memoryview", path: Path) -> None:
    """Write bytes at an offset of a file.

    Parameters
    ----------
    file : RawFile
        Open for writing, without a buffer.
    path : Path
        File that a user asked for, for the message of an error.

    Raises
    ------
    OSError
        If they cannot be written; the message names ``path``.
    """
    view = memoryview(content)
    try:
        while len(view):
            done = _write_some(file, offset, view)
            view, offset = view[done:], offset + done
    except OSError as error:
        raise OSError(f"{path} cannot be written ({error.strerror}); a file that was there is "
                      "unchanged") from error


def _write_some(file, offset, view):
    """Write what the system takes at once; return the number of bytes."""
    file.seek(offset)
    return file.write(view)


def archive_bytes(arrays: Arrays) -> int:
    """Bytes of an archive of these arrays."""
    end = entries = 0
    for name, (dtype, shape) in arrays.items():
        member = _Member(name, np.dtype(dtype), tuple(shape), end)
        end, entries = member.end, entries + len(member.entry())
    return end + entries + 98


def check_space(path: Path, needed: int, purpose: str) -> None:
    """Raise OSError unless a file's folder has room for it.

    Parameters
    ----------
    path : Path
        The file that will be written.
    needed : int
        Bytes.
    purpose : str
        What they are for, in the message.
    """
    folder = path.absolute().parent
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise OSError(f"{path} cannot be written: {needed:,} bytes are needed ({purpose}), and "
                      f"{free:,} are free in {folder}; make room, or write to another folder")
