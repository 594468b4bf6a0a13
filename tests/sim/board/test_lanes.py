"""Rolled C++ computes what the written-out C++ does: both are compiled, and all bytes compared."""

import random
import re
import subprocess

import pytest

from bitstep_sim.board import lanes

LANES = 24
HEADER = """\
#include <cstdint>
using CData = uint8_t; using IData = uint32_t; using QData = uint64_t;
struct Vtop___024root {{
    struct {{
{members}
        IData memory[{lanes}];
        IData one;
    }};
}};
"""
MAIN = """\
#include <cstdio>
#include "Vtop___024root.h"
{declarations}
void (*const steps[])(Vtop___024root*) = {{{names}}};
int main() {{
    for (auto step : steps) {{
        static Vtop___024root root;
        auto* bytes = reinterpret_cast<unsigned char*>(&root);
        for (unsigned at = 0, state = 1; at < sizeof root; ++at) {{
            state = state * 1664525u + 1013904223u;
            bytes[at] = state >> 24;
        }}
        for (int turn = 0; turn < 3; ++turn) step(&root);
        for (unsigned at = 0; at < sizeof root; ++at) printf("%02x", bytes[at]);
        puts("");
    }}
}}
"""
FAMILIES = {"a_": "IData/*31:0*/", "b_": "IData/*31:0*/", "c__024": "CData/*0:0*/",
            "q_": "QData/*36:0*/"}


def shuffled(statements):
    """The statements in an order without rule, but the same in every run."""
    statements = list(statements)
    random.Random(7).shuffle(statements)
    return statements


def each(text, order=range(LANES)):
    """The text for each lane: `@` is its number, `@+n` and `n*@` others."""
    def of(lane):
        result = re.sub(r"(\d+)\*@", lambda found: str(int(found[1]) * lane), text)
        return re.sub(r"@(\+\d+)?", lambda found: str(lane + int(found[1] or 0)), result)
    return [of(lane) for lane in order]


