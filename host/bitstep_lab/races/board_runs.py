"""A pipeline's run in a race: losses after every epoch, and cycles counted to its end."""

import time
from typing import Any

import numpy as np

from bitstep.devices import open_device
from bitstep.devices.register_device import ForwardingDevice
from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.registers import OFFSETS
from bitstep.pipeline.results import SaturationError
from bitstep.quantization import QuantizedDataset, QuantizedRows, quantize_rows
from bitstep.training.objective import Objective, Training
from bitstep.training.pipelines import pipeline_of
from bitstep.training.train import report_counters, train_model
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
    race, profile = task.race, task.race.profile
    started = time.perf_counter()
    rows = quantize_rows(race.data.dataset.features, bits=contestant.bits,
                         encoding=contestant.encoding, bus_width=profile.bus_width, seed=race.seed,
                         fine_rows=contestant.refetch)
    outputs = race.outputs(rows)
    quantize_s = time.perf_counter() - started
    objective = Objective(loss=race.kind.loss, l2=race.l2, refetch=contestant.refetch)
    config = _config(rows, objective, contestant.lookahead)
    beats, moved = config.beats(rows.n_features), _bytes_moved(outputs)
    result = {
        "host": {"quantize_s": quantize_s, "transfer_s": moved / profile.stream_gbps / 1e9,
                 "transfer_bytes": moved},
        "rows_ahead": config.effective_lookahead(beats), "beats_per_row": beats,
        "pipeline": config.name}
    training = Training(steps=task.steps, batch=contestant.batch or task.batch)
    device = open_device("sim", config, clock_hz=profile.clock_hz,
                         memory_latency=profile.memory_latency, memory_gbps=profile.memory_gbps,
                         **options)
    watched = EpochClock(device, max(64, rows.n_rows * beats // POLLS), len(task.steps))
    with watched:
        try:
            model = train_model(outputs, watched, config, objective, training,
                                timeout_s=TIMEOUT_S, on_epoch=watched.on_epoch)
        except SaturationError as error:
            return {**result, "status": str(error)}
    if model.interrupted:
        raise KeyboardInterrupt
    counters = report_counters(model.counters)
    cycles = watched.cycles(counters["cycles"])
    return {**result, "status": "ok",
            **race.judged(model.coefs, model.intercepts, model.weights),
            **_measured(counters, cycles, profile.clock_hz),
            "refetched": counters["refetched_rows"] / (counters["beats"] // beats)
            if contestant.refetch else None}


def _measured(counters: dict[str, Any], cycles: np.ndarray, clock_hz: float) -> dict[str, Any]:
    """Times and traffic of a run."""
    return {"cycles": cycles.tolist(), "seconds": (cycles / clock_hz).tolist(),
            "stalls": counters["stall_cycles"], "bytes_read": counters["bytes_read"],
            "gbps": counters["bytes_read"] / (cycles[-1] / clock_hz) / 1e9}


def _config(rows: QuantizedRows, objective: Objective, lookahead: int | str) -> PipelineConfig:
    """Pipeline of a contestant; ``auto`` has the look-ahead for rows of any length, so that there
    are fewer boards to compile.
    """
    if lookahead == "auto":
        return pipeline_of(rows, objective, 0).with_lookahead()
    return pipeline_of(rows, objective, lookahead)


def _bytes_moved(outputs: list[QuantizedDataset]) -> int:
    """Bytes of the rows and of all labels."""
    rows = outputs[0].rows
    return sum(copy.nbytes for copy in rows.packed) \
        + sum(each.labels.packed.nbytes for each in outputs) \
        + (0 if rows.fine_rows is None else rows.fine_rows.nbytes)


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
