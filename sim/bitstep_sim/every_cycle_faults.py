"""Faults in what lets rows of a batch enter one beat a cycle, and the tests that must find them."""

from bitstep_sim.fault_runs import fault_of as _fault

_PHASES, _FLAGS = "pipeline/rows/phases.py", "pipeline/rows/row_flags.py"
_QUEUE, _STORE = "pipeline/rows/beat_queue.py", "pipeline/model/store.py"


def _on_board(kind, file, old, new, words):
    return _fault(kind, file, old, new, board=f"board/test_every_cycle.py::{words}")


EVERY_CYCLE_FAULTS = [
    _fault("forwarding dropped", _STORE, "old if repeats is None else Mux(repeats, word, old)",
           "old"),
    _fault("forwarding dropped", _STORE,
           "Mux(repeats & slot_2.freeze, seen_words.as_value(), read.data)", "read.data"),
    _fault("condition dropped", _STORE, "Mux(repeats & slot_2.freeze,", "Mux(repeats,"),
    _fault("condition dropped", _STORE, "slot.valid & slot_1.valid & (slot.index == slot_1.index)",
           "slot.valid & (slot.index == slot_1.index)"),
    _fault("condition dropped", _STORE, "slot.valid & slot_1.valid & (slot.index == slot_1.index)",
           "slot.valid & slot_1.valid"),
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
    _on_board("wrong signal", "pipeline/pipeline.py",
              "BeatDithers(rows_per_beat=1) if", "BeatDithers(rows_per_beat=2) if", "second_runs"),
]
