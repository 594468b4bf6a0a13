"""Register bank: the register table as hardware."""

from functools import reduce
from operator import or_

from amaranth import C, Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from bitstep.pipeline.registers import ADDRESS_WIDTH, MAP_VERSION, OFFSETS, Control, registers_of
from bitstep_hw.axi.buses import RESP_OKAY, AxiLite

_INTERNAL = ("VERSION", "CONTROL")
_GROUP_BITS = 3
_GROUP = 1 << _GROUP_BITS       # registers that a read chooses from in a cycle


def _fields(access, choices=()):
    """Return the members for the registers of one access: ``{name: [register, ...]}``; of those
    that need a choice of the pipeline only where it is among ``choices``.

    The parts of a value, lowest first, are ``_LO`` and ``_HI``, or ``_0`` to ``_3``.
    """
    fields = {}
    for register in registers_of(choices):
        if register.access == access and register.name not in _INTERNAL:
            base, _, part = register.name.rpartition("_")
            name = base if part in ("LO", "HI") or part.isdigit() else register.name
            fields.setdefault(name.lower(), []).append(register)
    return fields


READABLE = _fields("ro")


def writable(*choices):
    """Return the members for the registers that can be written, with those that need one of these
    choices of the pipeline: ``{name: [register, ...]}``.
    """
    return _fields("rw", choices)


WRITABLE = writable()       # those that every pipeline has


def _width(registers):
    return sum(register.width for register in registers)


