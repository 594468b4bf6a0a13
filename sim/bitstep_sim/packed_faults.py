"""Faults in the components of packed rows, and the tests that must find them."""

from bitstep_sim.fault_runs import Fault
from bitstep_sim.proofs.mutation import Mutation


def _fault(kind, file, old, new, words):
    return Fault(kind, Mutation(f"packed/{file}", old, new), board=f"board/test_packed.py::{words}")


PACKED_FAULTS = [
    Fault("place of the first row lost", Mutation(
        "parts/beat_dithers.py", "bits >> first * DITHER_WIDTH", "bits"),
        ("parts/test_beat_dithers.py",)),
    Fault("rounding lost", Mutation(
        "shell/beat_count.py", "self.rows + (self.rows_per_beat - 1)", "self.rows"),
        ("shell/test_beat_count.py",)),
    Fault("labels of another row", Mutation(
        "shell/label_unpacker.py", "self._of_model(word.word_select(row, width), stored)",
        "self._of_model(word[:width], stored)"), ("shell/test_label_unpacker.py",)),
    _fault("batches may begin a cycle early", "sequencer.py", "left.eq(self.config.latency - 1)",
           "left.eq(self.config.latency - 2)", "batches"),
    _fault("rows of the next batch take part", "sequencer.py",
           "size.eq(nearest),", "size.eq(_least(room, rows.near)),", "batches"),
    _fault("a batch sees its own updates", "words.py",
           "with m.If(slot.valid & ~slot.first):", "with m.If(0):", "batches"),
    _fault("rows that take no part are updated", "solvers.py",
           "taking = delay(m, Mux(self.valid, self.rows, 0), 1",
           "taking = delay(m, Mux(self.valid, ~0, 0), 1", "rows_around"),
    _fault("only the last row is judged", "words.py",
           "for row, value in enumerate(sums)]\n            with m.If(judged)",
           "for row, value in enumerate(sums) if row == len(sums) - 1]\n"
           "            with m.If(judged)", "within_a_beat"),
    _fault("cleared models are those of the run before", "words.py", "m.d.sync += loaded.eq(0)",
           "m.d.sync += loaded.eq(loaded)", "rows_around"),
    _fault("correction of the turn is lost at its end", "words.py",
           "late_words.as_value(), before.as_value()", "before.as_value(), before.as_value()",
           "corrections"),
    _fault("correction is not waited for", "sequencer.py", "return busy & self.slot.correct",
           "return busy & 0", "corrections"),
    _fault("coefficients of the last model for all", "pipeline.py",
           "port.load_coefficients & (model == 0)", "port.load_coefficients", "corrections"),
    _fault("misaligned corrections run", "sequencer.py",
           "turn_ends & ends & ~batch_ends & ~epoch_ends",
           "turn_ends & ends & ~batch_ends & epoch_ends", "registers"),
    _fault("step of the first model for all", "pipeline.py", "steps.mantissa.eq(entry.mantissa)",
           "steps.mantissa.eq(self.all_steps[0].mantissa)", "batches"),
    _fault("derivative of the model before", "pipeline.py",
           "self._after(m, step.value, wait, \"derivative_step\")",
           "self._after(m, step.value, wait + 1, \"derivative_step\")", "steps_of_their_own"),
    _fault("step of a correction comes late", "pipeline.py",
           "self._after(m, shift, 2, \"correction_shift\")",
           "self._after(m, shift, 6, \"correction_shift\")", "corrections"),
    _fault("last period asks for a correction", "sequencer.py", "more.eq(left > self.period)",
           "more.eq(left >= self.period)", "last_period"),
    _fault("delay too short", "words.py", "carried = delay(m, carry, 2,",
           "carried = delay(m, carry, 1,", "by_a_correction"),
    _fault("wrong width", "solvers.py", "self.shift, name=f\"addend_{row}\")",
           "self.shift, name=f\"addend_{row}\")[:-8]", "largest_shift"),
    _fault("condition dropped", "solvers.py",
           "((self.loss == Loss.HINGE) | (self.loss == Loss.HUBER)) & step_too_large",
           "step_too_large", "derivative_step"),
    _fault("condition dropped", "solvers.py",
           "((self.loss == Loss.HINGE) | (self.loss == Loss.HUBER)) & step_too_large",
           "(self.loss == Loss.HINGE) & step_too_large", "derivative_step"),
    _fault("comparison changed", "solvers.py", "below.eq(distance < -self.bound)",
           "below.eq(distance <= -self.bound)", "at_the_bound"),
    _fault("condition dropped", "solvers.py", "wrong[row].eq(counts & ~far &",
           "wrong[row].eq(counts &", "clipped"),
    _fault("sums skip a group", "sums.py", "sums[row // distance * distance - 1]",
           "sums[row // distance * distance - distance]", "losses"),
    _fault("flags of another model", "pipeline.py",
           "words.overflowed & (words.overflowed_model == number)",
           "words.overflowed & (solved_model == number)", "ends_no_other"),
]
