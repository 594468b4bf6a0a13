"""Faults in what tells the models of a run apart, and the tests that must find them."""

from bitstep_sim.fault_runs import Fault
from bitstep_sim.proofs.mutation import Mutation

_UNPACKER, _PATH, _TURNS = ("shell/label_unpacker.py", "pipeline/model_path.py",
                            "shell/models.py")
_TESTS, _BOARD = ("shell/test_label_unpacker.py",), "board/test_several_models.py::"

MODEL_FAULTS = [
    Fault("labels of another model", Mutation(
        _UNPACKER, "stored = word.word_select(row * self.streams + model, width)",
        "stored = word.word_select(row * self.streams + (model ^ 1), width)"), _TESTS),
    Fault("reset missing", Mutation(
        _UNPACKER, "number.eq(Mux(whole, 0, number + 1))", "number.eq(number + 1)"), _TESTS),
    Fault("words of every model are written", Mutation(
        _PATH, "mine.write.eq(self.selects(port, words.write))",
        "mine.write.eq(words.write)"), board=f"{_BOARD}steps"),
    Fault("coefficients of the last model for all", Mutation(
        "pipeline/extras.py", "path.selects(port, port.coefficient)", "port.coefficient"),
        board=f"{_BOARD}corrections"),
    Fault("one model ends the others", Mutation(_TURNS, "~on.any())", "~on.all())"),
          board=f"{_BOARD}ends_no_other"),
    Fault("bound off by one", Mutation(
        _TURNS, "control.model + 1 != control.registers.models",
        "control.model != control.registers.models"), board=f"{_BOARD}steps"),
    Fault("bound off by one", Mutation(
        _TURNS, "on = Cat((registers.models > number)", "on = Cat((registers.models >= number)"),
        board="board/test_packed.py::its_last_model"),
    Fault("reset missing", Mutation(
        _TURNS, "*(entry.eq(_STILL) for entry in self.entries)]", "]"),
        board=f"{_BOARD}ends_no_other or has_no_corrections"),
    Fault("constant changed", Mutation(
        _TURNS, "const({\"shift\": 1, \"correction_shift\": 1})", "const({\"shift\": 1})"),
        board=f"{_BOARD}has_no_corrections"),
    Fault("flag lost", Mutation(
        "top.py", "Cat(bank.overflow, bank.overflow_more).eq(", "bank.overflow.eq("),
        board="board/test_packed.py::ninth_model"),
    Fault("wrong width", Mutation(
        "shell/job_feeders.py", "Signal(32 + self.streams.bit_length() - 1)",
        "Signal(32)"), ("shell/test_job_feeders.py",)),
    Fault("delay too short", Mutation(
        "pipeline/model/port.py", "latency + waits, name=\"buffered_intercept\"",
        "latency, name=\"buffered_intercept\""), ("pipeline/model/test_port.py",)),
]
