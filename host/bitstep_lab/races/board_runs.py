"""A pipeline's run in a race: losses after every epoch, and cycles counted to its end."""

import time
from typing import Any

import numpy as np

from bitstep.devices import open_device
from bitstep.devices.register_device import ForwardingDevice
from bitstep.pipeline.registers import OFFSETS
from bitstep.pipeline.results import SaturationError
from bitstep.quantization import quantize
from bitstep.training.planning import pipeline_for
from bitstep.training.train import class_outputs, report_counters, train_model
from bitstep_lab.races.contestants import Pipeline, Task

POLLS = 256             # looks at the device in the time that an epoch's beats take, at least
TIMEOUT_S = 600.0


def run_pipeline(contestant: Pipeline, task: Task, **options: Any) -> dict[str, Any]:
    """Train on the simulated board.

    Parameters
    ----------
    options
        Of the device, such as ``progress``.

    Returns
    -------
    dict
        ``status`` ("ok", or why there is no model), ``losses`` after every epoch, ``seconds`` of
        device time from the start to the end of every epoch (the sum over the outputs),
        ``cycles``, ``stalls``, ``bytes_read``, ``gbps``, ``host`` (seconds of quantizing and of
        the transfer), ``refetched`` (share of the rows visited), ``rows_ahead`` (the look-ahead
        that was used), ``pipeline``.

    Raises
    ------
    KeyboardInterrupt
        On Ctrl-C; there is no result of a part.
    """
    dataset, profile = task.data.dataset, task.profile
    started = time.perf_counter()
    data = quantize(dataset.features, dataset.labels, bits=contestant.bits,
                    encoding=contestant.encoding, bus_width=profile.bus_width, seed=task.seed,
                    full=contestant.refetch)
    quantize_s = time.perf_counter() - started
    outputs = [data] if task.kind.task == "regression" else class_outputs(
        data, dataset.labels, task.classes)
    moved = sum(copy.nbytes for copy in data.rows) + sum(each.labels.nbytes for each in outputs)
    moved += 0 if data.full is None else data.full.nbytes
    config = pipeline_for(
        n_features=data.n_features, bits=data.bits, encoding=data.encoding,
        bus_width=profile.bus_width, loss=task.kind.loss, refetch=contestant.refetch,
        lookahead=0 if contestant.lookahead == "auto" else contestant.lookahead)
    if contestant.lookahead == "auto":
        config = config.with_lookahead()        # for rows of any length: fewer boards to compile
    beats = config.beats(data.n_features)
    result = {
        "host": {"quantize_s": quantize_s, "transfer_s": moved / profile.stream_gbps / 1e9,
                 "transfer_bytes": moved},
        "rows_ahead": config.effective_lookahead(beats), "beats_per_row": beats,
        "pipeline": config.name}
    device = open_device("sim", config, clock_hz=profile.clock_hz,
                         memory_latency=profile.memory_latency, memory_gbps=profile.memory_gbps,
                         **options)
    watched = EpochClock(device, max(64, data.n_rows * beats // POLLS), len(task.steps))
    with watched:
        try:
            model = train_model(
                outputs, watched, config, steps=task.steps, batch=contestant.batch or task.batch,
                l2=task.l2, loss=task.kind.loss, refetch=contestant.refetch, timeout_s=TIMEOUT_S,
                on_epoch=watched.on_epoch)
        except SaturationError as error:
            return {**result, "status": str(error)}
    if model.interrupted:
        raise KeyboardInterrupt
    counters = report_counters(model.counters)
    cycles = watched.cycles(counters["cycles"])
    visited = counters["beats"] // beats
    return {**result, "status": "ok",
            **task.judged(model.coefs, model.intercepts, model.weights),
            "cycles": cycles.tolist(), "seconds": (cycles / profile.clock_hz).tolist(),
            "stalls": counters["stall_cycles"], "bytes_read": counters["bytes_read"],
            "gbps": counters["bytes_read"] / (cycles[-1] / profile.clock_hz) / 1e9,
            "refetched": counters["refetched_rows"] / visited if contestant.refetch else None}


class EpochClock(ForwardingDevice):
    """A simulated device that is looked at often, so that the end of every epoch is timed.

    Parameters
    ----------
    device : SimDevice
    interval : int
        Cycles between two looks, the precision of an epoch's end. The last one is exact.
    epochs : int
        Epochs of a run; there is one run for each output.
    """

    def __init__(self, device: Any, interval: int, epochs: int):
        super().__init__(device)
        self._interval, self._epochs = interval, epochs
        self._ends: list[np.ndarray] = []

    def wait(self, done: Any, timeout_s: float) -> bool:
        """As the device's, in steps of the interval."""
        deadline = time.monotonic() + timeout_s
        while not (result := done()) and time.monotonic() < deadline:
            self.device.board.run(self._interval)
        return result

    def on_epoch(self, done: int) -> None:
        """Note the cycle counter; ``done`` epochs of all outputs are done."""
        run, epoch = divmod(done - 1, self._epochs)
        if run == len(self._ends):
            self._ends.append(np.zeros(self._epochs, np.int64))
        low, high = (self.device.read(OFFSETS[f"CYCLES_{half}"]) for half in ("LO", "HI"))
        ends = self._ends[run]
        first = np.count_nonzero(ends)          # several may have ended since the last look
        ends[first:epoch + 1] = high << 32 | low

    def cycles(self, total: int) -> np.ndarray:
        """Cycles from the start to the end of every epoch, the sum over the outputs.

        Parameters
        ----------
        total : int
            Counted for all runs; the last entry.
        """
        ends = np.sum(self._ends, axis=0)
        return np.append(ends[:-1], total)
