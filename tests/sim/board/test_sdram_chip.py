"""The model of the chip finds every way to break its data sheet, and nothing else."""

from dataclasses import replace

import pytest

from bitstep_sim.board.sdram_chip import (
    ALLIANCE_7,
    FLOATING,
    MICRON_75,
    SdramChip,
    SdramViolation,
)

NOP, ACTIVE, READ, WRITE, PRECHARGE, REFRESH, LOAD_MODE, TERMINATE = (
    (1, 1, 1), (0, 1, 1), (1, 0, 1), (1, 0, 0), (0, 1, 0), (0, 0, 1), (0, 0, 0), (1, 1, 0))
ALL, CAS_2 = 1 << 10, 0b010_0_010       # bursts of 4


class Pins:
    """A chip at 100 MHz, 10 ns a cycle, and what is given to it."""

    def __init__(self, part=MICRON_75, *, clock_hz=1e8, row_bits=13, power_up_ns=1000):
        self.chip = SdramChip(clock_hz=clock_hz, part=part, row_bits=row_bits,
                              power_up_ns=power_up_ns)
        self.cycle = -1

    def give(self, command=NOP, *, after=1, a=0, ba=0, dqm=0, d_o=None, cke=1):
        """One edge, ``after`` cycles after the last one; what the pins carry."""
        for _ in range(after - 1):
            self.give()
        self.cycle += 1
        ras, cas, we = command
        return self.chip.edge(self.cycle, cke=cke, csn=0, rasn=ras, casn=cas, wen=we, a=a, ba=ba,
                              dqm=dqm, d_o=d_o or 0, d_oe=d_o is not None)

    def initialise(self, *, mode=CAS_2):
        self.give(PRECHARGE, after=130, a=ALL)
        self.give(REFRESH, after=3)
        self.give(REFRESH, after=9)
        self.give(LOAD_MODE, after=9, a=mode)
        return self

    def open(self, row=3, ba=0):
        self.give(ACTIVE, after=8, a=row, ba=ba)
        return self

    def write(self, words, *, a=0, ba=0, after=2, masks=(0, 0, 0, 0)):
        for number, (word, mask) in enumerate(zip(words, masks, strict=True)):
            self.give(NOP if number else WRITE, after=1 if number else after, a=a, ba=ba, d_o=word,
                      dqm=mask)

    def read(self, *, a=0, ba=0, latency=2):
        """What the pins carry from the command on, for 8 edges."""
        return [self.give(READ, after=2, a=a, ba=ba), *(self.give() for _ in range(7))]


def test_what_is_written_is_read():
    pins = Pins().initialise().open()
    pins.write([0x1111, 0x2222, 0x3333, 0x4444], a=8)
    pins.write([0xABCD] * 4, a=8, masks=(0, 1, 2, 3), after=1)
    assert pins.read(a=8) == [FLOATING] * 2 + [0xABCD, 0xAB22, 0x33CD, 0x4444] + [FLOATING] * 2


def test_bursts_wrap_and_follow_each_other():
    pins = Pins().initialise().open()
    pins.write([1, 2, 3, 4], a=4)
    pins.write([5, 6, 7, 8], a=0, after=1)
    found = [pins.give(READ, a=6, after=1), *(pins.give() for _ in range(3)),
             pins.give(READ, a=0), *(pins.give() for _ in range(7))]
    assert found == [FLOATING] * 2 + [3, 4, 1, 2, 5, 6, 7, 8] + [FLOATING] * 2


@pytest.mark.parametrize("latency", [2, 3])
def test_latency(latency):
    pins = Pins().initialise(mode=latency << 4 | 2).open()
    pins.write([1, 2, 3, 4])
    assert pins.read().index(1) == latency


def test_a_mask_hides_what_is_read_two_cycles_later():
    pins = Pins().initialise().open()
    pins.write([0x1111, 0x2222, 0x3333, 0x4444])
    found = [pins.give(READ, after=2), pins.give(dqm=3), *(pins.give() for _ in range(4))]
    assert found[2:] == [0x1111, FLOATING, 0x3333, 0x4444]


