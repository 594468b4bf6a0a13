"""Remains of earlier programs on a board: a run that a killed one left, and pynq's own notes.

A program that is killed stops neither the pipeline nor its reads. Loading a bitstream then would
cut them off in the middle, which can hang the memory ports and Linux with them. So each device
leaves a mark while it is open, and the next one ends what the mark tells of.
"""

import contextlib
import json
import time
import uuid
from pathlib import Path
from typing import Any

from bitstep.devices.driver import ABORT_TIMEOUT_S, read_identity
from bitstep.pipeline.registers import ADDRESS_WIDTH, OFFSETS, Control, Status
from bitstep.pipeline.results import DeviceError

MARK = Path("/run/bitstep-open.json")       # in memory: as the FPGA, empty after a reboot


def leave_mark(path: Path, address: int, identity: int) -> str:
    """Note that a program is using the pipeline; return the note, which equals no other
    one, or nothing if it cannot be left.

    Parameters
    ----------
    path : Path
        The .bit that was loaded.
    address : int
        Address of its registers.
    identity : int
        The number in its IDENTITY registers.
    """
    text = json.dumps({"path": str(path), "address": address, "identity": f"{identity:032x}",
                       "by": uuid.uuid4().hex})
    try:
        MARK.write_text(text, encoding="utf-8")
    except OSError:             # nothing is ended then by the next one
        return ""
    return text


def taken(mark: str) -> bool:
    """True if somebody else has left a mark since: the run on the board, if any, is theirs."""
    try:
        return bool(mark) and MARK.read_bytes() != mark.encode()
    except OSError:
        return False


def unmarked() -> bool:
    """True if nobody's mark is there."""
    return not MARK.exists()


def remove_mark() -> None:
    """Note that nobody is using the pipeline."""
    with contextlib.suppress(OSError):
        MARK.unlink()


def end_left_run(pynq: Any) -> None:
    """End the run of a program that was killed, if its pipeline is still on the FPGA.

    Nothing is read from the FPGA without the mark, and unless pynq says that the same bitstream is
    the last it loaded: reading where nothing answers can hang the processor.

    Raises
    ------
    DeviceError
        If the run does not end.
    """
    loaded = _last_loaded(pynq)
    try:
        mark = json.loads(MARK.read_text(encoding="utf-8"))
        path, address, identity = mark["path"], int(mark["address"]), int(mark["identity"], 16)
    except (OSError, ValueError, KeyError, TypeError):
        return
    if loaded == path:
        try:
            registers = pynq.MMIO(address, 1 << ADDRESS_WIDTH)
            found = read_identity(registers.read)
        except (OSError, RuntimeError) as error:
            raise DeviceError(
                "A program that was killed may have left a run on the FPGA, and its registers "
                f"cannot be read: {type(error).__name__}: {error}. Run this as root, in a login "
                "shell (sudo -i)") from error
        if found == identity and not ended(registers):
            raise DeviceError(
                "A program that was killed left a run on the FPGA, which does not end within "
                f"{ABORT_TIMEOUT_S:g} s of its abort; loading a bitstream now could hang the "
                "board: switch it off and on")
    remove_mark()


def ended(registers: Any) -> bool:
    """Abort a run that is under way; False if it does not end in time.

    Parameters
    ----------
    registers
        Of a pipeline: ``read`` and ``write`` at offsets.
    """
    deadline = time.monotonic() + ABORT_TIMEOUT_S
    if registers.read(OFFSETS["STATUS"]) & Status.BUSY:
        registers.write(OFFSETS["CONTROL"], int(Control.ABORT))
    while registers.read(OFFSETS["STATUS"]) & Status.BUSY:
        if time.monotonic() >= deadline:
            return False
        time.sleep(0.001)
    return True


def _last_loaded(pynq):
    """Path of the bitstream that pynq, in any process, loaded last; None if it knows of none."""
    try:
        return pynq.PL.bitfile_name
    except (OSError, ValueError, RuntimeError, AttributeError):
        # Its notes are of a file that is no longer there, and would keep it from loading another.
        forget_descriptions()
        return None


def forget_descriptions() -> None:
    """Make pynq read the .hwh of the next bitstream, and not what it remembers.

    Version 3.0 takes the checksum of the .bit that it loaded last when it compares, and not when
    it loads: so a file that was written over in place keeps the description of the one before. All
    versions keep it where the .hwh alone is new.
    """
    try:
        from pynq.pl_server import global_state  # type: ignore
    except ImportError:
        return
    with contextlib.suppress(OSError):
        global_state.clear_global_state()


def prepare_for_new_files() -> None:
    """Make it safe to write over files of bitstreams: end a run that a killed program left, and
    make pynq forget what it knows of them. Do nothing where there is no pynq.
    """
    with contextlib.suppress(ImportError):
        import pynq  # type: ignore
        end_left_run(pynq)
        forget_descriptions()
