"""Faults in the components of woven rows, and the tests that must find them."""

from bitstep_sim.fault_runs import Fault
from bitstep_sim.proofs.formal import Mutation


def _fault(kind, file, old, new, test="test_unweaver.py"):
    return Fault(kind, Mutation(f"woven/{file}", old, new), (f"woven/{test}",))


WOVEN_FAULTS = [
    _fault("wrong address", "unweaver.py", "read.addr.eq(beat + (first > number))",
           "read.addr.eq(beat + (first >= number))"),
    _fault("comparison changed", "unweaver.py", "(sign & (bit < number))",
           "(sign & (bit > number))"),
    _fault("comparison changed", "unweaver.py", "(left >= advance) & (rows_left != 0)",
           "(left > advance) & (rows_left != 0)"),
    _fault("condition dropped", "unweaver.py", "(left >= advance) & (rows_left != 0)",
           "(left >= advance)"),
    _fault("condition dropped", "unweaver.py", "chunks.valid & ~stored[-1] & ~self.stop",
           "chunks.valid & ~self.stop"),
    _fault("reset missing", "unweaver.py", "m.d.sync += [beat.eq(0), plane.eq(0)]\n",
           "m.d.sync += [plane.eq(0)]\n"),
    _fault("reset missing", "chunks.py", "Mux(self.start | self.block_ends, self.plane_units",
           "Mux(self.block_ends, self.plane_units"),
    _fault("bound off by one", "chunks.py", "b[5:].any() | (b[:5] > a)", "b[4:].any()"),
    _fault("wrong address", "plane_feeder.py", "block + plane_bytes * PLANES",
           "chunk + plane_bytes * PLANES"),
    _fault("reset missing", "plane_feeder.py", "plane.eq(0), block.eq(copy_address)",
           "block.eq(copy_address)"),
    _fault("constant changed", "sizes.py", "-(-_LEAST_UNITS // units) * units",
           "_LEAST_UNITS // units * units"),
    _fault("condition dropped", "epoch_scale.py",
           "\n                        | (self.label_shift < left + least) | lost.any())",
           "\n                        | (self.label_shift < left + least))",
           "test_epoch_scale.py"),
    _fault("bound off by one", "epoch_scale.py", "(self.planes > PLANES)",
           "(self.planes > PLANES + 1)", "test_epoch_scale.py"),
    *(Fault(kind, Mutation(file, old, new), (test,)) for kind, file, old, new, test in (
        ("reset missing", "pipeline/model/corrections.py", "m.d.sync += word.eq(0)",
         "m.d.sync += word.eq(word)", "pipeline/model/test_corrections.py"),
        ("rounding dropped", "pipeline/model/corrections.py", "addend=half[COEFFICIENT_WIDTH:],",
         "addend=0,", "pipeline/model/test_corrections.py"),
        ("forwarding dropped", "pipeline/model/corrections.py",
         "transparent_for=(write,) if forwards else ()", "transparent_for=()",
         "pipeline/model/test_corrections.py"),
        ("flag lost", "pipeline/model/corrections.py", "left |= finished_last & beyond[0]",
         "left |= finished_last & 0", "pipeline/model/test_corrections.py"),
        ("wrong address", "pipeline/model/corrections.py",
         "Mux(self.slot.valid, asked, self.index)", "asked",
         "pipeline/model/test_corrections.py"),
        ("sign dropped", "pipeline/update/update_sum.py", "Mux(self.i[-1], -self.i, self.i)",
         "self.i", "pipeline/update/test_update_sum.py"),
        ("reset missing", "pipeline/update/update_sum.py", "[there.eq(0), total.eq(0)]",
         "[there.eq(0)]", "pipeline/update/test_update_sum.py"),
        ("rounding dropped", "pipeline/update/centre.py", "rest.eq(self.addend - self.scaled)",
         "rest.eq(-self.scaled)", "pipeline/update/test_linear_solver.py"),
        ("delay too short", "pipeline/update/linear_solver.py",
         "delay(m, centre.scaled, left - start + 2,", "delay(m, centre.scaled, left - start + 1,",
         "pipeline/update/test_linear_solver.py"),
        ("condition dropped", "pipeline/update/linear_solver.py",
         "rest_counts.eq(~counts & beyond)", "rest_counts.eq(0)",
         "pipeline/update/test_linear_solver.py"),
        ("condition dropped", "shell/run_check.py", "if config.sums_gradients else 1)",
         "if config.sums_gradients else 0)", "shell/test_run_check.py"),
        ("condition dropped", "pipeline/update/logistic_solver.py", "Mux(positive & ~derivatives,",
         "Mux(positive,", "pipeline/update/test_logistic_solver.py"))),
    *(Fault(kind, Mutation(file, old, new), board=f"board/test_centred.py::{words}")
      for kind, file, old, new, words in (
        ("carry dropped", "pipeline/model/intercept.py", " + updated[MODEL_WIDTH - 1]", "",
         "test_wide_rows and 4095"),
        ("wrong flag", "pipeline/model/store.py", "Mux(self.sums, slot_1.apply, counts)",
         "Mux(self.sums, slot_1.frozen, counts)", "test_any_gradient and n4096"),
        ("condition dropped", "pipeline/model/intercept.py",
         "Mux(slot_1.apply, self.high, 0)", "self.high", "keeps_nothing and n4096"),
        ("bound off by one", "shell/run_check.py", "(registers.batch < registers.rows)",
         "(registers.batch + 1 < registers.rows)", "registers_that_no"))),
]
