"""Faults in what lets rows of a batch enter one beat a cycle, and the tests that must find them."""

from bitstep_sim.fault_runs import fault_of as _fault

_PHASES, _FLAGS = "pipeline/rows/phases.py", "pipeline/rows/row_flags.py"
_QUEUE, _STORE = "pipeline/rows/beat_queue.py", "pipeline/model/store.py"
_DITHERS = "parts/row_dithers.py"


def _on_board(kind, file, old, new, words):
    return _fault(kind, file, old, new, board=f"board/test_every_cycle.py::{words}")


EVERY_CYCLE_FAULTS = [
    _fault("forwarding dropped", _STORE, "return Mux(first, word, chosen)", "return chosen"),
    _fault("forwarding dropped", _STORE, "Mux(second, word, Mux(further, late, old))",
           "Mux(further, late, old)"),
    _fault("forwarding dropped", _STORE, "Mux(further, late, old)", "old"),
    _fault("forwarding dropped", _STORE, "(third | fourth, 2)", "(fourth, 2)"),
    _fault("forwarding dropped", _STORE, "(third | fourth, 2)", "(third, 2)"),
    _fault("wrong signal", _STORE,
           "Mux(third, word, delay(m, word, 1, name=f\"word_{lane}\"))", "word"),
    _fault("delay too short", _STORE, "delay(m, word, 1, name=f\"word_{lane}\")", "word"),
    _fault("delay too short", _STORE, "(second, 2), (first, 3)", "(second, 1), (first, 3)"),
    _fault("delay too short", _STORE, "(second, 2), (first, 3)", "(second, 2), (first, 2)"),
    _fault("condition dropped", _STORE, "slot.valid & (self.slot.index == slot.index)",
           "self.slot.index == slot.index"),
    _fault("condition dropped", _STORE, "slot.valid & (self.slot.index == slot.index)",
           "slot.valid"),
    _fault("wrong row", _FLAGS, "C(0) if self.every_cycle else self.lookahead", "self.lookahead"),
    _fault("bound off by one", _FLAGS, "before_end.eq(self.batch - 2)",
           "before_end.eq(self.batch - 1)"),
    _fault("condition dropped", _FLAGS, "Mux(ends, batch_end == 0, position == before_end)",
           "position == before_end"),
    _fault("bound off by one", _PHASES, "Mux(self.counted, self.rows_left == 2, is_last)",
           "is_last"),
    _fault("condition dropped", _PHASES, "~(last_row | self.step_due | self.will_correct)",
           "~(self.step_due | self.will_correct)"),
    _fault("condition dropped", _PHASES, "~(last_row | self.step_due | self.will_correct)",
           "~(last_row | self.will_correct)"),
    _fault("condition dropped", _PHASES, "~(last_row | self.step_due | self.will_correct)",
           "~(last_row | self.step_due)"),
    _fault("bound off by one", _PHASES, "m.d.sync += flush_left.eq(self.lookahead)\n",
           "m.d.sync += flush_left.eq(self.lookahead + 1)\n"),
    _fault("condition dropped", _PHASES, "with m.If(self.lookahead == 0):", "with m.If(0):"),
    _fault("condition dropped", _PHASES, "& (flush_left == 1) & resumes):",
           "& (flush_left == 1)):"),
    _fault("stale register", "pipeline/rows/correction_periods.py",
           "self.will_correct.eq(following)", "self.will_correct.eq(at_boundary)"),
    _fault("delay too short", _QUEUE, "delay(m, newest, 1, name=\"newest\")", "newest"),
    _fault("condition dropped", _QUEUE, "taken = self.slot.valid & self.slot.apply",
           "taken = self.slot.valid"),
    _fault("reset missing", _QUEUE, "[newest.eq(0), oldest.eq(0)]", "[newest.eq(0)]"),
    _fault("wrong width", _QUEUE, "(config.beats_in_flight - 1).bit_length()",
           "(config.beats_in_flight // 2).bit_length()"),
    _fault("wait that nothing needs", "pipeline/rows/issue_gate.py",
           "if self.config.update_interval == 1:\n            return C(0)",
           "if self.config.update_interval == 1:\n            return self.last & just"),
    _fault("delay too short", "pipeline/update/logistic_solver.py",
           "delay(m, value, entered - left, name=", "delay(m, value, entered - left - 1, name="),
    _on_board("clear missing", "pipeline/pipeline.py", "levels.start.eq(self.start)",
              "levels.start.eq(0)", "second_runs"),
    _on_board("delay too long", "pipeline/pipeline.py", "cycles=config.stages.dot.cycles)",
              "cycles=config.stages.dot.cycles + 1)", "second_runs"),
    _on_board("wrong signal", "pipeline/pipeline.py",
              "self.dither.row.eq(self.sequencer.i_labels.ready)",
              "self.dither.row.eq(self.sequencer.i_rows.ready)", "second_runs"),
    _fault("reset missing", _DITHERS, "[first.eq(self.key), place.eq(0)]", "[first.eq(self.key)]"),
    _fault("delay too short", _DITHERS, "delay(m, place, len(ends), name=\"place\")",
           "delay(m, place, len(ends) - 1, name=\"place\")"),
    _fault("wrong constant", _DITHERS, "first.rotate_left(ROTATIONS[1])",
           "first.rotate_left(ROTATIONS[0])"),
    _fault("wrong signal", _DITHERS, "y = (y + added[1])[:32]", "y = (y + added[0])[:32]"),
]