BODIES = {
    "in order": (each("vlSelfRef.a_@ = (vlSelfRef.b_@ + 3U);"), LANES),
    "in no order": (shuffled(each("vlSelfRef.a_@ = (vlSelfRef.b_@ + 3U);")), LANES),
    "backwards": (each("vlSelfRef.a_@ = vlSelfRef.b_@;", range(LANES - 1, -1, -1)), LANES),
    "growing numbers": (each("vlSelfRef.a_@ = (0x00000003U & (vlSelfRef.one >> @U));"), LANES),
    "hexadecimal numbers": ([f"vlSelfRef.a_{lane} = (vlSelfRef.one ^ {5 + 17 * lane:#010x}U);"
                             for lane in range(LANES)], LANES),
    "steps of two": (each("vlSelfRef.a_@ = vlSelfRef.memory[2*@U];", range(LANES // 2)),
                     LANES // 2),
    "numbers without a rule": ([f"vlSelfRef.a_{lane} = {lane * lane}U;"
                                for lane in range(LANES)], 0),
    "a chain": (each("vlSelfRef.a_@+1 = (vlSelfRef.a_@ + 1U);", range(LANES - 1)), LANES - 1),
    "a chain in no order": (shuffled(each("vlSelfRef.a_@+1 = (vlSelfRef.a_@ + 1U);",
                                          range(LANES - 1))), None),
    "a shift register": (each("vlSelfRef.a_@+1 = vlSelfRef.a_@;", range(LANES - 2, -1, -1)),
                         LANES - 1),
    "written twice in no order": (shuffled(
        each("vlSelfRef.memory[@U] = vlSelfRef.a_@;") +
        each("vlSelfRef.memory[@U] = vlSelfRef.b_@;")), None),
    "one place": (each("vlSelfRef.memory[vlSelfRef.c__024@] = vlSelfRef.a_@;"), LANES),
    "one place in no order": (shuffled(
        each("vlSelfRef.memory[vlSelfRef.c__024@] = vlSelfRef.a_@;")), None),
    "blocks": (each("if (vlSelfRef.c__024@) {\n    vlSelfRef.a_@ = vlSelfRef.b_@; // why\n"
                    "    vlSelfRef.q_@\n        = (QData)(vlSelfRef.one);\n}"), LANES),
    "blocks in no order": (shuffled(each(
        "if ((1U & (vlSelfRef.one >> @U))) {\n    vlSelfRef.memory[@U] = (IData)(vlSelfRef.q_@);"
        "\n}")), LANES),
    "blocks with else": (each("if (vlSelfRef.c__024@) {\n    vlSelfRef.a_@ = 1U;\n} else {\n"
                              "    vlSelfRef.a_@ = vlSelfRef.b_@;\n}"), LANES),
    "inside a block": (["if (vlSelfRef.one) {", *each("    vlSelfRef.a_@ = vlSelfRef.b_@;"),
                        "} else if (vlSelfRef.a_3) {",
                        *each("    vlSelfRef.b_@ = vlSelfRef.a_@;"), "}"], 2 * LANES),
    "after another": ([*each("vlSelfRef.a_@ = vlSelfRef.b_@;"), "vlSelfRef.b_2 = vlSelfRef.one;",
                       *each("vlSelfRef.b_@ = (vlSelfRef.a_@ ^ 1U);")], 2 * LANES),
}


def write(folder, bodies):
    """Files as Verilator writes them, with a function for each body."""
    members = [f"        {kind} {base}{lane};" for base, kind in FAMILIES.items()
               for lane in range(LANES)]
    (folder / "Vtop___024root.h").write_text(
        HEADER.format(members="\n".join(members), lanes=LANES + 256))
    text = ['#include "Vtop___024root.h"', ""]
    for number, body in enumerate(bodies):
        text += [f"void step_{number}(Vtop___024root* vlSelf) {{",
                 "    auto& vlSelfRef = *vlSelf;", "    // Body"]
        text += [f"    {line}" for unit in body for line in unit.split("\n")]
        text += ["}", ""]
    (folder / "Vtop___024root__0.cpp").write_text("\n".join(text))


def run(folder, count):
    """Values of all variables after each function, a line each."""
    names = [f"step_{number}" for number in range(count)]
    declarations = "".join(f"void {name}(Vtop___024root*);\n" for name in names)
    (folder / "main.cpp").write_text(MAIN.format(declarations=declarations,
                                                 names=", ".join(names)))
    subprocess.run(["g++", "-O1", "-fsanitize=undefined", "-fno-sanitize-recover", "-o",
                    folder / "main", *folder.glob("*.cpp")], check=True)
    output = subprocess.run([folder / "main"], check=True, capture_output=True, text=True).stdout
    return output.splitlines()


@pytest.fixture(scope="module")
def values(tmp_path_factory):
    """Values after each body, as written and rolled."""
    bodies = [body for body, _ in BODIES.values()]
    folders = [tmp_path_factory.mktemp(name) for name in ("written", "rolled")]
    for folder in folders:
        write(folder, bodies)
    lanes.roll(folders[1], "Vtop")
    results = [run(folder, len(bodies)) for folder in folders]
    return dict(zip(BODIES, zip(*results, strict=True), strict=True))


@pytest.mark.parametrize("name", BODIES)
def test_the_same_values(values, name):
    written, rolled = values[name]
    assert written == rolled


def test_the_values_change(values):
    assert len({written for written, _ in values.values()}) > len(BODIES) // 2


@pytest.mark.parametrize(("body", "expected"), BODIES.values(), ids=BODIES)
def test_statements_in_loops(tmp_path, body, expected):
    write(tmp_path, [body])
    rolled = lanes.roll(tmp_path, "Vtop")
    assert rolled == expected or expected is None


def test_what_other_files_use_keeps_its_name(tmp_path):
    header = tmp_path / "Vtop___024root.h"
    members = "\n".join(f"    CData/*0:0*/ a_{number};" for number in range(12))
    header.write_text(members)
    (tmp_path / "Vtop.cpp").write_text("vlSymsp->TOP.a_3 = 1;")
    assert lanes.roll(tmp_path, "Vtop") == 0
    assert "a_3;" in header.read_text()
    assert "a_4;" not in header.read_text()


def test_few_variables_stay(tmp_path):
    header = tmp_path / "Vtop___024root.h"
    header.write_text("\n".join(f"    CData/*0:0*/ a_{number};"
                                for number in range(lanes.LEAST_LANES - 1)))
    before = header.read_text()
    assert lanes.roll(tmp_path, "Vtop") == 0
    assert header.read_text() == before
