"""Shards on the workers of a Dask cluster.

Each partition is a task whose result, a list of shards, stays on the worker that made it. A pass is
a task for each partition, on the worker that has it. Dask makes the shards of a worker that was
lost again, elsewhere and bit for bit; passes that were to run there are asked for again.
"""

import asyncio
import copy
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NoReturn, TypeVar

from dask.base import annotate
from dask.delayed import Delayed, delayed
from dask.utils import key_split
from distributed import CancelledError, Client, Future, KilledWorker, get_worker, wait

from bitstep.dask.devices import DeviceChoice, close_devices, worker_device
from bitstep.dask.mapped import give_back
from bitstep.data.dataset import DataError
from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.results import DeviceError
from bitstep.training.shards.shard import Shard, ShardFacts
from bitstep.training.shards.shards import Shards

LOOK_S = 1.0                # between two looks at workers that may be lost
FETCH_S = 5.0               # for the first try to get results of tasks that have ended
LATE = TimeoutError, asyncio.TimeoutError       # Python 3.11 and later have made them one
_Result = TypeVar("_Result")


def on_worker(function: Callable[..., _Result], *arguments: Any) -> _Result:
    """Call a function; its errors name the worker, and can be sent.

    Raises
    ------
    DataError, DeviceError, MemoryError
        As the function does.
    """
    try:
        return function(*arguments)
    except DataError as error:
        raise DataError(f"{error} (on worker {get_worker().address})") from None
    except DeviceError as error:        # some hold results, which cannot be sent
        raise DeviceError(f"{error} (on worker {get_worker().address})") from None
    except MemoryError as error:
        raise MemoryError(f"Worker {get_worker().address} has too little memory: {error}; give "
                          "it more, or make partitions smaller") from None


def _of_result(function: Callable[..., _Result], arguments: Sequence[Any],
               result: Any) -> _Result:
    """What a function gives for a task's result, which Dask hands over as the last argument."""
    return on_worker(function, result, *arguments)


def call_shards(shards: Sequence[Shard], device: DeviceChoice, config: PipelineConfig, method: str,
                arguments: Sequence[Any], options: Mapping[str, Any]) -> list[Any]:
    """Results of a method of each shard of a partition."""
    if not shards:
        return []
    try:
        with worker_device(device, config) as opened:
            return [getattr(one, method)(opened, *arguments, **options) for one in shards]
    finally:
        give_back(shards)


def facts_of(shards: Sequence[Shard]) -> list[ShardFacts]:
    """What others know of shards."""
    return [one.facts for one in shards]