def test_other_rows_and_banks_are_others():
    pins = Pins().initialise()
    for ba in range(4):
        for row in (0, 8191):
            pins.open(row, ba)
            pins.write([ba << 14 | row] * 4, ba=ba)
            pins.give(PRECHARGE, after=4, ba=ba)
    for ba in range(4):
        pins.open(8191, ba)
        assert pins.read(ba=ba)[2] == ba << 14 | 8191


def early(rule, prepare, command, cycles, **options):
    """A command is allowed ``cycles`` after what was before, and not one cycle earlier."""
    return pytest.param(rule, prepare, command, cycles, options, id=f"{rule}-{cycles}")


def opened(pins):
    pins.initialise().open()


def closed(pins):
    pins.initialise().open()
    pins.give(PRECHARGE, after=8)


def written(pins):
    pins.initialise().open()
    pins.write([1, 2, 3, 4], after=6)


def reopened(pins):
    """Closed as early as may be, 5 cycles after its row was opened."""
    pins.initialise().open()
    pins.give(PRECHARGE, after=5)


def refreshed(pins):
    pins.initialise()
    pins.give(REFRESH, after=10)


def powered(pins):
    """Nothing yet; edge 100 is at the end of the time after power-up."""


@pytest.mark.parametrize(("rule", "prepare", "command", "cycles", "options"), [
    early("tRCD", opened, READ, 2),
    early("tRCD", opened, WRITE, 2, d_o=1),
    early("tRAS", opened, PRECHARGE, 5),
    early("tRAS", opened, PRECHARGE, 5, a=ALL),
    early("tRRD", opened, ACTIVE, 2, ba=1),
    early("tRP", closed, ACTIVE, 2),
    early("tRP", closed, REFRESH, 2),
    early("tRP", closed, LOAD_MODE, 2, a=CAS_2),
    early("tRC", reopened, ACTIVE, 4),
    early("tWR", written, PRECHARGE, 2),
    early("tRFC", refreshed, ACTIVE, 7),
    early("tRFC", refreshed, REFRESH, 7),
    early("tRFC", refreshed, LOAD_MODE, 7, a=CAS_2),
    early("tMRD", lambda pins: pins.initialise(), ACTIVE, 2),
    early("initialisation", powered, PRECHARGE, 101, a=ALL),
])
def test_too_early(rule, prepare, command, cycles, options):
    # tRAS and tRP together are as long as tRC; so that this can be broken alone, it is 85 ns here.
    part = replace(MICRON_75, rc=85) if rule == "tRC" else MICRON_75
    pins = Pins(part)
    prepare(pins)
    pins.give(command, after=cycles, **options)
    pins = Pins(part)
    prepare(pins)
    with pytest.raises(SdramViolation, match=f"{rule}: .* must be .* ns or more"):
        pins.give(command, after=cycles - 1, **options)


@pytest.mark.parametrize(("prepare", "given", "message"), [
    (lambda pins: pins.initialise(), {"command": READ}, "closed row: READ of bank 0"),
    (lambda pins: pins.initialise(), {"command": WRITE, "d_o": 1}, "closed row: WRITE of bank 0"),
    (opened, {"command": READ, "ba": 2, "after": 5}, "closed row: READ of bank 2"),
    (closed, {"command": READ, "after": 5}, "closed row: READ of bank 0"),
    (opened, {"command": ACTIVE, "after": 9}, "ACTIVE: bank 0 has row 3 open"),
    (opened, {"command": REFRESH, "after": 9}, "REFRESH: bank 0 has row 3 open"),
    (opened, {"command": LOAD_MODE, "after": 9}, "LOAD MODE: bank 0 has row 3 open"),
    (opened, {"command": WRITE, "after": 9}, "write data: nobody drives the pins"),
    (opened, {"command": READ, "after": 9, "a": ALL}, "auto precharge is not modelled"),
    (opened, {"command": TERMINATE, "after": 9}, "BURST TERMINATE: is not modelled"),
    (opened, {"cke": 0}, "CKE: CKE is low"),
    (closed, {"command": LOAD_MODE, "after": 9, "a": 0b010_1_010}, "mode 0x2a, bank 0 is not"),
    (closed, {"command": LOAD_MODE, "after": 9, "a": 0b001_0_010}, "mode 0x12, bank 0 is not"),
])
def test_forbidden(prepare, given, message):
    pins = Pins()
    prepare(pins)
    with pytest.raises(SdramViolation, match=message):
        pins.give(**given)


