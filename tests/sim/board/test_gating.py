"""Gated Verilog has the values of the Verilog before, in every cycle; and what is gated."""

import ctypes
import re

import pytest

from bitstep_sim.board import gating, verilator

# As Yosys writes: one line for a statement, names with a backslash end with a blank.
PORTS = {"clk": ("input", 1), "go": ("input", 1), "stop": ("input", 1), "a": ("input", 16),
         "b": ("input", 16), "x": ("output", 128), "y": ("output", 128), "z": ("output", 128)}
MAIN = """
#include <cstring>
#include "Vbitstep_top.h"
#include "verilated.h"
extern "C" __attribute__((visibility("default"))) void run(char* out, int cycles) {
    VerilatedContext context;
    Vbitstep_top top{&context};
    uint32_t state = 1;
    for (int cycle = 0; cycle < cycles; ++cycle) {
        state = state * 1664525u + 1013904223u;
        top.go = state >> 31;
        top.stop = state >> 30 & 1;
        top.a = state >> 8;
        top.b = state >> 13;
        for (int level = 0; level < 2; ++level) {
            top.clk = level;
            top.eval();
            std::memcpy(out, &top.x, 16);
            std::memcpy(out + 16, &top.y, 16);
            std::memcpy(out + 32, &top.z, 16);
            out += 48;
        }
    }
}
"""
WIRES = 12


def module(*bodies):
    """A module with ports 16 bits a body, and for each body 3 registers and 12 wires, `w.0` to
    `w.11`, each made of the two before it.
    """
    lines = [f"module bitstep_top({', '.join(PORTS)});"]
    for port, (kind, width) in PORTS.items():
        size = f"[{width - 1}:0] " if width > 1 else ""
        lines += [f"  {kind} {size}{port};", f"  wire {size}{port};"]
    for number, body in enumerate(bodies):
        of_body = [f"  reg [15:0] \\held.{port}  = 16'h000{at};" for at, port in enumerate("xyz")]
        of_body += [f"  wire [15:0] \\w.{wire} ;" for wire in range(WIRES)]
        of_body += ["  wire [15:0] \\seen ;", "  wire [15:0] \\cut ;", "  wire \\enable ;",
                    "  wire [15:0] \\dead ;",
                    "  assign \\enable  = go & ~stop;", "  assign \\dead  = a ^ 16'h00ff;",
                    "  assign \\w.0  = a + \\held.z ;", "  assign \\w.1  = b ^ \\held.x ;"]
        of_body += [f"  assign \\w.{wire}  = \\w.{wire - 1}  + (\\w.{wire - 2}  ^ 16'h{wire:04x});"
                    for wire in range(2, WIRES)]
        of_body += ["  assign x [15:0] = \\held.x ;", "  assign y [15:0] = \\held.y ;", body]
        place = f"[{16 * number + 15}:{16 * number}]"
        text = re.sub(r"(assign [xyz]) \[15:0\]", rf"\1 {place}", "\n".join(of_body))
        lines.append(text.replace("\\", f"\\body{number}."))
    return "\n".join([*lines, "endmodule", ""])


def clocked(*statements):
    return "".join(f"  always @(posedge clk)\n    {statement}\n" for statement in statements)


OUT = "  assign z [15:0] = \\held.z ;\n"
BODIES = {
    "one enable": OUT + clocked("if (\\enable ) \\held.x  <= \\w.11 ;",
                                "\\held.z  <= a;"),
    "bits": "  assign \\cut [3:0] = \\w.11 [15:12];\n"
            "  assign \\cut [15:8] = { \\cut [3], \\cut [3:0], 3'h5 };\n"
            "  assign \\cut [7:4] = \\w.10 [3:0];\n" + OUT
            + clocked("if (\\enable ) \\held.x  <= \\cut ;", "\\held.z  <= b;"),
    "two enables": OUT + clocked("if (\\enable ) \\held.x  <= \\w.11 ;",
                                 "if (go) \\held.z  <= \\w.11 ;"),
    "no enable": OUT + clocked("\\held.x  <= \\w.11 ;", "if (\\enable ) \\held.z  <= \\w.11 ;"),
    "a port": "  assign z [15:0] = \\w.11 ;\n" + clocked("if (\\enable ) \\held.x  <= \\w.11 ;"),
    "an enable of itself": OUT + clocked("if (\\w.11 [3]) \\held.x  <= \\w.11 ;"),
    "with a reset": OUT + "  always @(posedge clk)\n    if (stop) \\held.x  <= 16'h0000;\n"
                          "    else if (go) \\held.x  <= \\w.11 ;\n",
    "a copied bit": OUT + "  assign \\seen [15] = \\seen [14];\n"
                          "  assign \\seen [14:0] = \\w.11 [14:0];\n"
                          + clocked("\\held.x  <= \\seen ;", "if (go) \\held.z  <= \\seen ;"),
}
# Of each body, the wires that are behind an enable.
GATED = {"one enable": 12, "bits": 13}


def values(text, main, cycles=500):
    library = ctypes.CDLL(str(verilator.build(text, main=main)))
    out = ctypes.create_string_buffer(96 * cycles)
    library.run(out, cycles)
    return [[out.raw[at + 2 * number:at + 2 * number + 2] for at in range(0, 96 * cycles, 16)]
            for number in range(len(BODIES))]


def test_the_same_values(tmp_path):
    main = tmp_path / "main.cpp"
    main.write_text(MAIN)
    text = module(*BODIES.values())
    gated = gating.gate(text)
    assert gated.count("begin") == len(GATED) + 1
    expected, found = values(text, main), values(gated, main)
    for name, one, other in zip(BODIES, expected, found, strict=True):
        assert one == other, name
        assert len(set(one)) > 100, name


@pytest.mark.parametrize("name", BODIES)
def test_wires_behind_an_enable(name):
    gated = gating.gate(module(BODIES[name]))
    assert ("always @(posedge clk) if (\\body0.enable ) begin" in gated) == (name in GATED)
    variables = sum(line.startswith("  reg") and "=" not in line for line in gated.split("\n"))
    assert variables == GATED.get(name, 1 if name == "a copied bit" else 0)


def test_what_nothing_reads_is_dropped():
    gated = gating.gate(module(BODIES["one enable"]))
    assert "dead" not in gated
    assert "seen" not in gated.replace("wire [15:0] \\body0.seen", "")


def test_a_few_wires_stay(monkeypatch):
    monkeypatch.setattr(gating, "LEAST_WIRES", WIRES + 1)
    text = module(BODIES["one enable"])
    assert "begin" not in gating.gate(text)


def test_bits_that_read_each_other_stay():
    """They are no loop, but no order of whole statements is right either."""
    body = OUT + ("  assign \\seen [15] = \\seen [14];\n  assign \\seen [14] = \\seen [13];\n"
                  "  assign \\seen [13:0] = \\w.11 [13:0];\n") + clocked("\\held.x  <= \\seen ;")
    gated = gating.gate(module(body))
    assert "begin" not in gated
    assert "assign \\body0.seen [15] = \\body0.seen [14];" in gated
