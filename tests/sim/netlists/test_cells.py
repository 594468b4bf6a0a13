"""Models of FPGA cells against tables by hand, and that they refuse what they do not model."""

import json
from dataclasses import dataclass

import pytest

from bitstep_sim.benches.runner import run_bench
from bitstep_sim.board.verilator import ToolError, build
from bitstep_sim.netlists.models import OWN, library

MODELS = "\n".join(path.read_text(encoding="utf-8") for path in sorted(OWN.glob("*.v")))
# What two ports do at once: A's enable, write, place, data, byte enables, and B's.
PORTS = ("en_a", "we_a", "word_a", "in_a", "be_a", "en_b", "we_b", "word_b", "in_b", "be_b")
WORDS = {0: 0x12345, 1: 0x2ABCD, 1023: 0x3C0DE}     # at the start; the others are 0


@dataclass(frozen=True)
class Value:
    """A parameter's value in Verilog, other than a string or a number."""

    text: str


def pins(pin, signal, count):
    """Connections of pins that are numbered."""
    return ", ".join(f".{pin}{bit}({signal}[{bit}])" for bit in range(count))


def instance(kind, name, parameters, connections):
    given = ", ".join(f".{key}({value.text if isinstance(value, Value) else json.dumps(value)})"
                      for key, value in parameters.items())
    return f"{kind} #({given}) of_{name}({', '.join(connections)});"


def top(ports, body):
    """Verilog of a top whose inputs and outputs have widths, and of all models."""
    listed = ", ".join(f"{'output' if name.startswith('o_') else 'input'} [{width - 1}:0] {name}"
                       for name, width in ports.items())
    return "\n".join([f"module bitstep_top(input clk, {listed});", *body, "endmodule", MODELS])


def check(verilog, steps):
    result = run_bench(verilog, "bitstep_sim.benches.bench_steps",
                       environment={"STEPS": json.dumps(steps)})
    assert result.ok, result.log.read_text()[-3000:]


def dp16kd(name, *, address_a, address_b, we_b="we_b", **parameters):
    """An ECP5 block; outputs are ``o_NAME_a`` and ``o_NAME_b``, addresses expressions of 14 bits.
    """
    value = "{" + ", ".join(f"2'd0, 18'h{WORDS.get(word, 0):x}" for word in range(15, -1, -1)) + "}"
    last = f"{{2'd0, 18'h{WORDS[1023]:x}, 300'd0}}"
    chosen = {"INITVAL_00": Value(value), "INITVAL_3F": Value(last)} | parameters
    body = [f"wire [13:0] {name}_a = {address_a}, {name}_b = {address_b};"]
    return [*body, instance("DP16KD", name, chosen, [
        pins("ADA", f"{name}_a", 14), pins("ADB", f"{name}_b", 14), pins("DIA", "in_a", 18),
        pins("DIB", "in_b", 18), pins("DOA", f"o_{name}_a", 18), pins("DOB", f"o_{name}_b", 18),
        ".CLKA(clk), .CLKB(clk), .CEA(en_a), .CEB(en_b), .OCEA(1'b1), .OCEB(1'b1)",
        f".WEA(we_a), .WEB({we_b}), .RSTA(1'b0), .RSTB(1'b0)",
        ".CSA0(1'b0), .CSA1(1'b0), .CSA2(1'b0), .CSB0(1'b0), .CSB1(1'b0), .CSB2(1'b0)"])]