class Engine:
    """A Dask client, as a training uses it.

    Parameters
    ----------
    client : distributed.Client
        Synchronous.
    resources : dict of str to float or None
        Of Dask's, that a task of a shard takes.
    timeout_s : float
        Longest time in which no task ends.

    Raises
    ------
    ValueError
        If the client is asynchronous.
    DeviceError
        If it has no scheduler.
    """

    def __init__(self, client: Client, resources: Mapping[str, float] | None = None,
                 timeout_s: float = 600.0):
        if client.asynchronous:
            raise ValueError("client must be synchronous, not one with asynchronous=True; train in "
                             "a thread with a client of its own")
        self.client: Any = client       # whose annotations are those of asynchronous ones, too
        self.resources, self.timeout_s = dict(resources or {}), timeout_s
        self.address = client.scheduler.address if client.scheduler else "none"
        if client.status != "running":
            self._no_scheduler()

    def compute(self, tasks: Sequence[Delayed]) -> list[Future]:
        """Futures of tasks, which begin at once. They are one graph: sent one at a time they cost
        client and scheduler thrice the time.
        """
        return self.client.compute(
            list(tasks), resources=self.resources or None, optimize_graph=False)

    def submit(self, name: str, function: Callable[..., Any], futures: Sequence[Future],
               *arguments: Any) -> list[Any]:
        """Results of a task for each future, on the worker that has it.

        Parameters
        ----------
        name : str
            Of the tasks, for the dashboard.
        function : callable
            Called with the future's result and the arguments, on its worker.
        futures : sequence of Future
        arguments
            Of the function, alike for all.
        """
        token = uuid.uuid4().hex
        places = self._asked(lambda: self.client.who_has(list(futures)))
        call = delayed(partial(_of_result, function, arguments), pure=False)

        def start(wanted: Mapping[int, tuple[int, str | None]]) -> list[Future]:
            tasks = []
            for number, (attempt, worker) in wanted.items():
                with annotate(**({"workers": [worker]} if worker else {})):
                    tasks.append(call(futures[number], dask_key_name=(
                        f"bitstep-{name}-{token}-{number}-{attempt}")))
            return self.compute(tasks)

        holders = [next(iter(places.get(one.key) or ()), None) for one in futures]
        return self._results(start, holders)

    def gather(self, futures: Sequence[Future], *, fetch: bool = True) -> list[Any]:
        """Results of futures, when all have ended; without ``fetch`` None, and they stay there."""
        return self._results(lambda wanted: [futures[number] for number in wanted],
                             [None] * len(futures), fetch=fetch, keep=True)

    def _results(self, start: Callable[[Mapping[int, tuple[int, str | None]]], list[Future]],
                 holders: Sequence[str | None], *, fetch: bool = True,
                 keep: bool = False) -> list[Any]:
        """Results of tasks, by number.

        Parameters
        ----------
        start : callable
            Starts tasks: takes attempt and worker, None for any, by number.
        holders : sequence of str or None
            Worker of each task. Tasks of one that is lost are started again, anywhere.
        fetch : bool
            See :meth:`gather`.
        keep : bool
            True if futures are the caller's, and go on after an error.
        """
        running: dict[int, Future] = {}
        results: list[Any] = [None] * len(holders)

        def begin(wanted: Mapping[int, tuple[int, str | None]]) -> None:
            running.update(zip(wanted, start(wanted), strict=True))

        try:
            placed = {number: (0, worker) for number, worker in enumerate(holders)}
            begin(placed)
            last, patience_s = time.monotonic(), FETCH_S
            while running:
                ended = self._wait(running)
                found = self._fetched(ended, patience_s) if fetch else [None] * len(ended)
                if found is None:           # their worker may have been lost since
                    patience_s *= 2
                elif ended:
                    last, patience_s = time.monotonic(), FETCH_S
                    for number, result in zip(ended, found, strict=True):
                        results[number] = result
                        del running[number]
                if running:
                    self._look(running, last)
                    alive = self._asked(self.client.nthreads)
                    lost = {number: (attempt + 1, None) for number, (attempt, worker)
                            in placed.items()
                            if number in running and worker is not None and worker not in alive}
                    if lost:
                        placed.update(lost)
                        begin(lost)
            return results
        except BaseException:
            if not keep:
                with suppress(Exception):
                    self.client.cancel(list(running.values()), force=True)
            raise

    def _wait(self, running: Mapping[int, Future]) -> dict[int, Future]:
        """Those that have ended well, once all have ended or some time has passed.

        Raises
        ------
        Exception
            That of a task.
        """
        try:
            with self.client.as_current():
                wait(list(running.values()), timeout=LOOK_S)
        except (*LATE, CancelledError) as error:
            _let_go(error)
        for one in running.values():
            if one.status == "error":
                raise _readable(one.exception(timeout=self.timeout_s))
        return {number: one for number, one in running.items() if one.status == "finished"}

    def _fetched(self, ended: Mapping[int, Future], patience_s: float) -> list[Any] | None:
        """Results, or None if they do not come in time."""
        async def found() -> list[Any]:
            return await asyncio.wait_for(
                self.client.gather(list(ended.values()), asynchronous=True), patience_s)

        try:
            return self.client.sync(found) if ended else []
        except LATE as error:
            _let_go(error)
            return None
        except (CancelledError, OSError) as error:
            self._ended(error)

    def _look(self, running: Mapping[int, Future], last: float) -> None:
        """Raise DeviceError if tasks will not end."""
        if self.client.status != "running" or any(
                one.status == "cancelled" for one in running.values()):
            self._no_scheduler()
        if time.monotonic() - last > self.timeout_s:
            workers = self._asked(self.client.nthreads)
            asked = "" if not self.resources else " with resources " + ", ".join(
                f"{name}={value:g}" for name, value in self.resources.items())
            raise DeviceError(
                f"No task ended in {self.timeout_s:g} s; the scheduler {self.address} has "
                f"{len(workers)} workers, and {len(running)} tasks wait for one{asked}. "
                + ("Workers are paused, since their memory is full: give them more, or make "
                   "partitions smaller" if self._paused() else
                   "Start workers, or allow more time"))

    def _paused(self) -> bool:
        """True if the memory of workers is full."""
        found = self._asked(self.client.scheduler_info)
        return any(one.get("status") == "paused" for one in found["workers"].values())

    def _asked(self, question: Callable[[], _Result]) -> _Result:
        """An answer of the scheduler."""
        try:
            return question()
        except (OSError, *LATE, RuntimeError, CancelledError) as error:
            self._ended(error)

    def _ended(self, error: BaseException) -> NoReturn:
        if self.client.status == "running" and isinstance(error, (*LATE, RuntimeError)):
            raise DeviceError(f"The scheduler {self.address} did not answer ({error}); start the "
                              "training again") from error
        self._no_scheduler(error)

    def _no_scheduler(self, error: BaseException | None = None) -> NoReturn:
        found = f" ({error})" if error else ""
        raise DeviceError(f"The scheduler {self.address} is gone, or has dropped this client"
                          f"{found}; start it and its workers, connect a client and train again "
                          "(from the checkpoint, if there is one)") from error


