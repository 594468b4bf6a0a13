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
]