def ramb18(name, mode):
    """Half a block of 7-series with two ports of 18 bits, of one mode."""
    parameters = {"RAM_MODE": "TDP", "WRITE_MODE_A": mode, "WRITE_MODE_B": mode,
                  **{f"{way}_WIDTH_{side}": 18 for way in ("READ", "WRITE") for side in "AB"},
                  # By hand: byte 0 of 0x12345 is 0x145, its bit 8 is the parity bit.
                  "INIT_00": Value("256'h55CD9145"), "INITP_00": Value("256'hD"),
                  "INIT_3F": Value("{16'hE0DE, 240'd0}"), "INITP_07": Value("{2'b10, 254'd0}")}
    split = [f".DI{port}({{in_{side}[16:9], in_{side}[7:0]}}), "
             f".DIP{parity}({{in_{side}[17], in_{side}[8]}})"
             for side, port, parity in (("a", "ADI", "ADIP"), ("b", "BDI", "BDIP"))]
    out = [f".DO{port}({{o_{name}_{side}[16:9], o_{name}_{side}[7:0]}}), "
           f".DOP{parity}({{o_{name}_{side}[17], o_{name}_{side}[8]}})"
           for side, port, parity in (("a", "ADO", "ADOP"), ("b", "BDO", "BDOP"))]
    return [instance("RAMB18E1", name, parameters, [
        *split, *out, ".ADDRARDADDR({word_a, 4'd0}), .ADDRBWRADDR({word_b, 4'd0})",
        ".CLKARDCLK(clk), .CLKBWRCLK(clk), .ENARDEN(en_a), .ENBWREN(en_b)",
        ".WEA(be_a & {2{we_a}}), .WEBWE({2'd0, be_b & {2{we_b}}})",
        ".REGCEAREGCE(1'b0), .REGCEB(1'b0), .RSTRAMARSTRAM(1'b0), .RSTRAMB(1'b0)",
        ".RSTREGARSTREG(1'b0), .RSTREGB(1'b0)"])]


NAMES = ("stays", "new", "old")     # what a port reads while it writes
WIDTHS = {"en_a": 1, "we_a": 1, "word_a": 10, "in_a": 18, "be_a": 2,
          "en_b": 1, "we_b": 1, "word_b": 10, "in_b": 18, "be_b": 2}


def table(reads_old):
    """Steps for three memories, one of each mode; ``reads_old`` are those whose other port reads
    what was stored before.
    """
    def step(a, b, stays, new, old, other=None, stored=None):
        """Outputs are pairs of both ports. Where ``other`` is given, port B reads in its place
        ``stored`` of the memories that promise it.
        """
        inputs = dict(zip(PORTS, (*a, *b), strict=True))
        outputs = {}
        for name, (out_a, out_b) in zip(NAMES, (stays, new, old), strict=True):
            if other is not None:
                out_b = stored if name in reads_old else other
            outputs |= {f"o_{name}_a": out_a, f"o_{name}_b": out_b}
        return inputs, outputs

    off = (0, 0, 0, 0, 0)
    return [
        # Words at the start.
        step((1, 0, 0, 0, 0), (1, 0, 1, 0, 0), *3 * [(0x12345, 0x2ABCD)]),
        # Without enable nothing happens.
        step((0, 1, 0, 7, 3), (0, 0, 0, 0, 0), *3 * [(0x12345, 0x2ABCD)]),
        # A writes word 5.
        step((1, 1, 5, 0x0F0F1, 3), off, (0x12345, 0x2ABCD), (0x0F0F1, 0x2ABCD), (0, 0x2ABCD)),
        step((1, 0, 5, 0, 0), off, *3 * [(0x0F0F1, 0x2ABCD)]),
        # A writes the lower byte of word 5; B reads another one.
        step((1, 1, 5, 0x3FFFF, 1), (1, 0, 6, 0, 0), (0x0F0F1, 0), (0x0F1FF, 0), (0x0F0F1, 0)),
        # B reads the word that A writes.
        step((1, 1, 7, 0x00F0F, 3), (1, 0, 7, 0, 0), (0x0F0F1, 0), (0x00F0F, 0), (0, 0),
             other=0x3F0F0, stored=0),
        step(off, (1, 0, 7, 0, 0), (0x0F0F1, 0x00F0F), (0x00F0F, 0x00F0F), (0, 0x00F0F)),
        # B reads a word of which A writes the upper byte: 0x1FF over 0x007; the lower is 0x10F.
        step((1, 1, 7, 0x3FE00, 2), (1, 0, 7, 0, 0), (0x0F0F1, 0), (0x3FF0F, 0), (0x00F0F, 0),
             other=0x0010F, stored=0x00F0F),
        # Both write one word; afterwards it is neither.
        (step((1, 1, 8, 0x11111, 3), (1, 1, 8, 0x22222, 3), *3 * [(0, 0)])[0], {}),
        (step((1, 0, 8, 0, 0), off, *3 * [(0, 0)])[0], {f"o_{name}_a": 0x1DDDD for name in NAMES}),
        # The last word.
        step((1, 0, 1023, 0, 0), (1, 0, 1023, 0, 0), *3 * [(0x3C0DE, 0x3C0DE)]),
    ]


def outputs(*names, width=18):
    return {f"o_{name}_{side}": width for name in names for side in "ab"}


