"""Register tests: identity, every bit of every register, and those that writes do not change."""

from bitstep.devices.driver import read_identity
from bitstep.doctor.session import STUCK_REMEDY, NotDone, Session
from bitstep.pipeline.registers import (
    ADDRESS_WIDTH,
    MAP_VERSION,
    OFFSETS,
    REGISTERS,
    Control,
    Error,
    Status,
)

PATTERNS = (0, 0xFFFF_FFFF, 0x5555_5555, 0xAAAA_AAAA, *(1 << bit for bit in range(32)))
SHOWN = 4                   # registers that a finding names
_REMEDY = ("load the bitstream again and run bitstep doctor again; if the same bits are wrong, the "
           "bitstream does not fit the board (clock, timing) or the board is broken: send this "
           "report")
_TOP = 1 << ADDRESS_WIDTH


def identity(session: Session) -> None:
    """Compare version and identity with those that the device should have."""
    report = session.report
    version, wanted = session.read("VERSION"), session.device.identity
    report.check("version of the register map", version == MAP_VERSION, str(version),
                 expected=str(MAP_VERSION), remedy="load a bitstream that was built with this "
                 "version of bitstep; 0 or 4294967295 says that nothing answers at this address")
    found = read_identity(session.device.read)
    if version == MAP_VERSION and found == wanted:
        session.safe.add("identity")
    report.check("identity", found == wanted, f"{found:032x}",
                 expected=f"{wanted:032x}, as the manifest says", remedy="another bitstream is "
                 f"loaded: load the one that the manifest describes ({session.config.name})")


def patterns(session: Session) -> None:
    """Write patterns to every writable register, and then a different value to each."""
    session.need_idle()
    registers = _writable(session)
    wrong = wrong_patterns(session)
    if session.report.check(
            "bits of the writable registers", not wrong, f"{len(registers)} registers gave back "
            f"{len(PATTERNS)} patterns each (a one in each bit, all bits, every other bit), cut to "
            "their widths", wrong=_listed(wrong), expected=f"{len(registers)} registers give back "
            f"{len(PATTERNS)} patterns each, cut to their widths", remedy=_REMEDY):
        session.safe.add("bits")
    _addresses(session, registers)


def wrong_patterns(session: Session) -> list[str]:
    """Write patterns to every writable register; return what is wrong with each that gives back
    something else.
    """
    wrong = []
    for register in _writable(session):
        mask = (1 << register.width) - 1
        stuck_0 = stuck_1 = 0
        example = None
        for value in PATTERNS:
            session.write(register.name, value)
            found = session.read(register.name)
            if found != value & mask:
                stuck_0 |= value & mask & ~found
                stuck_1 |= found & ~(value & mask)
                example = example or (value & mask, found)
        if example:
            bits = [f"bits {_bits(bits)} read {level}"
                    for level, bits in ((0, stuck_0), (1, stuck_1)) if bits]
            wrong.append(f"{register.name} (0x{register.offset:03x}, {register.width} bits) gave "
                         f"0x{example[1]:08x} for 0x{example[0]:08x}: {', '.join(bits)} where they "
                         "should not")
    return wrong


def _addresses(session, registers):
    """Write a different value to each register, to see one that answers for another."""
    values = {register.name: (register.offset * 0x9E37_79B1 + 0x7F4A_7C15 & 0xFFFF_FFFF)
              % (1 << register.width) for register in registers}
    for name, value in values.items():
        session.write(name, value)
    wrong = [f"{name} (0x{OFFSETS[name]:03x}) gave 0x{found:08x} for 0x{value:08x}"
             for name, value in values.items() if (found := session.read(name)) != value]
    if session.report.check(
            "addresses of the writable registers", not wrong, "each kept a value of its own",
            wrong=_listed(wrong), expected="each register keeps its own value while the others are "
            "written", remedy=_REMEDY):
        session.safe.add("addresses")
    for register in registers:
        session.write(register.name, 0)


def _writable(session):
    return [register for register in session.config.registers if register.access == "rw"]


def read_only(session: Session) -> None:
    """Write to the registers that cannot be written, and to addresses without one."""
    session.need_idle()
    names = [register.name for register in REGISTERS if register.access == "ro"]
    before = {name: session.read(name) for name in names}
    for name in names:
        session.write(name, ~before[name] & 0xFFFF_FFFF)
    wrong = [f"{name} went from 0x{before[name]:08x} to 0x{found:08x}"
             for name in names if (found := session.read(name)) != before[name]]
    session.report.check(
        "read-only registers", not wrong, f"{len(names)}, unchanged by writes",
        wrong=_listed(wrong), expected=f"{len(names)} registers that writes do not change",
        remedy=_REMEDY)
    there = {register.offset for register in session.config.registers}
    absent = [register.offset for register in REGISTERS if register.offset not in there]
    empty = sorted({0x014, _TOP - 4, *absent} - there)
    for offset in empty:
        session.device.write(offset, 0xFFFF_FFFF)
    found = {offset: session.device.read(offset) for offset in [*empty, OFFSETS["CONTROL"]]}
    wrong = [f"0x{offset:03x} gave 0x{value:08x}" for offset, value in found.items() if value]
    session.report.check("addresses without a register", not wrong, "0", wrong=_listed(wrong),
                         expected="0", remedy=_REMEDY)


def empty_run(session: Session) -> None:
    """Start a run with all registers 0, which the pipeline must refuse without touching memory."""
    session.need_runs()
    for register in _writable(session):
        session.write(register.name, 0)
    session.write("CONTROL", Control.START)
    expected = f"STATUS 0x{Status.DONE | Status.FAILED:x}, ERROR {Error.BAD_CONFIGURATION.value}"
    ended = session.wait_done(min(session.timeout_s, 5.0))
    status, error = session.read("STATUS"), session.read("ERROR")
    refused = ended and status == Status.DONE | Status.FAILED and error == Error.BAD_CONFIGURATION
    session.report.check(
        "a run without rows is refused", refused, expected, expected=f"{expected}, at once",
        wrong=f"STATUS 0x{status:x}, ERROR {error}", remedy=STUCK_REMEDY)
    if not refused and not session.stop():
        raise NotDone("the run that should have been refused does not stop")


def _bits(mask):
    return ", ".join(str(bit) for bit in range(32) if mask >> bit & 1)


def _listed(entries):
    more = len(entries) - SHOWN
    return "; ".join(entries[:SHOWN]) + (f"; and {more} more" if more > 0 else "")
