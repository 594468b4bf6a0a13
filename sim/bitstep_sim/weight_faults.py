"""Faults in what gives rows their weights, and the tests that must find them."""

from bitstep_sim.fault_runs import fault_of as _fault

_UNPACKER, _FEEDER = "shell/label_unpacker.py", "shell/job_feeders.py"
_PATH, _PORTS = "pipeline/model_path.py", "pipeline/update/solver_ports.py"
_EXTRAS = "pipeline/extras.py"


def _on_board(kind, file, old, new, words):
    return _fault(kind, file, old, new, board=f"board/test_row_weights.py::{words}")


WEIGHT_FAULTS = [
    _fault("constant changed", _UNPACKER, "place.eq(place + WEIGHT_TURN)",
           "place.eq(place + WEIGHT_TURN + 1)"),
    _fault("clear missing", _UNPACKER,
           "with m.If(self.restart):\n            m.d.sync += place.eq(0)",
           "with m.If(0):\n            m.d.sync += place.eq(0)"),
    _fault("wrong bits", _UNPACKER, "word[width - WEIGHT_BITS:width]",
           "word[:WEIGHT_BITS]"),
    _fault("condition dropped", _UNPACKER, "with m.If(self.weighted):", "with m.If(1):"),
    _fault("wrong width", _UNPACKER, "for streams in (self.streams, 1)]",
           "for streams in (self.streams, self.streams)]"),
    _fault("rounding lost", _FEEDER, "label_beats.eq((self.rows + 1) >> 1)",
           "label_beats.eq(self.rows >> 1)"),
    _fault("wrong signal", _FEEDER,
           "with m.Default():\n                        m.d.sync += label_beats.eq(labels)",
           "with m.Default():\n                        m.d.sync += label_beats.eq(self.rows)"),
    _on_board("delay too short", _PATH, "wait = entered - stages - 1",
              "wait = entered - stages - 2", "every_loss"),
    _on_board("delay too short", _PATH, "then = wait - step.latency",
              "then = wait - step.latency - 1", "every_loss"),
    _on_board("term lost", _PATH, "place.eq(row.place + steps.key[:WEIGHT_BITS])",
              "place.eq(row.place)", "every_loss"),
    _on_board("condition dropped", _PATH,
              "Mux(weighted, scaled[WEIGHT_BITS:], steps.mantissa)",
              "scaled[WEIGHT_BITS:]", "left_out"),
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