def test_dual_port_of_ecp5():
    """What the other port reads is undefined in every mode."""
    modes = dict(zip(NAMES, ("NORMAL", "WRITETHROUGH", "READBEFOREWRITE"), strict=True))
    body = [line for name, mode in modes.items() for line in dp16kd(
        name, address_a="{word_a, 2'd0, be_a}", address_b="{word_b, 2'd0, be_b}",
        DATA_WIDTH_A=18, DATA_WIDTH_B=18, WRITEMODE_A=mode, WRITEMODE_B=mode)]
    check(top(WIDTHS | outputs(*NAMES), body), table(reads_old=()))


def test_dual_port_of_7_series():
    """The other port reads what was stored, if the port that writes has READ_FIRST."""
    modes = dict(zip(NAMES, ("NO_CHANGE", "WRITE_FIRST", "READ_FIRST"), strict=True))
    body = [line for name, mode in modes.items() for line in ramb18(name, mode)]
    check(top(WIDTHS | outputs(*NAMES), body), table(reads_old=("old",)))


@pytest.mark.slow
def test_widths_of_ecp5():
    """Byte 11, which is the upper one of word 5, through ports of other widths; and rows of 36
    bits, of which the data pins of port B have the upper half.
    """
    widths = {"word": (9, 18), "nibble": (9, 4), "pair": (9, 2), "bit": (9, 1)}
    body = [line for name, (a, b) in widths.items() for line in dp16kd(
        name, address_a="place_a", address_b="place_b", DATA_WIDTH_A=a, DATA_WIDTH_B=b)]
    for name, b, mode in (("row", 36, "NOREG"), ("half", 18, "NOREG"), ("later", 36, "OUTREG")):
        body += dp16kd(name, address_a="place_a", address_b="place_b", we_b="1'b0",
                       DATA_WIDTH_A=36, DATA_WIDTH_B=b, REGMODE_A=mode, REGMODE_B=mode)
    ports = {"en_a": 1, "we_a": 1, "place_a": 14, "in_a": 18, "en_b": 1, "we_b": 1, "place_b": 14,
             "in_b": 18} | outputs(*widths, "row", "half", "later")
    idle = {"we_a": 0, "en_b": 1}
    check(top(ports, body), [
        # 0x1A5 = 0b1_1010_0101.
        ({"en_a": 1, "we_a": 1, "place_a": 11 << 3, "in_a": 0x1A5}, {}),
        ({"we_a": 0, "en_b": 1, "place_b": 5 << 4}, {"o_word_b": 0x1A5 << 9}),
        *(({"place_b": 11 * 8 + 4 * place}, {"o_nibble_b": value})
          for place, value in enumerate([0b0101, 0b1010])),
        *(({"place_b": 11 * 8 + 2 * place}, {"o_pair_b": value})
          for place, value in enumerate([0b01, 0b01, 0b10, 0b10])),
        *(({"place_b": 11 * 8 + place}, {"o_bit_b": value})
          for place, value in enumerate([1, 0, 1, 0, 0, 1, 0, 1])),
        # Row 3, of words 6 and 7; byte enables are the lowest bits of the address.
        ({"we_a": 1, "en_b": 0, "place_a": 3 << 5 | 15, "in_a": 0x11223, "in_b": 0x2CC44}, {}),
        (idle | {"place_b": 3 << 5}, {"o_row_a": 0x11223, "o_row_b": 0x2CC44}),
        (idle, {"o_later_a": 0x11223, "o_later_b": 0x2CC44}),
        (idle | {"place_b": 6 << 4}, {"o_half_b": 0x11223, "o_later_a": 0x11223}),
        (idle | {"place_b": 7 << 4}, {"o_half_b": 0x2CC44}),
        # B reads what A writes: the lowest and the highest of four bytes.
        ({"we_a": 1, "place_a": 3 << 5 | 9, "in_a": 0, "in_b": 0, "place_b": 3 << 5},
         {"o_row_a": 0x11223 | 0x1FF, "o_row_b": 0x2CC44 | 0x3FE00}),
        (idle, {"o_row_a": 0x11223 & ~0x1FF, "o_row_b": 0x2CC44 & 0x1FF}),
        # Words at the start, in rows 0 and 511.
        (idle | {"place_b": 0}, {"o_row_a": WORDS[0], "o_row_b": WORDS[1]}),
        (idle | {"place_b": 511 << 5}, {"o_row_a": 0, "o_row_b": WORDS[1023]}),
    ])


