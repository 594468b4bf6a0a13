"""Logic that is evaluated only where a register takes its result.

In the Verilog of Yosys a wire is evaluated in every cycle, though the registers behind it move in
few: those of the correction engine once in a period. Here such a wire becomes a variable of the
registers' own block, behind their enable. Nothing changes in any cycle.
"""

import re
from collections import defaultdict
from dataclasses import dataclass, field

# Wires for each register of a block. Lanes have fewer: theirs stay outside, where Verilator writes
# statements of one kind after each other, which bitstep_sim.board.lanes makes loops of.
LEAST_WIRES = 10

_NAME = re.compile(r"\\\S+ ?|(?<![\w$'])[A-Za-z_$][\w$]*")
_IDENTIFIER = r"(?:\\\S+ |[A-Za-z_$][\w$]*)"
_DECLARATION = re.compile(rf"  (wire|reg|input|output)\b.*?({_IDENTIFIER})(?: *=[^;]*)?;")
_ASSIGN = re.compile(r"  assign (.*?) ?(?<!<)= (.*);")
_CLOCKED = "  always @(posedge clk)"
_REGISTER = re.compile(rf"    (?:if \((.*?)\) )?({_IDENTIFIER}(?: ?\[[\d:]+\])?) ?<= (.*);")


@dataclass(frozen=True)
class _Assign:
    """A statement that gives a wire, or some bits of one, a value."""

    line: int
    target: str
    value: str
    reads: frozenset[str]


@dataclass(frozen=True)
class _Register:
    """A register without a reset of its own: line of its ``always``, enable, target and value."""

    line: int
    enable: str | None
    target: str
    value: str
    reads: frozenset[str]


@dataclass
class _Netlist:
    """Statements of a module, by what they define; ``other`` are the names that the rest uses."""

    lines: list[str]
    declared: dict[str, int] = field(default_factory=dict)
    assigns: dict[str, list[_Assign]] = field(default_factory=lambda: defaultdict(list))
    registers: list[_Register] = field(default_factory=list)
    other: set[str] = field(default_factory=set)
    # Wire -> wires and registers (by number) that read it.
    users: dict[str, set[str | int]] = field(default_factory=lambda: defaultdict(set))


def gate(verilog: str) -> str:
    """Put logic behind the enables of the registers that it is for, and drop what nothing reads.

    Parameters
    ----------
    verilog : str
        One module as Yosys writes it, with the clock ``clk``.

    Returns
    -------
    str
        The module, with the same values of registers and ports in every cycle.
    """
    net = _read(verilog.split("\n"))
    live = _live(net)
    dropped = {line for name in net.assigns.keys() - live
               for line in (net.declared[name], *(part.line for part in net.assigns[name]))}
    for name in live:
        for part in net.assigns[name]:
            for source in part.reads - {name}:
                net.users[source].add(name)
    for number, register in enumerate(net.registers):
        for source in register.reads:
            net.users[source].add(number)
    order = _users_first(net, live)
    guards = _guards(net, order)
    blocks = _blocks(net, [name for name in reversed(order) if guards[name] is not None])
    inside = set()
    for wires, numbers in blocks:
        inside.update(wires)
        _write_block(net, wires, [net.registers[number] for number in numbers], dropped)
    for name in sorted(live - inside):
        if any(name in part.reads for part in net.assigns[name]) and _is_ordered(net, name):
            _write_process(net, name, dropped)
    return "\n".join(text for line, text in enumerate(net.lines) if line not in dropped)


def _names(text: str) -> frozenset[str]:
    return frozenset(name.strip() for name in _NAME.findall(text))


def _read(lines: list[str]) -> _Netlist:
    net = _Netlist(lines)
    kinds = {}
    for line, text in enumerate(lines):
        if found := _DECLARATION.fullmatch(text):
            name = found[2].strip()
            kinds.setdefault(name, set()).add(found[1])
            net.declared[name] = line
    for name, found in kinds.items():
        if found != {"wire"}:
            del net.declared[name]
            if found & {"input", "output"}:
                net.other.add(name)
    at = 0
    while at < len(lines):
        at += _read_statement(net, at)
    return net


def _read_statement(net: _Netlist, at: int) -> int:
    """Note the statement at a line; returns its number of lines."""
    text = net.lines[at]
    if _DECLARATION.fullmatch(text):
        return 1
    if found := _ASSIGN.fullmatch(text):
        targets = _names(found[1])
        if len(targets) == 1 and (name := next(iter(targets))) in net.declared:
            net.assigns[name].append(_Assign(at, found[1], found[2], _names(found[2])))
            return 1
    elif text == _CLOCKED and not net.lines[at + 2].lstrip().startswith("else"):
        found = _REGISTER.fullmatch(net.lines[at + 1])
        if found:
            net.registers.append(_Register(at, found[1], found[2], found[3], _names(found[3])))
            net.other |= _names(found[1] or "")
            return 2
    net.other |= _names(text)
    return 1


