"""Faults in the RTL generators, one changed line each, and the tests that must find them."""

import os
import subprocess
import sys
from dataclasses import dataclass

from bitstep_sim.proofs.formal import Mutation, mutated


@dataclass(frozen=True)
class Fault:
    """A fault of a kind, and the tests that must find it.

    Parameters
    ----------
    kind : str
        The mistake, in words.
    mutation : Mutation
        The changed line.
    tests : tuple of str
        Files in ``tests/hw``; empty if only runs of the simulated board find it.
    board : str
        File in ``tests/sim`` and, behind ``::``, the words that choose its tests (``-k`` of
        pytest).
    equivalent : str
        Why none can find it; empty for all others.
    """

    kind: str
    mutation: Mutation
    tests: tuple[str, ...] = ()
    board: str = ""
    equivalent: str = ""

    @property
    def arguments(self) -> list[str]:
        """What pytest is to run."""
        if not self.board:
            return [f"tests/hw/{name}" for name in self.tests]
        name, _, words = self.board.partition("::")
        return [f"tests/sim/{name}", "-k", words]


def _test_of(file):
    """Test of a component: the same folder, ``test_`` before the name."""
    folder, _, name = file.rpartition("/")
    return f"{folder}/test_{name}"


def _fault(kind, file, old, new, *tests, board="", equivalent=""):
    names = tests or (() if board else (_test_of(file),))
    return Fault(kind, Mutation(file, old, new), names, board, equivalent)