@pytest.mark.parametrize("skipped", ["precharge", "refresh", "mode", "nothing"])
def test_initialisation_that_lacks_a_step(skipped):
    def everything():
        pins = Pins()
        pins.give(after=110)
        if skipped != "precharge":
            pins.give(PRECHARGE, a=ALL)
        for _ in range(1 if skipped == "refresh" else 2):
            pins.give(REFRESH, after=7)
        if skipped != "mode":
            pins.give(LOAD_MODE, after=7, a=CAS_2)
        pins.give(ACTIVE, after=7)

    if skipped == "nothing":
        everything()
    else:
        with pytest.raises(SdramViolation, match="initialisation: "):
            everything()


def test_a_clock_too_fast_for_the_latency():
    with pytest.raises(SdramViolation, match=r"tCK: a clock of 8 ns .* must be 10 ns or more"):
        Pins(clock_hz=125e6).initialise()


@pytest.mark.parametrize("gap", [5, 6])
def test_contention(gap):
    """The chip drives 2 to 5 cycles after a READ, and its last data leaves the pins in the 6th."""
    pins = Pins().initialise().open()
    pins.give(READ, after=2)
    for _ in range(gap - 1):
        pins.give()
    with pytest.raises(SdramViolation, match="contention: chip and controller drive the pins"):
        pins.give(d_o=1)


def test_no_contention_after_the_data():
    pins = Pins().initialise().open()
    pins.give(READ, after=2)
    pins.write([1, 2, 3, 4], after=7)


def test_a_burst_that_is_cut():
    pins = Pins().initialise().open()
    pins.give(WRITE, after=5, d_o=1)
    pins.give(d_o=2)
    with pytest.raises(SdramViolation, match="burst: PRECHARGE within a burst that is written"):
        pins.give(PRECHARGE, d_o=3)
    pins = Pins().initialise().open()
    pins.write([1, 2, 3, 4])
    pins.give(READ, after=2)
    pins.give(PRECHARGE, after=2)               # the chip drops what comes from its latency on
    assert [pins.give() for _ in range(3)] == [2, FLOATING, FLOATING]


def test_refresh_too_rare():
    """Of 4 rows each must be refreshed within 31.25 us, which is 3,125 cycles."""
    pins = Pins(row_bits=2).initialise()
    for _ in range(4):
        pins.give(REFRESH, after=700)
    first, second = pins.chip.refreshes[-4:-2]
    pins.give(REFRESH, after=first + 3125 - pins.cycle)
    pins.give(after=second + 3125 - pins.cycle)
    with pytest.raises(SdramViolation, match=r"tREF: a row was not refreshed for 31\.25 us"):
        pins.give()


@pytest.mark.parametrize("refreshes", [0, 1, 3, 4])
def test_rows_that_are_never_refreshed(refreshes):
    pins = Pins(row_bits=2).initialise()
    start = pins.cycle
    for _ in range(refreshes):
        pins.give(REFRESH, after=700)
    pins.give(after=start + 3125 - pins.cycle)
    if refreshes < 4:               # those of the initialisation were before
        with pytest.raises(SdramViolation, match="tREF"):
            pins.give()
    else:
        pins.give()


def test_rows_stay_open_for_a_time():
    pins = Pins(replace(MICRON_75, ras_longest=1000)).initialise().open()
    pins.give(after=100)
    with pytest.raises(SdramViolation, match="tRAS: a row is open for more than 1000"):
        pins.give()


def test_parts_differ():
    """Alliance's -7 opens a row in 21 ns, Micron's -75 in 20."""
    for part, cycles in ((MICRON_75, 2), (ALLIANCE_7, 3)):
        pins = Pins(part).initialise()
        pins.give(ACTIVE, after=8)
        pins.give(READ, after=cycles)
    pins = Pins(ALLIANCE_7).initialise()
    pins.give(ACTIVE, after=8)
    with pytest.raises(SdramViolation, match="tRCD"):
        pins.give(READ, after=2)