@pytest.mark.slow
@pytest.mark.parametrize("kind, n_bytes", [("RAMB18E1", 4), ("RAMB36E1", 8)])
def test_simple_dual_port_of_7_series(kind, n_bytes):
    """Port A reads and port B writes, with the data pins of both."""
    data, parity, row = 8 * n_bytes, n_bytes, 9 * n_bytes
    modes = {"old": "READ_FIRST", "new": "WRITE_FIRST", "stays": "NO_CHANGE"}
    low = 3 + n_bytes.bit_length() - 1
    address = (lambda name: f"{{1'b1, {name}, {low}'d0}}") if n_bytes == 8 else (
        lambda name: f"{{{name}, {low}'d0}}")
    body = []
    for name, mode in modes.items():
        parameters = {"RAM_MODE": "SDP", "WRITE_MODE_A": mode, "WRITE_MODE_B": mode,
                      "READ_WIDTH_A": row, "WRITE_WIDTH_B": row, "INIT_00": Value("256'h123"),
                      "INITP_00": Value("256'h1")}
        half, few = data // 2, parity // 2
        body.append(instance(kind, name, parameters, [
            f".ADDRARDADDR({address('row_r')}), .ADDRBWRADDR({address('row_w')})",
            f".DIADI(data[{half - 1}:0]), .DIBDI(data[{data - 1}:{half}])",
            f".DIPADIP(parity[{few - 1}:0]), .DIPBDIP(parity[{parity - 1}:{few}])",
            f".DOADO(o_{name}[{half - 1}:0]), .DOBDO(o_{name}[{data - 1}:{half}])",
            f".DOPADOP(o_{name}_p[{few - 1}:0]), .DOPBDOP(o_{name}_p[{parity - 1}:{few}])",
            ".CLKARDCLK(clk), .CLKBWRCLK(clk), .ENARDEN(en_r), .ENBWREN(1'b1), .WEA(0)",
            ".WEBWE(be), .REGCEAREGCE(1'b0), .REGCEB(1'b0), .RSTRAMARSTRAM(1'b0)",
            ".RSTRAMB(1'b0), .RSTREGARSTREG(1'b0), .RSTREGB(1'b0)"]))
    ports = {"en_r": 1, "row_r": 9, "row_w": 9, "data": data, "parity": parity, "be": parity}
    ports |= {f"o_{name}": data for name in modes} | {f"o_{name}_p": parity for name in modes}

    def read(**values):
        """Each memory's data and parity; by default those of ``every``."""
        every = values.pop("every", None)
        return {f"o_{name}{suffix}": value for name in modes
                for suffix, value in zip(("", "_p"), values.get(name, every), strict=True)}

    ones, high = (1 << data) - 1, 1 << parity - 1
    word, other = 0x0102030405060708 & ones, 0x1122334455667788 & ones
    top_byte = other & 0xFF << data - 8
    mixed = word & (1 << data - 8) - 1 | top_byte
    check(top(ports, body), [
        ({"en_r": 1, "row_r": 0}, read(every=(0x123, 1))),
        ({"row_w": 511, "data": word, "parity": 0, "be": 2 * high - 1}, read(every=(0x123, 1))),
        ({"be": 0, "row_r": 511}, read(every=(word, 0))),
        # A read of a row whose highest byte is written.
        ({"be": high, "data": other, "parity": high},
         read(old=(word, 0), every=(mixed ^ 0xFF << data - 8, 0))),
        ({"be": 0}, read(every=(mixed, high))),
        ({"en_r": 0, "row_r": 0}, read(every=(mixed, high))),
    ])


