"""Files of arrays with a JSON header and a checksum: NumPy's .npz, without pickle."""

import hashlib
import io
import json
import zipfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bitstep.data.npz import BROKEN
from bitstep.data.tables.files import is_stream
from bitstep.writing import write_bytes


@dataclass(frozen=True)
class FileKind:
    """A kind of file.

    Attributes
    ----------
    format, version : str, int
        Stored in the header.
    text : str
        Its name in a sentence, with its article.
    writer : str
        The command that writes it.
    remedy : str
        A way out for a damaged file.
    error : type
        Class of the errors, a subclass of ValueError.
    """

    format: str
    version: int
    text: str
    writer: str
    remedy: str
    error: type[ValueError]

    def write(self, path: str | Path, header: Mapping[str, Any],
              arrays: Mapping[str, np.ndarray]) -> None:
        """Write a file, whole or not at all.

        Parameters
        ----------
        path : path
        header : mapping
            Whatever JSON can hold.
        arrays : mapping of str to ndarray
        """
        text = json.dumps({"format": self.format, "version": self.version, **header},
                          sort_keys=True)
        content = io.BytesIO()
        members: dict[str, Any] = dict(arrays)
        # KeyboardInterrupt is raised in the main thread. Here it could come between two statements
        # of zipfile, which then ends with an error of a file that is open.
        with ThreadPoolExecutor(1) as pool:
            pool.submit(np.savez, content, header=np.array(text),
                        checksum=np.array(_digest(text, arrays)), **members).result()
        write_bytes(path, content.getvalue())

    def read(self, path: str | Path,
             *needed: str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Read a file, and check it.

        Parameters
        ----------
        path : path
        *needed : str
            Arrays that it must have.

        Returns
        -------
        header : dict
        arrays : dict of str to ndarray

        Raises
        ------
        ValueError
            Of class ``error``, if there is no file, it is of another kind or damaged, or another
            version wrote it.
        """
        other = f"this is not {self.text}"
        if is_stream(path):         # a pipe would be waited for
            raise self.error(f"{path}: {other} but standard input, a pipe or a device; give the "
                             f"file that {self.writer} wrote")
        if Path(path).is_file() and not zipfile.is_zipfile(path):
            # NumPy would suggest to load it as a pickle, which may run anything.
            raise self.error(f"{path}: {other}, or it is damaged; {self.writer} writes one")
        try:
            # Opened here, because np.load leaves a damaged archive open.
            with Path(path).open("rb") as stream, np.load(stream, allow_pickle=False) as file:
                if "header" not in file.files or "checksum" not in file.files:
                    raise self.error(f"{path}: {other}; {self.writer} writes one")
                text, checksum = str(file["header"]), str(file["checksum"])
                header = json.loads(text)
                if header.get("format") != self.format:
                    raise self.error(f"{path}: this is a file of format {header.get('format')!r}, "
                                     f"not {self.text}; {self.writer} writes one")
                if header["version"] != self.version:
                    raise self.error(f"{path}: the {self.text.partition(' ')[2]} has version "
                                     f"{header['version']}, this bitstep reads version "
                                     f"{self.version}; {self.remedy}")
                arrays = {name: file[name] for name in (*needed, *file.files)
                          if name not in ("header", "checksum")}
        except FileNotFoundError:
            raise self.error(f"{path}: there is no such file; check the path") from None
        except self.error:
            raise
        except (*BROKEN, ValueError, KeyError, AttributeError) as error:
            raise self.error(f"{path}: {other}, or it is damaged ({error}); "
                             f"{self.remedy}") from error
        if _digest(text, arrays) != checksum:
            raise self.error(f"{path}: the checksum does not match, so the file is damaged; "
                             f"{self.remedy}")
        return header, arrays


def _digest(text: str, arrays: Mapping[str, np.ndarray]) -> str:
    digest = hashlib.sha256(text.encode())
    for name, array in arrays.items():
        digest.update(f"{name} {array.shape} {array.dtype.str}".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