class RegisterBank(wiring.Component):
    """Every register of :data:`bitstep.pipeline.registers.REGISTERS` behind AXI4-Lite.

    One write and one read are handled at a time; a write to CONTROL takes effect 2 cycles after the
    later of its address and its data, one to another register 3, and a read answers 3 cycles after
    its address. A read that begins with a write's response finds what was written. Responses are
    always OKAY:
    registers that cannot be read or do not exist give 0, writes to such as cannot be written are
    ignored. A 64-bit counter does not tear: reading its low half keeps the high half for the next
    read of it. Nothing is accepted in reset and in the cycle after it. Stores the writable
    registers.

    Parameters
    ----------
    choices : collection of str
        Choices of the pipeline that bring registers of their own, as
        :attr:`bitstep.pipeline.config.PipelineConfig.register_choices`.

    Members
    -------
    bus : In(AxiLite(address_width=ADDRESS_WIDTH))
        The host.
    locked : In(1)
        While 1, writes are ignored but for CONTROL.
    start : Out(1)
        Strobe: START was written to CONTROL.
    abort : Out(1)
        Strobe: ABORT was written to CONTROL.
    rows, beats_per_row, rows_address, ... : Out(width)
        Each ``rw`` register, in lower case; pairs ``_LO``, ``_HI`` are one member of 64 bits.
    status, error, cycles, identity, ... : In(width)
        Each ``ro`` register but VERSION, likewise; ``identity`` has 128 bits.
    """

    def __init__(self, *, choices=()):
        self._writable = writable(*choices)
        super().__init__({
            "bus": In(AxiLite(address_width=ADDRESS_WIDTH)),
            "locked": In(1),
            "start": Out(1),
            "abort": Out(1),
            **{name: Out(_width(parts)) for name, parts in self._writable.items()},
            **{name: In(_width(parts)) for name, parts in READABLE.items()},
        })

    def elaborate(self, platform):
        m = Module()
        awake = Signal()        # 0 in reset, in which nothing may be accepted
        m.d.sync += awake.eq(1)
        self._elaborate_write(m, awake)
        self._elaborate_read(m, awake)
        return m

    def _parts(self, fields):
        """Pairs of each register and its slice of a member."""
        for name, registers in fields.items():
            position = 0
            for register in registers:
                yield register, getattr(self, name)[position:position + register.width]
                position += register.width

    def _elaborate_write(self, m, awake):
        bus = self.bus
        has_address = Signal()
        has_data = Signal()
        data = Signal(32)
        strobe = Signal(4)
        addressed = Signal()
        write = Signal()
        m.d.comb += [
            bus.awready.eq(awake & ~has_address),
            bus.wready.eq(awake & ~has_data),
            bus.bresp.eq(RESP_OKAY),
            addressed.eq(bus.awvalid & bus.awready),
            write.eq(has_address & has_data & ~bus.bvalid),
        ]
        with m.If(addressed):
            m.d.sync += has_address.eq(1)
        with m.If(bus.wvalid & bus.wready):
            m.d.sync += [has_data.eq(1), data.eq(bus.wdata), strobe.eq(bus.wstrb)]
        with m.If(write):
            m.d.sync += [has_address.eq(0), has_data.eq(0), bus.bvalid.eq(1)]
        with m.Elif(bus.bready):
            m.d.sync += bus.bvalid.eq(0)

        # An address is compared as it comes, not where it enables all bits of a register.
        def is_at(offset, name):
            selected = Signal(name=f"at_{name.lower()}")
            with m.If(addressed):
                m.d.sync += selected.eq(bus.awaddr[2:] == offset >> 2)
            return selected

        m.d.sync += [self.start.eq(0), self.abort.eq(0)]
        with m.If(write & strobe[0] & is_at(OFFSETS["CONTROL"], "CONTROL")):
            m.d.sync += [
                self.start.eq((data & Control.START).any()),
                self.abort.eq((data & Control.ABORT).any()),
            ]
        # A register enables each byte of a register, so that no condition has to reach all of them
        # in a cycle. Until then data stays: a cycle ago it could not be taken.
        for register, field in self._parts(self._writable):
            enables = Signal((register.width + 7) // 8, name=f"enables_{register.name.lower()}")
            at_register = is_at(register.offset, register.name)
            m.d.sync += enables.eq(Mux(write & ~self.locked & at_register, strobe, 0))
            for place, enable in enumerate(enables):
                byte = slice(8 * place, min(8 * place + 8, register.width))
                with m.If(enable):
                    m.d.sync += field[byte].eq(data[byte])

    def _elaborate_read(self, m, awake):
        bus = self.bus
        pending = Signal()
        selected = Signal()
        word = Signal(ADDRESS_WIDTH - 2)
        kept = Signal(32)
        kept_word = Signal.like(word)
        is_kept = Signal()
        m.d.comb += [
            bus.arready.eq(awake & ~pending & ~selected & ~bus.rvalid),
            bus.rresp.eq(RESP_OKAY),
        ]
        with m.If(bus.arvalid & bus.arready):
            m.d.sync += [pending.eq(1), word.eq(bus.araddr[2:])]
        with m.If(bus.rready):
            m.d.sync += bus.rvalid.eq(0)
        # A choice among so many registers takes two cycles: in each group, then of a group. What is
        # read is what stood in the first one.
        m.d.sync += selected.eq(pending)
        with m.If(pending):
            m.d.sync += pending.eq(0)
        with m.If(selected):
            m.d.sync += bus.rvalid.eq(1)
        values = {register.offset >> 2: field
                  for register, field in [*self._parts(READABLE), *self._parts(self._writable)]}
        values[OFFSETS["VERSION"] >> 2] = C(MAP_VERSION, 32)
        highs = {register.offset >> 2: getattr(self, register.name[:-3].lower())[32:]
                 for register, _ in self._parts(READABLE) if register.name.endswith("_LO")}
        lows, kept_next = [], []
        is_low = Signal()
        is_high = Signal()
        m.d.sync += [is_low.eq(Cat(word == number for number in highs).any()),
                     is_high.eq(is_kept & (word == kept_word))]
        for group in sorted({number // _GROUP for number in values}):
            here = Signal(name=f"in_{group}")
            m.d.sync += here.eq(word[_GROUP_BITS:] == group)
            for name, found, chosen in (("low", values, lows), ("high", highs, kept_next)):
                value = self._of_group(m, found, group, word, f"{name}_{group}")
                chosen.append(Mux(here, value, 0))
        with m.If(selected):
            m.d.sync += bus.rdata.eq(Mux(is_high, kept, reduce(or_, lows)))
        with m.If(selected & is_low):
            m.d.sync += [kept.eq(reduce(or_, kept_next)), kept_word.eq(word + 1), is_kept.eq(1)]
        with m.If(selected & is_high):
            m.d.sync += is_kept.eq(0)

    def _of_group(self, m, values, group, word, name):
        """Register with the value of a group that the low bits of ``word`` select."""
        chosen = Signal(32, name=name, reset_less=True)
        m.d.sync += chosen.eq(0)
        with m.Switch(word[:_GROUP_BITS]):
            for number, value in values.items():
                if number // _GROUP == group:
                    with m.Case(number % _GROUP):
                        m.d.sync += chosen.eq(value)
        return chosen