@pytest.mark.slow
def test_multiplier_of_ecp5():
    body = []
    outputs = {"o_now": (), "o_later": ("OUTPUT",), "o_one": ("INPUTA",),
               "o_both": ("INPUTA", "INPUTB"), "o_all": ("INPUTA", "INPUTB", "OUTPUT")}
    for name, registers in outputs.items():
        body.append(instance("MULT18X18D", name, {f"REG_{one}_CLK": "CLK0" for one in registers}, [
            pins("A", "a", 18), pins("B", "b", 18), pins("P", name, 36),
            ".SIGNEDA(sign_a), .SIGNEDB(sign_b), .SOURCEA(1'b0), .SOURCEB(1'b0)",
            ".CLK0(clk), .CE0(en), .RST0(clear)"]))
    ports = {"a": 18, "b": 18, "sign_a": 1, "sign_b": 1, "en": 1, "clear": 1}
    ports |= dict.fromkeys(outputs, 36)
    most, least = 0x3FFFF, 0x20000
    products = [(most, 2, 0, 0, 0x7FFFE), (most, 2, 1, 0, 0xFFFFFFFFE), (most, most, 1, 1, 1),
                (most, most, 0, 0, most * most), (least, least, 1, 1, 1 << 34),
                (least, most, 1, 0, (1 << 36) - 0x20000 * most),
                (most, least, 0, 1, (1 << 36) - 0x20000 * most)]
    last = products[-1][-1]
    check(top(ports, body), [
        *(({"a": a, "b": b, "sign_a": sign_a, "sign_b": sign_b, "en": 1},
           {"o_now": product, "o_later": product, "o_one": product, "o_both": product,
            "o_all": products[number - 1][-1] if number else 0})
          for number, (a, b, sign_a, sign_b, product) in enumerate(products)),
        # The registers keep the last factors, the first of them 0x3FFFF.
        ({"a": 3, "b": 5, "sign_b": 0, "en": 0},
         {"o_now": 15, "o_later": last, "o_one": 5 * most, "o_both": last,
          "o_all": products[-2][-1]}),
        ({"en": 1}, {"o_later": 15, "o_one": 15, "o_both": 15, "o_all": last}),
        ({}, {"o_all": 15}),
        ({"clear": 1, "en": 0}, {"o_later": 0, "o_one": 0, "o_both": 0, "o_all": 0}),
    ])


@pytest.mark.parametrize("kind, parameters", [
    ("DP16KD", {"WRITEMODE_A": "NONE"}), ("DP16KD", {"DATA_WIDTH_B": 7}),
    ("DP16KD", {"REGMODE_A": "OUTREG"}), ("DP16KD", {"CLKBMUX": "INV"}),
    ("DP16KD", {"CSDECODE_A": "0b001"}), ("DP16KD", {"INIT_DATA": "DYNAMIC"}),
    ("MULT18X18D", {"REG_INPUTA_CLK": "CLK1"}), ("MULT18X18D", {"REG_INPUTB_CE": "CE1"}),
    ("MULT18X18D", {"REG_PIPELINE_CLK": "CLK0"}), ("MULT18X18D", {"REG_OUTPUT_CLK": "CLK1"}),
    ("MULT18X18D", {"MULT_BYPASS": "ENABLED"}), ("MULT18X18D", {"SOURCEB_MODE": "C_SHIFT"}),
    ("RAMB18E1", {"DOA_REG": 1}), ("RAMB18E1", {"READ_WIDTH_A": 36}),
    ("RAMB18E1", {"WRITE_MODE_B": "FIRST"}), ("RAMB18E1", {"INIT_A": 1}),
    ("RAMB18E1", {"RAM_MODE": "SDP", "WRITE_WIDTH_A": 36}),
    ("RAMB36E1", {"IS_CLKARDCLK_INVERTED": 1}), ("RAMB36E1", {"EN_ECC_READ": "TRUE"}),
    ("RAMB36E1", {"RAM_EXTENSION_A": "UPPER"}), ("RAMB36E1", {"INIT_FILE": "words.mem"}),
])
def test_what_is_not_modelled_is_refused(kind, parameters, monkeypatch, tmp_path):
    monkeypatch.setenv("BITSTEP_CACHE", str(tmp_path))
    verilog = top({"unused": 1}, [instance(kind, "cell", parameters, [])])
    with pytest.raises(ToolError, match=r"(?s)USERFATAL.*: unsupported.*unsupported_parameter"):
        build(verilog)


def test_cells_without_a_model(tmp_path):
    cells = tmp_path / "cells_sim.v"
    (tmp_path / "more.vh").write_text("module INNER(input a);\nendmodule\n")
    cells.write_text('`include "more.vh"\nmodule LUT(input a);\n  INNER inner(a);\nendmodule\n'
                     "module DP16KD(input ports_only);\nendmodule\n")
    found = library(["LUT", "DP16KD"], cells)
    assert "module LUT" in found
    assert "module INNER" in found
    assert "module bitstep_two_port_memory" in found
    assert "ports_only" not in found
    assert "RAMB18E1" not in found
    with pytest.raises(LookupError, match=r"must be a model of EHXPLLL"):
        library(["EHXPLLL"], cells)
