"""Cores, threads and memory of the machine."""

import threading
import warnings

import numpy as np
import pytest

from bitstep import machine


@pytest.mark.parametrize("values, most", [
    ({}, 8), ({"OMP_NUM_THREADS": "3"}, 3), ({"NUMBA_NUM_THREADS": "2"}, 2),
    ({"OMP_NUM_THREADS": "3", "NUMBA_NUM_THREADS": "2"}, 2), ({"OMP_NUM_THREADS": "4,2"}, 4),
    ({"OMP_NUM_THREADS": "0"}, 8), ({"OMP_NUM_THREADS": "many"}, 8),
    ({"OMP_NUM_THREADS": "99"}, 8)])
def test_threads_as_the_environment_has_them(values, most, monkeypatch):
    monkeypatch.setattr(machine.os, "sched_getaffinity", lambda process: range(8), raising=False)
    for name in machine.THREADS:
        monkeypatch.delenv(name, raising=False)
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    assert machine.available_cores() == most


@pytest.mark.parametrize("threads", [1, 2, 5, None])
def test_results_in_order(threads):
    assert list(machine.in_threads(lambda part: part * part, range(40), threads)) == [
        part * part for part in range(40)]
    assert list(machine.in_threads(str, [], threads)) == []


def test_an_error_ends_the_work():
    """The error of a part comes out; parts far behind it are not begun."""
    begun = []

    def work(part):
        begun.append(part)
        if part == 3:
            raise ArithmeticError("part 3")
        return part
    with pytest.raises(ArithmeticError, match="part 3"):
        list(machine.in_threads(work, range(1000), 2))
    assert max(begun) < 20
    assert threading.active_count() < 20


@pytest.mark.parametrize("threads", [1, 3])
def test_numpy_does_on_errors_what_it_does_outside(threads):
    def work(part):
        return np.full(2, 1e300) * part

    with np.errstate(over="ignore"), warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(list(machine.in_threads(work, [1e10] * 8, threads))) == 8
    with np.errstate(over="raise"), pytest.raises(FloatingPointError):
        list(machine.in_threads(work, [1e10] * 8, threads))


@pytest.mark.parametrize("system, limit, used, free", [
    ("MemTotal: 9 kB\nMemAvailable:    100 kB\n", "max", "5", 102400),
    ("MemAvailable: 100 kB", "3000", "1000", 2000), ("", "3000", "4000", 0), ("", "", "", 1 << 30)])
def test_free_memory(system, limit, used, free, monkeypatch):
    texts = {"meminfo": system, "memory.max": limit, "memory.current": used}
    monkeypatch.setattr(machine, "_read", lambda path: texts[path.name])
    assert machine.available_memory() == free


def test_one_thread_of_blas(monkeypatch):
    threadpoolctl = pytest.importorskip("threadpoolctl")

    def threads():
        return [one["num_threads"] for one in threadpoolctl.threadpool_info()
                if one["user_api"] == "blas"]

    with threadpoolctl.threadpool_limits(2):
        before = threads()
        with machine.one_blas_thread():
            assert set(threads()) == {1}
        assert threads() == before
        with pytest.raises(ZeroDivisionError), machine.one_blas_thread():
            _ = 1 / 0
        assert threads() == before
        first, second = machine.one_blas_thread(), machine.one_blas_thread()
        first.__enter__()           # as of two threads of ours
        second.__enter__()
        first.__exit__(None, None, None)
        assert set(threads()) == {1}
        second.__exit__(None, None, None)
        assert threads() == before
    monkeypatch.setattr(machine, "_blas", lambda: None)     # without threadpoolctl
    with machine.one_blas_thread():
        pass