def _let_go(error: BaseException | None) -> None:
    """Take the frames from an error that was expected, and from those before it. Frames of Dask
    hold the error, too, so that only the garbage collector would free them, and with them futures:
    workers would keep the rows of a training that has ended.
    """
    while error is not None:
        error.__traceback__ = None
        error = error.__cause__ or error.__context__


def _readable(error: Any) -> BaseException:
    """The error of a task, with a message that says what to do where Dask's does not.

    It is a copy: the client keeps that of the future, which would keep the frames that raise it,
    these their futures, and so workers the rows, as long as the client is there.
    """
    if not isinstance(error, KilledWorker):
        try:
            return copy.copy(error)
        except TypeError:           # of a class whose arguments are not those that it keeps
            return error
    return DeviceError(
        f"{key_split(error.task)}: the task was on {error.allowed_failures + 1} workers when they "
        f"were lost, the last one {error.last_worker.address}; if they have too little memory, "
        "make partitions smaller, or give each worker more or fewer threads")


class DaskShards(Shards):
    """Shards on workers.

    Parameters
    ----------
    engine : Engine
    futures : sequence of Future
        Of lists of shards, one for each partition.
    device : DeviceChoice
    config : PipelineConfig
    """

    def __init__(self, engine: Engine, futures: Sequence[Future], device: DeviceChoice,
                 config: PipelineConfig):
        self._engine, self._futures = engine, list(futures)
        self._device, self._config = device, config
        # First, so that no task which needs a shard is placed where it is not.
        engine.gather(self._futures, fetch=False)
        self.facts = [one for facts in engine.submit("facts", facts_of, self._futures)
                      for one in facts]

    def each(self, name: str, method: str, *arguments: Any, **options: Any) -> list[Any]:
        """See :class:`bitstep.training.shards.shards.Shards`."""
        found = self._engine.submit(name, call_shards, self._futures, self._device, self._config,
                                    method, arguments, options)
        return [result for results in found for result in results]

    def close(self) -> None:
        """Close the devices of the workers, and let the shards go."""
        self._futures.clear()
        client = self._engine.client

        async def closed() -> None:
            await asyncio.wait_for(client.run(close_devices, on_error="ignore", nanny=False),
                                   self._engine.timeout_s)

        if client.status == "running":      # else Dask first waits for a scheduler that is gone
            with suppress(Exception):       # workers may be gone; what remains, closes with them
                client.sync(closed)