def _live(net: _Netlist) -> set[str]:
    """Wires that something reads."""
    wanted = list(net.other.union(*(register.reads for register in net.registers)))
    live = set()
    while wanted:
        name = wanted.pop()
        if name in net.assigns and name not in live:
            live.add(name)
            wanted += (source for part in net.assigns[name] for source in part.reads)
    return live


def _users_first(net: _Netlist, live: set[str]) -> list[str]:
    """Wires in an order in which those that read one stand before it, but for cycles."""
    order, seen = [], set()
    for first in sorted(live):
        path = [] if first in seen else [(first, iter(sorted(map(str, _wires(net, first)))))]
        seen.add(first)
        while path:
            name, users = path[-1]
            following = next((user for user in users if user not in seen), None)
            if following is None:
                order.append(name)
                path.pop()
            else:
                seen.add(following)
                path.append((following, iter(sorted(map(str, _wires(net, following))))))
    return order


def _wires(net: _Netlist, name: str) -> list[str]:
    return [user for user in net.users[name] if isinstance(user, str)]


def _guards(net: _Netlist, order: list[str]) -> dict[str, str | None]:
    """The enable of all registers that a wire is for; None if there is not one for all."""
    guards: dict[str, str | None] = {}
    for name in order:
        found = {net.registers[user].enable if isinstance(user, int) else guards.get(user)
                 for user in net.users[name]}
        one = len(found) == 1 and name not in net.other and _is_ordered(net, name)
        guards[name] = found.pop() if one else None
    return guards


def _is_ordered(net: _Netlist, name: str) -> bool:
    """Say if the statements of a wire can be written one after the other: bits that it reads of
    itself are bits that statements give which read none.
    """
    reading = [part for part in net.assigns[name] if name in part.reads]
    if not reading:             # nearly all of them, and a pattern takes long to compile
        return True
    select = re.compile(re.escape(name) + r"(?: ?\[(\d+)(?::(\d+))?\])?(?![\w$])")

    def bits(text):
        for high, low in select.findall(text):
            if not high:
                yield -1
            else:
                yield from range(int(low or high), int(high) + 1)

    given = {bit for part in net.assigns[name] if name not in part.reads
             for bit in bits(part.target)}
    return all(given.issuperset(bits(part.value)) and -1 not in bits(part.value)
               for part in reading)


def _blocks(net: _Netlist, wires: list[str]) -> list[tuple[list[str], list[int]]]:
    """Wires, sources first, with the registers that they are for, where that pays
    (``LEAST_WIRES``).
    """
    parents: dict[str | int, str | int] = {}

    def root(item):
        while parents.setdefault(item, item) != item:
            parents[item] = parents[parents[item]]
            item = parents[item]
        return item

    for name in wires:
        for user in net.users[name]:
            parents[root(name)] = root(user)
    groups: dict[str | int, tuple[list[str], list[int]]] = defaultdict(lambda: ([], []))
    for name in wires:
        groups[root(name)][0].append(name)
    for number in range(len(net.registers)):
        if number in parents:
            groups[root(number)][1].append(number)
    # Verilator itself moves a wire to its only reader.
    return [group for group in groups.values() if len(group[0]) >= LEAST_WIRES * len(group[1])
            and any(len(net.users[name]) > 1 or len(net.assigns[name]) > 1 for name in group[0])]


def _statements(net: _Netlist, name: str) -> list[str]:
    parts = sorted(net.assigns[name], key=lambda part: name in part.reads)
    return [f"    {part.target} = {part.value};" for part in parts]


def _as_variable(net: _Netlist, name: str, dropped: set[int]) -> None:
    line = net.declared[name]
    net.lines[line] = net.lines[line].replace("wire", "reg", 1)
    dropped.update(part.line for part in net.assigns[name])


def _write_block(net: _Netlist, wires: list[str], registers: list[_Register],
                 dropped: set[int]) -> None:
    body = [f"{_CLOCKED} if ({registers[0].enable}) begin"]
    for name in wires:
        body += _statements(net, name)
        _as_variable(net, name, dropped)
    for register in registers:
        body.append(f"    {register.target} <= {register.value};")
        dropped |= {register.line, register.line + 1}
    last = registers[-1].line
    net.lines[last] = "\n".join([*body, "  end"])
    dropped.remove(last)


def _write_process(net: _Netlist, name: str, dropped: set[int]) -> None:
    """Write the statements of a wire as one process: a bit that is a copy of another is no loop
    then, which Verilator would evaluate twice.
    """
    body = ["  always @* begin", *_statements(net, name), "  end"]
    _as_variable(net, name, dropped)
    first = net.assigns[name][0].line
    net.lines[first] = "\n".join(body)
    dropped.remove(first)
