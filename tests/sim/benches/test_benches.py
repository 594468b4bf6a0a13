from pathlib import Path

import pytest

from bitstep_sim.benches import __main__ as command
from bitstep_sim.benches import registry, runner
from bitstep_sim.board.verilator import ToolError


def marked(bench):
    """A bench with its name; some of them take a minute, and `make sim` runs all."""
    name = f"{bench.name}-{bench.configuration}"
    slow = any(word in name for word in ("-planes-", "-m", "refetch", "w128", "f32", "256"))
    return pytest.param(bench, marks=pytest.mark.slow if slow else (), id=name)


@pytest.mark.by_day(1)
@pytest.mark.parametrize("bench", [*map(marked, registry.BENCHES)])
@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_bench(bench, seed):
    result = runner.run_bench(bench.verilog(), bench.module, seed=seed,
                              environment=bench.environment)
    assert result.ok, f"{result.passed} of {result.tests} passed; output in {result.log}"


def fake(result):
    def run_bench(*_, **__):
        if isinstance(result, Exception):
            raise result
        return result

    return run_bench


@pytest.mark.parametrize(("result", "code", "text"), [
    (runner.Result(3, 3, 1.5, Path("log")), 0, "3      3     1.5"),
    (runner.Result(3, 2, 1.5, Path("log")), 1, "output in log"),
    (runner.Result(0, 0, 1.5, Path("log")), 1, "output in log"),
    (runner.BenchError("no result"), 1, "failed: no result"),
    (ToolError("no make"), 1, "failed: no make"),
])
def test_command(monkeypatch, capsys, result, code, text):
    monkeypatch.setattr(command, "run_bench", fake(result))
    monkeypatch.setattr(command, "BENCHES", [registry.Bench("a", "b", "c", lambda: "d")])
    assert command.main([]) == code
    assert text in capsys.readouterr().out


def test_command_with_unknown_word(capsys):
    assert command.main(["nonsense"]) == 1
    assert "No bench has 'nonsense'" in capsys.readouterr().err


def test_missing_make(monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ToolError, match="needs g\\+\\+"):
        runner.run_bench("", "module")


def test_broken_verilog(monkeypatch, tmp_path):
    monkeypatch.setenv("BITSTEP_CACHE", str(tmp_path))
    with pytest.raises(runner.BenchError, match="Could not compile the bench's top, see"):
        runner.run_bench("nonsense", "module")


def test_a_path_with_spaces(monkeypatch, tmp_path):
    """Of which make would make two."""
    (tmp_path / "of a user").mkdir()
    monkeypatch.setenv("BITSTEP_CACHE", str(tmp_path / "of a user"))
    with pytest.raises(runner.BenchError, match=r"without spaces, not .*of a user.* move the"):
        runner.run_bench("module bitstep_top; endmodule", "bitstep_sim.benches.bench_shell")


def test_files_of_verilator_are_compiled_once(monkeypatch, tmp_path):
    """The first build keeps them, and no file of its top; the next one finds them."""
    monkeypatch.setenv("BITSTEP_CACHE", str(tmp_path))
    found = []

    class Runner:
        def build(self, *, build_dir, **_):
            found.append(sorted(path.name for path in build_dir.glob("*.o")))
            for name in ("verilated.o", "verilated_vpi.o", "Vtop.o", "verilator.o"):
                (build_dir / name).write_bytes(b"")

    monkeypatch.setattr(runner, "get_runner", lambda simulator: Runner())
    for name in "ab":
        (tmp_path / name).mkdir()
        runner._build(name, tmp_path / name)
    assert found == [[], ["verilated.o", "verilated_vpi.o"]]


def test_another_environment_compiles_again(monkeypatch, tmp_path):
    """A compiled bench loads cocotb's libraries from where they were: the environment may go."""
    monkeypatch.setenv("BITSTEP_CACHE", str(tmp_path))
    folder = runner._folder("text")
    assert folder == runner._folder("text") != runner._folder("other text")
    monkeypatch.setattr(runner, "libs_dir", tmp_path)
    assert runner._folder("text") != folder