FAULTS = [
    _fault("delay too short", "pipeline/products/dot_product.py",
           "stages - config.product_stages, name",
           "stages - config.product_stages - 1, name"),
    _fault("delay too long", "pipeline/products/correlator.py", "skipped = delay(m, skip, 1,",
           "skipped = delay(m, skip, 2,"),
    _fault("operands swapped", "pipeline/update/unit_update.py",
           "self.label_shift[place_width:] + UNIT_FRACTION // SHIFT_UNIT - self.shift",
           "self.shift - UNIT_FRACTION // SHIFT_UNIT - self.label_shift[place_width:]"),
    _fault("condition dropped", "pipeline/model/store.py",
           "with m.If(two.valid & two.first & two.freeze):", "with m.If(two.valid & two.freeze):",
           "pipeline/model/test_store.py", "pipeline/test_pipeline.py",
           equivalent="the word changes only with a row's first slot, so every slot of a row "
                      "stores the same"),
    _fault("condition dropped", "pipeline/rows/issue_gate.py",
           "with_data.eq(self.entering & ~self.fill & ~(self.first & self.stuck))",
           "with_data.eq(self.entering & ~self.fill)"),
    _fault("reset missing", "shell/label_unpacker.py", "[some.eq(0), one.eq(0)]", "[one.eq(0)]"),
    _fault("reset missing", "shell/run_control.py", "self.saturation.eq(0),",
           "self.saturation.eq(self.saturation),"),
    _fault("constant changed", "axi/read_master.py", "room >= bursts * MAX_BURST)",
           "room >= bursts * MAX_BURST - 2)"),
    _fault("constant changed", "pipeline/model/corrections.py",
           "half.eq(1 << SHIFT_UNIT * shift - 1)",
           "half.eq((1 << SHIFT_UNIT * shift - 1) - 1)"),
    _fault("comparison changed", "pipeline/products/cell_bounds.py",
           "(gap > -below) & (gap <= above)",
           "(gap > -below) & (gap < above)"),
    _fault("comparison changed", "pipeline/update/linear_solver.py",
           "return exact, distance, ~distance[-1] & distance.any()",
           "return exact, distance, ~distance[-1]", "pipeline/update/test_linear_solver.py"),
    _fault("comparison changed", "pipeline/update/linear_solver.py", "[*terms, C(-1, signed(1))]",
           "terms", "pipeline/update/test_linear_solver.py"),
    _fault("bound off by one", "pipeline/model/walk.py", "(self.last_lanes - 1) >> 1",
           "self.last_lanes >> 1"),
    _fault("sign dropped", "pipeline/rows/decoder.py", "return code[2:].as_signed() + code[sample]",
           "return code[2:] + code[sample]"),
    _fault("rounding dropped", "parts/lane_product.py", "((product >> distance) + 1) >> 1",
           "(product >> distance) >> 1", "parts/test_lane_product.py"),
    _fault("condition added", "pipeline/model/proximal.py", "with m.If(beyond[-1] == negative):",
           "with m.If((beyond[-1] == negative) & ~negative):"),
    _fault("forwarding dropped", "pipeline/model/store.py",
           "read = model.read_port(transparent_for=() if early else (write,))",
           "read = model.read_port()"),
    _fault("priority changed", "axi/burst_splitter.py",
           "valid.eq(self.i.valid & (job.beats != 0) & ",
           "valid.eq(self.i.valid & ", "axi/test_read_master.py", "axi/test_write_master.py"),
    _fault("wrong address", "shell/job_feeders.py", "entry.eq(entry + 16)", "entry.eq(entry + 8)"),
    _fault("wrong width", "pipeline/model/refetcher.py", "1 << self.config.full_fraction - 1, 0)",
           "1 << self.config.full_fraction - 2, 0)"),
    _fault("enable dropped", "parts/arithmetic.py",
           "with when(m, delay_enable(m, valid, stages - 1, name=f\"{name}_valid\")):",
           "with when(m, valid):",
           "parts/test_arithmetic.py", "parts/test_arithmetic_gaps.py"),
    _fault("flag lost", "axi/write_master.py", "bus.wstrb.eq((~self.stop)",
           "bus.wstrb.eq((~self.idle)"),
    _fault("wrong item", "pipeline/rows/replay.py",
           "m.d.sync += [wanted.eq(oldest), offered.eq(0)]",
           "m.d.sync += [wanted.eq(oldest)]"),
    _fault("reset missing", "parts/dither.py", "index.eq(self.row), self.valid",
           "index.eq(0), self.valid"),
    _fault("wrong width", "parts/dither.py", "number = Signal(32) ", "number = Signal(16) "),
    _fault("reset missing", "parts/dither.py", "y.eq(0), part.eq(0), made", "y.eq(0), made"),
    _fault("constant changed", "parts/dither.py", "self.key ^ PARITY", "self.key ^ PARITY ^ 1"),
    _fault("constant changed", "pipeline/update/linear_solver.py",
           "doubled = Cat(C(1, 1), self.dither)",
           "doubled = Cat(C(0, 1), self.dither)", "pipeline/update/test_linear_solver.py"),
    _fault("condition dropped", "pipeline/update/linear_solver.py",
           "\n                                 & ~history.stage_idle[history.dotted])", ")"),
    _fault("constant changed", "pipeline/update/linear_solver.py",
           "up.eq((fraction + self.dither)[",
           "up.eq((fraction + self.dither + 1)["),
    _fault("delay too long", "pipeline/update/linear_solver.py",
           "delay(m, up, history.dotted - 3, name=\"up\")",
           "delay(m, up, history.dotted - 2, name=\"up\")"),
    _fault("term lost", "pipeline/update/row_decision.py",
           "margin.eq(self.dot_margin + self.lookahead_margin)", "margin.eq(self.dot_margin)",
           "pipeline/update/test_row_decision.py", "pipeline/update/test_linear_solver.py"),
    _fault("constant changed", "pipeline/update/linear_solver.py", "addend=2 * self._near)",
           "addend=self._near)"),
    _fault("constant changed", "pipeline/update/linear_solver.py", "less.eq(2 - target)",
           "less.eq(1 - target)"),
    _fault("condition dropped", "pipeline/update/linear_solver.py",
           "judged = delay(m, judged & valid & ~idle, late",
           "judged = delay(m, judged & valid, late"),
    _fault("condition dropped", "pipeline/update/row_decision.py",
           "counts = self.valid & ~self.discard", "counts = self.valid"),
    _fault("bound off by one", "pipeline/update/logistic_solver.py", "Mux(positive, ~exact, exact)",
           "Mux(positive, -exact, exact)"),
    _fault("bound off by one", "pipeline/update/logistic_solver.py", "| (rounded == limit))",
           "| (rounded == limit + 1))"),
    _fault("bound off by one", "pipeline/update/unit_update.py",
           "range(-(len(fine) // SHIFT_UNIT), ",
           "range(-(len(fine) // SHIFT_UNIT) + 1, "),
    _fault("bound off by one", "pipeline/update/unit_update.py", "exact[UNIT_WIDTH:].any()",
           "exact[UNIT_WIDTH + 1:].any()"),
    _fault("bound off by one", "pipeline/update/update_history.py",
           "most = (cycles_left - 1) // self._recursion",
           "most = (cycles_left - 2) // self._recursion", "pipeline/update/test_linear_solver.py"),
    _fault("clear missing", "pipeline/update/update_history.py", "[c.eq(0) for c in self._history]",
           "[c.eq(0) for c in self._history[1:]]", "pipeline/update/test_linear_solver.py"),
    _fault("clear missing", "pipeline/rows/sequencer.py",
           "with m.If(self.stop):\n            m.d.sync += open_rows.eq(0)",
           "with m.If(self.stop):\n            m.d.sync += open_rows.eq(open_rows)",
           "pipeline/rows/test_sequencer_replay.py"),
    _fault("clear missing", "pipeline/rows/phases.py",
           "m.d.comb += upcoming.eq(Phase.IDLE)\n            m.d.sync += self.discard.eq(0)",
           "m.d.comb += upcoming.eq(Phase.IDLE)"),
    _fault("wrong state", "pipeline/rows/phases.py", "Mux(then_flush, Phase.FLUSH, Phase.ROWS)",
           "Phase.ROWS"),
    _fault("comparison changed", "pipeline/rows/issue_gate.py",
           "self.outstanding - finished > self.lookahead)),",
           "self.outstanding - finished >= self.lookahead)),"),
    _fault("condition dropped", "pipeline/rows/issue_gate.py",
           "short.eq(pairs | (self.beats == 3))", "short.eq(self.beats == 3)"),
    _fault("priority changed", "pipeline/rows/wait_causes.py", "blocked = blocked | holds",
           "blocked = holds"),
    _fault("wrong width", "pipeline/rows/row_flags.py", "position = Signal(32)",
           "position = Signal(8)"),
    _fault("wrong width", "pipeline/rows/correction_periods.py", "to_boundary = Signal(32)",
           "to_boundary = Signal(16)", board="board/test_equivalence.py::more_than_16"),
    _fault("reset missing", "pipeline/rows/correction_periods.py", "pending.eq(0), waits.eq(0)]",
           "pending.eq(0)]",
           board="board/test_fresh_boards.py::test_abort and b3-single-n80-d2-r2-near"),
    _fault("reset missing", "pipeline/rows/correction_periods.py", "added.eq(0), needed.eq(0),",
           "needed.eq(0),"),
    _fault("clear missing", "pipeline/rows/replay.py", "newest.eq(0), offered.eq(0)]",
           "newest.eq(0)]"),
    _fault("clear missing", "pipeline/model/refetcher.py", "with m.If(self.stop | self.job.ready):",
           "with m.If(self.job.ready):"),
    _fault("bound off by one", "pipeline/model/refetcher.py", "((self.last_lanes + 1) >> 1))",
           "(self.last_lanes >> 1) + 1)"),
    _fault("bound off by one", "pipeline/model/port.py", "advance.eq(buffer.level < 7 - latency)",
           "advance.eq(buffer.level < 9 - latency)"),
    _fault("clear missing", "pipeline/model/port.py", "buffer.r_en.eq(self.o.ready | stopped)",
           "buffer.r_en.eq(self.o.ready)"),
    _fault("condition dropped", "pipeline/model/port.py", "with m.If(self.i.valid & at_intercept):",
           "with m.If(at_intercept):"),
    _fault("condition dropped", "pipeline/model/walk.py",
           "with m.If(self.restart | (self.advance & ends)):",
           "with m.If(self.advance & ends):"),
    _fault("flag lost", "top.py", "Cat(bus.error for bus in readers if bus is not aux).any()",
           "rows.error", board="board/test_endings.py::bus_errors_of_rows_at_full"),
    _fault("flag lost", "top.py", "Cat(bus.idle for bus in (*readers, models)).all()",
           "Cat(rows.idle, aux.idle, models.idle).all()",
           board="board/test_fresh_boards.py::test_abort and n60-d2-r4-proximal-refetch-far"),
    _fault("condition dropped", "top.py", "cleared.eq(bank.start & ~control.busy)",
           "cleared.eq(bank.start)", board="board/test_endings.py::start_during"),
    _fault("clear missing", "top.py",
           "connect_registered(m, name, source, target, clear=control.stop,",
           "connect_registered(m, name, source, target, clear=0,",
           board="board/test_fresh_boards.py::test_abort and float-n6-d2-r4-near"),
    _fault("wrong signal", "top.py", "row_feeder.copies.eq(bank.copies)",
           "row_feeder.copies.eq(bank.copies - 1)",
           board="board/test_equivalence.py::keeps_nothing and b3-single-n80"),
    _fault("comparison changed", "shell/run_control.py", "(beats > config.line_depth(line))",
           "(beats >= config.line_depth(line))"),
    _fault("constant changed", "shell/run_control.py", "with m.If((settle == 4) & self.write_idle",
           "with m.If((settle >= 2) & self.write_idle"),
    _fault("wrong width", "shell/run_control.py", "Signal(53), Signal(52), Signal(20)",
           "Signal(53), Signal(32), Signal(20)"),
    _fault("condition dropped", "shell/run_control.py", "with m.If(self.busy & ~self._stopping):",
           "with m.If(self.busy):"),
    _fault("clear missing", "shell/run_control.py",
           "with m.If(~self.buses_idle):\n                    m.d.sync += settle.eq(0)",
           "with m.If(~self.buses_idle):\n                    m.d.sync += settle.eq(settle)"),
    _fault("stale register", "shell/register_bank.py",
           "with m.If(selected & is_high):\n            m.d.sync += is_kept.eq(0)",
           "with m.If(selected & is_high):\n            m.d.sync += is_kept.eq(1)"),
    _fault("condition dropped", "shell/register_bank.py", "has_address & has_data & ~bus.bvalid",
           "has_address & has_data"),
    _fault("clear missing", "parts/stream_register.py", "self.o.valid.eq(0), full.eq(0)]",
           "self.o.valid.eq(0)]",
           board="board/test_fresh_boards.py::test_abort and float-n6-d2-r4-near"),
    _fault("reset missing", "pipeline/pipeline.py", "[newest.eq(0), oldest.eq(0)]",
           "[newest.eq(0)]",
           board="board/test_fresh_boards.py::test_abort and float-n6-d6-r2-proximal-near"),
    _fault("clear missing", "pipeline/pipeline.py",
           "(\"labels\", self.i_labels, self.sequencer.i_labels, self.stop | self.start)",
           "(\"labels\", self.i_labels, self.sequencer.i_labels, self.stop)",
           board="board/test_fresh_boards.py::test_abort and float-n6-d2-r4-near"),
    _fault("clear missing", "pipeline/pipeline.py", "64, 1, self.stop | self.start)",
           "64, 1, self.stop)",
           board="board/test_equivalence.py::keeps_nothing and n60-d7"),
    _fault("reset missing", "pipeline/pipeline.py", "m.d.sync += decided.eq(0)",
           "m.d.sync += decided.eq(decided)"),
    _fault("comparison changed", "pipeline/pipeline.py", "self.last_lanes > lane for",
           "self.last_lanes >= lane for"),
    _fault("wrong signal", "pipeline/pipeline.py",
           "engine.mantissa.eq(self.correction_mantissa), engine.shift.eq(self.correction_shift)",
           "engine.mantissa.eq(self.correction_mantissa), engine.shift.eq(self.shift)"),
    _fault("constant changed", "axi/buses.py", "BURST_INCR = 0b01", "BURST_INCR = 0b10",
           "axi/test_read_master.py"),
    _fault("constant changed", "axi/buses.py", "CACHE_BUFFERABLE = 0b0011",
           "CACHE_BUFFERABLE = 0b1111",
           "axi/test_write_master.py"),
    _fault("bound off by one", "axi/burst_splitter.py", "(high == 0) | (high == 1) & aligned,",
           "(high == 0),", "axi/test_read_master.py"),
    _fault("comparison changed", "axi/burst_splitter.py", "<= MAX_BURST - job_index",
           "< MAX_BURST - job_index", "axi/test_read_master.py"),
    _fault("flag lost", "axi/read_master.py", "self.idle.eq(~channel.busy & ~issued & ",
           "self.idle.eq(~channel.busy & "),
    _fault("constant changed", "axi/read_master.py", "bus.rresp != RESP_OKAY", "bus.rresp == 0b10"),
    _fault("bound off by one", "axi/address_channel.py",
           "self.outstanding < self.max_outstanding - 1",
           "self.outstanding < self.max_outstanding", "axi/test_write_master.py"),
    _fault("flag lost", "axi/write_master.py",
           "self.idle.eq(~channel.busy & (channel.outstanding == 0))",
           "self.idle.eq(channel.outstanding == 0)"),
    _fault("wrong width", "pipeline/rows/delay_lines.py",
           "depth = self.config.line_depth(line + 1)",
           "depth = self.config.line_depth(line + 1) - 1"),
    _fault("comparison changed", "pipeline/products/correlator.py", "(d > skipped) &",
           "(d >= skipped) &"),
    _fault("wrong signal", "pipeline/rows/decoder.py",
           "    if bits == 2:\n        return Mux(code[sample],",
           "    if bits == 2:\n        return Mux(code[0],"),
    _fault("constant changed", "boards/uart.py", "timer.eq(self.divisor * 3 // 2 - 2)",
           "timer.eq(self.divisor - 2)", "boards/serial/test_uart.py"),
    _fault("wrong state", "boards/uart.py", "m.next = \"Broken\"", "m.next = \"Idle\"",
           "boards/serial/test_uart.py"),
    _fault("condition dropped", "boards/link.py",
           "\n                        & (self._sequence != self._previous)):", "):",
           "boards/serial/test_link.py"),
    _fault("condition dropped", "boards/link.py", " & ~end[bits - 3:].any())", ")",
           "boards/serial/test_link.py"),
    _fault("condition dropped", "boards/link.py", "with m.If(self._status != Reply.DAMAGED):",
           "with m.If(self._status != Reply.REFUSED):", "boards/serial/test_link.py"),
    _fault("condition dropped", "boards/shared_memory.py", "bus.awready.eq(~active & ~bus.bvalid)",
           "bus.awready.eq(~active)", "boards/serial/test_shared_memory.py"),
    _fault("condition dropped", "boards/shared_memory.py", "Mux(error, 0, bus.wstrb)", "bus.wstrb",
           "boards/serial/test_shared_memory.py"),
    _fault("condition dropped", "boards/shared_memory.py", "self.request.eq(active & (room != 0))",
           "self.request.eq(active)", "boards/serial/test_shared_memory.py"),
    _fault("wrong width", "parts/arithmetic.py", "terms.insert(0, C(addend, width))",
           "terms.insert(0, C(addend, 1))"),
    _fault("delay too short", "pipeline/model/store.py",
           "delay(m, self.access_shown[3:], 1, name=\"shown\")", "self.access_shown[3:]",
           "pipeline/model/test_port.py"),
    _fault("condition dropped", "pipeline/model/store.py",
           "with m.If(self._later.clear | self._later.intercept):",
           "with m.If(self._later.intercept):"),
    _fault("reset missing", "pipeline/model/corrections.py",
           "[address.eq(0), in_group.eq(0), in_beat.eq(0)]", "[address.eq(0), in_group.eq(0)]"),
    _fault("clear missing", "pipeline/model/corrections.py", "with m.If(self.stop):",
           "with m.If(self.stop & ~walking):"),
    _fault("comparison changed", "pipeline/products/cell_bounds.py",
           "(gap >= -below) & (gap < above)",
           "(gap >= -below) & (gap <= above)"),
    _fault("wrong width", "pipeline/model/proximal.py", "beyond = Signal(signed(MODEL_WIDTH + 1)",
           "beyond = Signal(signed(MODEL_WIDTH)"),
    _fault("reset missing", "shell/job_feeders.py", "left.eq(self.epochs), copy.eq(0), address",
           "left.eq(self.epochs), address"),
    _fault("constant changed", "parts/lane_product.py", "_FAR = 63", "_FAR = 31"),
    _fault("wrong width", "axi/address_channel.py",
           "\"outstanding\": Out(range(max_outstanding + 1))",
           "\"outstanding\": Out(range(max_outstanding))", "axi/test_read_master.py"),
    _fault("wrong width", "shell/run_control.py", "labels_left, sent = Signal(32)",
           "labels_left, sent = Signal(16)", board="board/test_equivalence.py::more_than_16"),
    _fault("delay too short", "pipeline/model/corrections.py", "delay(m, ends, self.stages + 1,",
           "delay(m, ends, self.stages,"),
    _fault("condition dropped", "shell/label_unpacker.py", "self.i.ready.eq(room & ~self.restart)",
           "self.i.ready.eq(room)"),
    _fault("constant changed", "top.py", "max_outstanding=15)", "max_outstanding=4)",
           board="board/test_counters.py::far_memory"),
    _fault("bound off by one", "pipeline/rows/correction_periods.py", "beyond.eq(self.period + 1)",
           "beyond.eq(self.period)",
           equivalent="rows are 2 cycles apart, so the comparison is right again where it is used"),
]


def run_fault(fault: Fault) -> str:
    """``killed``, or ``survives`` if none of the fault's tests fails with it."""
    with mutated(fault.mutation) as folder:
        path = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
        ended = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider",
             *fault.arguments],
            env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True)
    if ended.returncode not in (0, 1):
        raise RuntimeError(f"pytest ended with code {ended.returncode}:\n{ended.stdout[-2000:]}")
    return "killed" if ended.returncode else "survives"


def print_faults(word: str) -> int:
    """Run every fault with ``word`` in its kind or file; the number of survivors."""
    chosen = [fault for fault in FAULTS if word in f"{fault.kind} {fault.mutation.file}"]
    survivors = 0
    for fault in chosen:
        result = run_fault(fault)
        if result == "survives" and fault.equivalent:
            result = "equal"
        survivors += result == "survives"
        print(f"{result:<9} {fault.kind:<24} {fault.mutation.file}: {fault.mutation.old.strip()!r}"
              f" -> {fault.mutation.new.strip()!r} {fault.equivalent}".rstrip(), flush=True)
    print(f"{survivors} of {len(chosen)} faults survive")
    return survivors
