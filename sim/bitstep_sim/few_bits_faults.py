"""Faults in what rounds models and updates to few bits, and the tests that must find them."""

from bitstep_sim.fault_runs import fault_of as _fault

_MODEL, _UPDATE = "pipeline/model/rounded_model.py", "pipeline/update/update_rounding.py"
_PHASES = "pipeline/rows/phases.py"


def _on_board(kind, file, old, new, words):
    return _fault(kind, file, old, new, board=f"board/test_few_bits.py::{words}")


FEW_BITS_FAULTS = [
    _fault("comparison changed", _MODEL, "(largest > (limit << least))",
           "(largest >= (limit << least))"),
    _fault("bound off by one", _MODEL, "crosses.eq(upcoming >= FEATURES_PER_WORD)",
           "crosses.eq(upcoming > FEATURES_PER_WORD)"),
    _fault("bound off by one", _MODEL, "(first >= FEATURES_PER_WORD - lane)",
           "(first > FEATURES_PER_WORD - lane)"),
    _fault("sign dropped", _MODEL, "size.eq(Mux(word[-1], -word, word))",
           "size.eq(Mux(word[-1], ~word, word))"),
    _fault("reset missing", _MODEL, "m.d.sync += largest.eq(0)", "m.d.sync += largest.eq(largest)"),
    _fault("clear missing", _MODEL,
           "with m.If(self.stop):\n            m.d.sync += self.busy.eq(0)",
           "with m.If(self.stop):\n            m.d.sync += self.busy.eq(self.busy)"),
    _fault("counter stands still", _MODEL, "number.eq(number + 1)", "number.eq(number)"),
    _fault("half dropped", _UPDATE, "name=\"dither\") << 1) | 1)", "name=\"dither\") << 1))"),
    _fault("bound off by one", _UPDATE, "length.eq(place + 2)", "length.eq(place + 1)"),
    _fault("condition dropped", _UPDATE, "(self.bits == 0) | excess[-1]", "excess[-1]"),
    _fault("wrong width", "pipeline/products/dot_product.py",
           "row = Signal(signed(largest.bit_length() + 1)",
           "row = Signal(signed(largest.bit_length())"),
    *(_fault(kind, f"pipeline/update/{file}", old, new,
             "pipeline/update/test_rounded_solvers.py") for kind, file, old, new in (
        ("dither of another row", "update_rounding.py", "history.dotted - 1, name=\"row_dither\"",
         "3, name=\"row_dither\""),
        ("wrong flag", "logistic_solver.py", "rounding.idle.eq(stage_idle[1])",
         "rounding.idle.eq(stage_idle[2])"),
        ("wrong width", "logistic_solver.py", "product[STEP_FRACTION + VALUE_FRACTION - FRACTION:]",
         "product[STEP_FRACTION + VALUE_FRACTION - FRACTION + 1:] << 1"))),
    _on_board("wrong width", _MODEL, "number = Signal(32) ", "number = Signal(8) ",
              "byte_counts"),
    _on_board("condition dropped", _PHASES, "follows.eq(steps & (last_row | self.step_due))",
              "follows.eq(steps)", "drawn"),
    _on_board("wait dropped", _PHASES, "return self.outstanding == 0",
              "return self.outstanding >= 0", "users_have"),
]
