"""Faults in what gives rows their weights, and the tests that must find them."""

from bitstep_sim.fault_runs import fault_of as _fault

_UNPACKER, _FEEDER = "shell/label_unpacker.py", "shell/job_feeders.py"
_PATH, _PORTS = "pipeline/model_path.py", "pipeline/update/solver_ports.py"
_MANTISSA, _PACKED = "pipeline/update/row_mantissa.py", "packed/pipeline.py"
_EXTRAS = "pipeline/extras.py"


def _on_board(kind, file, old, new, words):
    return _fault(kind, file, old, new, board=f"board/test_row_weights.py::{words}")


def _of_packed_rows(kind, file, old, new, words):
    return _fault(kind, file, old, new, board=f"board/test_packed_weights.py::{words}")


WEIGHT_FAULTS = [
    _fault("constant changed", _UNPACKER, "place.eq(place + self._turn)",
           "place.eq(place + self._turn + 1)"),
    _fault("places of rows that are none", _UNPACKER, "self._turn = rows_per_beat * WEIGHT_TURN",
           "self._turn = rows * WEIGHT_TURN"),
    _fault("labels of another row", _UNPACKER, "if self.weights and row:", "if False:"),
    _fault("labels of another row", _UNPACKER, "own = self._of_model(alone[:width],",
           "own = self._of_model(first[:width],"),
    _fault("condition dropped", _UNPACKER, "stored = Mux(self.weighted, own, stored)",
           "stored = own"),
    _fault("clear missing", _UNPACKER,
           "with m.If(self.restart):\n            m.d.sync += place.eq(0)",
           "with m.If(0):\n            m.d.sync += place.eq(0)"),
    _fault("wrong bits", _UNPACKER, "word.word_select(row, width)[-WEIGHT_BITS:]",
           "word.word_select(row, width)[:WEIGHT_BITS]"),
    _fault("weight of another row", _UNPACKER, "word.word_select(row, width)[-WEIGHT_BITS:]",
           "word.word_select(0, width)[-WEIGHT_BITS:]"),
    _fault("condition dropped", _UNPACKER, "with m.If(self.weighted):", "with m.If(1):"),
    _fault("wrong width", _UNPACKER, "for streams in (self.streams, 1)]",
           "for streams in (self.streams, self.streams)]"),
    _fault("rounding lost", _FEEDER, "label_beats.eq((self.rows + 1) >> 1)",
           "label_beats.eq(self.rows >> 1)"),
    _fault("wrong signal", _FEEDER,
           "with m.Default():\n                        m.d.sync += label_beats.eq(labels)",
           "with m.Default():\n                        m.d.sync += label_beats.eq(self.rows)"),
    _on_board("delay too short", _PATH, "solver_entry - self._product_stages - 1",
              "solver_entry - self._product_stages - 2", "every_loss"),
    _on_board("delay too short", _PATH, "self._mantissa_wait - self.derivative_step.latency",
              "self._mantissa_wait - self.derivative_step.latency - 1", "every_loss"),
    _fault("stage of another row", _PORTS, "(0 if name == \"mantissa\" else self._late)", "0",
           "pipeline/update/test_linear_solver.py"),
    _on_board("term lost", _MANTISSA, "dither.eq(place + key[:WEIGHT_BITS])",
              "dither.eq(place)", "every_loss"),
    _on_board("condition dropped", _MANTISSA, "Mux(weighted, scaled[WEIGHT_BITS:], kept)",
              "scaled[WEIGHT_BITS:]", "left_out"),
    _of_packed_rows("term lost", _PACKED, "place=beat.place + WEIGHT_TURN * row",
                    "place=beat.place", "corner_weights"),
    _of_packed_rows("weight of the first row for all", _PACKED, "else beat.weight[row]",
                    "else beat.weight[0]", "corner_weights"),
    _of_packed_rows("mantissa of another model", _PACKED,
                    "with m.Switch(self.sequencer.next_model)",
                    "with m.Switch(self.sequencer.slot.model)", "batches"),
    _of_packed_rows("model of the slot before", "packed/sequencer.py",
                    "Mux(turn_ends, 0, Mux(issue, model + 1, model))",
                    "Mux(issue, model + 1, model)", "batches"),
    _of_packed_rows("mantissa of the slot for rows without weights", _PACKED,
                    "kept=kept", "kept=mantissa", "label_formats"),
    _of_packed_rows("delay too short", _PACKED,
                    "self._after(m, chosen.label_shift, wait, \"late_label_shift\")",
                    "chosen.label_shift", "batches"),
    _of_packed_rows("delay too short", _PACKED,
                    "self._after(m, mantissa, latency, f\"mantissa_{row}\")",
                    "self._after(m, mantissa, latency - 1, f\"mantissa_{row}\")", "batches"),
    _of_packed_rows("step of the first row for all", "packed/solvers.py",
                    "for row, step in enumerate(self.derivative_step)]",
                    "for row, step in enumerate([self.derivative_step[0]] * len(self.rows))]",
                    "corner_weights"),
    _of_packed_rows("flag of a row lost", "packed/solvers.py",
                    "return steps, (too_large & taking).any()",
                    "return steps, (too_large & taking)[1:].any()", "all_rows_of_a_beat_but_one"),
    _on_board("stage of another row", _PORTS, "before = self.at(name, left + 1)",
              "before = self.at(name, min(left + 2, self._entry))", "every_loss"),
    _on_board("condition dropped", _PATH, "weighted = weighted & ~pipeline.start",
              "weighted = weighted", "again"),
    _on_board("delay too short", _EXTRAS, "delay(m, pipeline.start, 1 + step.latency",
              "delay(m, pipeline.start, step.latency", "again"),
    _on_board("bound lost", _EXTRAS, "Mux(step.too_large, C(-1, LOOKAHEAD_MARGIN_WIDTH), bound)",
              "bound", "again and fits_no_row"),
    _on_board("stage of another row", "pipeline/update/linear_solver.py",
              "self.steps.at(\"mantissa\", history.dotted - 1)",
              "self.steps.at(\"mantissa\", history.dotted)", "again"),
    _on_board("stage of another row", "pipeline/update/linear_solver.py",
              "self.steps.at(\"derivative_step\", 2)", "self.steps.at(\"derivative_step\", 3)",
              "again"),
    # Rows that come again have the weights of the rows after them.
    _on_board("count off by one", "pipeline/rows/inputs.py",
              "self.o_labels, _LABELS_KEPT, 1, self.stop | self.start)",
              "self.o_labels, _LABELS_KEPT, 2, self.stop | self.start)", "again"),
    _on_board("condition dropped", "shell/run_check.py",
              "if config.row_weights:      # a derivative has no weight",
              "if False:", "derivatives_have_no"),
]
