"""The register bank decodes exclusively."""

from amaranth import Array, C, Cat, Mux, Signal

from bitstep.pipeline.registers import ADDRESS_WIDTH, MAP_VERSION, OFFSETS
from bitstep_hw.shell.register_bank import READABLE, WRITABLE, RegisterBank
from bitstep_sim.proofs.formal import Property, Surrounding, implies
from bitstep_sim.proofs.mutation import Mutation


def _parts(dut, fields):
    for name, registers in fields.items():
        place = 0
        for register in registers:
            yield register, getattr(dut, name)[place:place + register.width]
            place += register.width


def _written(s, bus):
    """The write that is answered in this cycle, of which the register shows 2 cycles later: whether
    there is one, its word, data, strobes.
    """
    m = s.m
    address = Signal(ADDRESS_WIDTH)
    data = Signal(32)
    strobe = Signal(4)
    has_address = Signal()
    has_data = Signal()
    answered = Signal()
    effect = has_address & has_data & ~answered
    with m.If(bus.awvalid & bus.awready):
        m.d.sync += [address.eq(bus.awaddr), has_address.eq(1)]
    with m.If(bus.wvalid & bus.wready):
        m.d.sync += [data.eq(bus.wdata), strobe.eq(bus.wstrb), has_data.eq(1)]
    with m.If(effect):
        m.d.sync += [has_address.eq(0), has_data.eq(0), answered.eq(1)]
    with m.Elif(bus.bready):
        m.d.sync += answered.eq(0)
    # In the first cycle, as in a reset, nothing is accepted.
    s.check((bus.bvalid == answered) & (bus.awready == (s.started & ~has_address))
            & (bus.wready == (s.started & ~has_data)))
    return effect, address[2:], data, strobe


def write(s: Surrounding):
    """A write changes the register of its address and no other, and only unlocked."""
    dut = RegisterBank()
    s.add(dut)
    effect, word, data, strobe = _written(s, dut.bus)
    before = [(register, s.past(field), field) for register, field in _parts(dut, WRITABLE)]
    effect_before, locked, word_before, data_before, strobe_before = (
        s.past(value, 2) for value in (effect, dut.locked, word, data, strobe))
    mask = Cat(bit.replicate(8) for bit in strobe_before)
    changes = []
    for register, old, new in before:
        selected = effect_before & ~locked & (word_before == register.offset >> 2)
        wanted = (old & ~mask) | (data_before & mask)
        s.check(implies(s.started, new == Mux(selected, wanted[:register.width], old)))
        changes.append(s.started & (new != old))
    again = Signal()
    with s.m.If(effect):
        s.m.d.sync += again.eq(1)
    s.reach(effect_before & s.past(again, 2) & ~locked & Cat(changes).any())
    # At most one register changes.
    s.check((Cat(changes) & (Cat(changes) - 1)) == 0)


def read(s: Surrounding):
    """A read gives the register of its address, 0 where there is none; high halves are kept."""
    dut = RegisterBank()
    s.add(dut)
    m, bus = s.m, dut.bus
    word = Signal(ADDRESS_WIDTH - 2)
    asked = Signal()
    m.d.sync += asked.eq(bus.arvalid & bus.arready)
    with m.If(bus.arvalid & bus.arready):
        m.d.sync += word.eq(bus.araddr[2:])
    values = {register.offset >> 2: field
              for fields in (READABLE, WRITABLE) for register, field in _parts(dut, fields)}
    values[OFFSETS["VERSION"] >> 2] = C(MAP_VERSION, 32)
    readable = Array(values.get(number, C(0, 32)) for number in range(1 << ADDRESS_WIDTH - 2))
    expected = Signal(32)
    m.d.sync += expected.eq(readable[word])
    # The high half that the last read of a low half kept.
    kept = Signal(32)
    kept_word = Signal(ADDRESS_WIDTH - 2)
    keeps = Signal()
    with m.If(asked):
        for register, _ in _parts(dut, READABLE):
            if register.name.endswith("_LO"):
                with m.If(word == register.offset >> 2):
                    high = values[(register.offset >> 2) + 1]
                    m.d.sync += [kept.eq(high), kept_word.eq(word + 1), keeps.eq(1)]
        with m.If(keeps & (word == kept_word)):
            m.d.sync += [expected.eq(kept), keeps.eq(0)]
    s.check(implies(s.past(asked, 2), bus.rvalid & (bus.rdata == s.past(expected))))
    s.reach(s.past(asked, 2) & (s.past(word, 2) == OFFSETS["VERSION"] >> 2))
    s.reach(s.past(asked, 2) & s.past(keeps, 2) & ~s.past(keeps) & (bus.rdata == 0x0123_4567))


PROPERTIES = [
    Property("registers-write", "RegisterBank",
             "a write changes the bytes of its strobes in the register of its address, no other "
             "register, nothing while locked",
             write, Mutation("shell/register_bank.py", "selected.eq(bus.awaddr[2:] == offset >> 2)",
                             "selected.eq(bus.awaddr[3:] == offset >> 3)"),
             depth=12, bounded=True, slow=True),
    Property("registers-read", "RegisterBank",
             "a read gives the register of its address, 0 where there is none, a counter's high "
             "half as it was with the low one",
             read, Mutation("shell/register_bank.py", "kept_word.eq(word + 1)",
                            "kept_word.eq(word)"),
             depth=12, bounded=True, slow=True),
]
