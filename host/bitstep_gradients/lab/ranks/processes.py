"""Ranks that are processes of one gloo group on this machine."""

import contextlib
import importlib.util
import multiprocessing
import os
import pickle
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, NoReturn

from bitstep_gradients.lab.contestants import Contestant
from bitstep_gradients.lab.perceptrons import Model
from bitstep_gradients.lab.ranks.process import FACTS, LOG, START_S, run_process
from bitstep_gradients.lab.training import Setting
from bitstep_lab.samples import Samples

MAX_PROCESSES = 8
LIMIT_S = 600.0
OTHERS_S = 10.0             # in which the other ranks tell what they know of a failure
END_S = 10.0                # in which processes end that have nothing to do
NO_CAUSE = "ExchangeError"  # news of another rank's failure
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def check_torch() -> None:
    """Raise RuntimeError unless torch is installed."""
    if importlib.util.find_spec("torch") is None:
        raise RuntimeError("workers that are gloo processes (--transport gloo) need torch: "
                           'pip install "bitstep[torch]"')


class RankProcesses:
    """Processes that train one model after another, as a context manager.

    They begin with the first training, which takes some seconds, and end with the context, with an
    error, and when this process ends in any way.

    Parameters
    ----------
    model : Model
    samples : Samples
    n_workers : int
        Processes, from 1 to :data:`MAX_PROCESSES`.
    limit_s : float
        Seconds that a process may wait for another, and this one for the next step of them all.

    Raises
    ------
    RuntimeError
        If torch is missing.
    """

    def __init__(self, model: Model, samples: Samples, n_workers: int, *, limit_s: float = LIMIT_S):
        if not 1 <= n_workers <= MAX_PROCESSES:
            raise ValueError(f"n_workers must be from 1 to {MAX_PROCESSES}, not {n_workers}")
        check_torch()
        self.n_workers, self.limit_s = n_workers, limit_s
        self._facts = (model, samples)
        self._folder: tempfile.TemporaryDirectory | None = None
        self._processes: list[Any] = []
        self._lines: list[Connection] = []

    def __enter__(self) -> "RankProcesses":
        return self

    def __exit__(self, *error: object) -> None:
        self.close(END_S if error[0] is None else 0.0)

    @property
    def pids(self) -> list[int]:
        """Numbers of the processes that run, in the order of the ranks."""
        return [process.pid for process in self._processes if process.is_alive()]

    def train(self, model: Model, samples: Samples, contestant: Contestant, setting: Setting, *,
              seed: int, progress: Callable[[int], None] = lambda step: None) -> dict[str, Any]:
        """Train the model, which must be that of this object.

        Parameters
        ----------
        model, samples, contestant, setting, seed, progress
            See :func:`bitstep_gradients.lab.training.train`.

        Returns
        -------
        result : dict
            See :func:`bitstep_gradients.lab.ranks.rank.train_rank`.

        Raises
        ------
        RuntimeError
            If a process fails, is killed, or stands still. All of them have ended then.
        """
        assert (model, samples, setting.n_workers) == (*self._facts, self.n_workers)
        try:
            if not self._processes:
                self._start()
            for line in self._lines:
                with contextlib.suppress(BrokenPipeError):      # its process has ended: see _wait
                    line.send((contestant, setting, seed))
            return self._wait("done", progress, self.limit_s)[0]
        except BaseException:
            self.close(0.0)
            raise

    def close(self, limit_s: float = END_S) -> None:
        """End all processes: in order within some seconds, else by SIGKILL."""
        for line in self._lines:
            with contextlib.suppress(OSError):      # its process has ended
                line.send(None)
        end = time.monotonic() + limit_s
        for process in self._processes:
            process.join(max(end - time.monotonic(), 0))
            if process.is_alive():
                process.kill()
            process.join()
        for line in self._lines:
            line.close()
        self._processes, self._lines = [], []
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def _start(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="bitstep-gradients-")
        folder = self._folder.name
        Path(folder, FACTS).write_bytes(pickle.dumps(self._facts))
        context = multiprocessing.get_context("spawn")
        with _for_children():
            for rank in range(self.n_workers):
                ours, theirs = context.Pipe()
                process = context.Process(
                    target=run_process, daemon=True, name=f"bitstep-rank-{rank}",
                    args=(rank, self.n_workers, folder, theirs, self.limit_s))
                self._lines.append(ours)
                process.start()
                self._processes.append(process)
                theirs.close()
        self._wait("ready", lambda step: None, START_S)

    def _wait(self, kind: str, progress: Callable[[int], None], limit_s: float) -> list[Any]:
        """What every rank says with the word ``kind``, in the order of the ranks."""
        found: dict[int, Any] = {}
        while len(found) < self.n_workers:
            open_lines = [line for rank, line in enumerate(self._lines) if rank not in found]
            # Ranks have the same limit for each other, and tell more of what is wrong.
            ready = wait(open_lines, limit_s + OTHERS_S)
            if not ready:
                raise RuntimeError(f"no worker has been {kind} or finished a step for {limit_s:g} "
                                   "s, so all were ended; if a step takes so long, give a larger "
                                   "--timeout")
            for line in ready:
                rank = self._lines.index(line)      # type: ignore
                said = _received(self._lines[rank])
                if said is None or said[0] == "error":
                    self._fail(rank, said)
                elif said[0] == "step":
                    progress(said[1])
                elif said[0] == kind:
                    found[rank] = said[1]
        return [found[rank] for rank in range(self.n_workers)]

    def _fail(self, rank: int, word: Any) -> NoReturn:
        """Raise RuntimeError with the cause of a failure, which another rank may know."""
        lines = [line for line in self._lines if line is not self._lines[rank]]
        end = time.monotonic() + OTHERS_S
        while lines and not _is_cause(word) and (left := end - time.monotonic()) > 0:
            for line in wait(lines, left):
                said = _received(line)      # type: ignore
                if said is None or said[0] == "error":
                    lines.remove(line)      # type: ignore
                if _is_cause(said):
                    rank, word = self._lines.index(line), said      # type: ignore
                    break
        if word is None:
            raise RuntimeError(self._last_words(rank))
        _, name, text = word
        raise RuntimeError(f"worker {rank} failed: {text or name}")

    def _last_words(self, rank: int) -> str:
        """Text about a process that ended without a word."""
        process = self._processes[rank]
        process.join(OTHERS_S)
        code = process.exitcode
        how = f"with exit code {code}" if code is None or code >= 0 else \
            f"by {signal.Signals(-code).name}"
        log = Path(self._folder.name if self._folder else "", f"{LOG}{rank}")
        lines = log.read_text("utf-8", "replace").split("\n") if log.exists() else []
        last = next((line for line in reversed(lines) if line.strip()), "")
        return f"worker {rank} was ended {how}, so all workers were ended" + (
            f" (its last line: {last.strip()})" if last else "") + \
            "; finished runs are kept, and the same command goes on from there"


def _is_cause(said: Any) -> bool:
    """True for a rank that ended without a word, or failed by itself."""
    return said is None or (said[0] == "error" and said[1] != NO_CAUSE)


def _received(line: Connection) -> Any:
    """What a rank says; None if its process has ended."""
    try:
        return line.recv()
    except (EOFError, OSError):
        return None


@contextlib.contextmanager
def _for_children() -> Iterator[None]:
    """One thread a process for what starts here, and no SIGINT: Ctrl-C reaches this process, which
    ends them.
    """
    before = {name: os.environ.get(name) for name in THREADS}
    os.environ.update(dict.fromkeys(THREADS, "1"))
    if hasattr(signal, "pthread_sigmask"):      # a child inherits the mask
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
        if hasattr(signal, "pthread_sigmask"):
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
