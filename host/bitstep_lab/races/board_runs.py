"""A pipeline's run in a race: losses after every epoch, and cycles to its end.

The native device trains and its cycle model counts; or the simulated board does both.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bitstep.cycles import Memory
from bitstep.devices import open_device
from bitstep.devices.register_device import ForwardingDevice
from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.device import Device
from bitstep.pipeline.registers import OFFSETS
from bitstep.pipeline.results import DeviceError, RangeOverflowError, sum_counters
from bitstep.quantization import QuantizedDataset, QuantizedRows, quantize_rows
from bitstep.training.objective import Objective, Training
from bitstep.training.pipelines import pipeline_of
from bitstep.training.plans import plans_of
from bitstep.training.train import report_counters, train_model
from bitstep.training.trained import TrainedModel
from bitstep_lab.races.contestants import Pipeline, Task
from bitstep_lab.races.joint_passes import count_passes, pass_sizes

POLLS = 256             # looks at the device in the time that an epoch's beats take, at least
TIMEOUT_S = 600.0
MODEL_ERROR = 0.005     # of the cycle model with a memory that limits the rows, at most
_UNKNOWN = ("it left its range, and of a run that then fetches rows again the cycles are known on "
            "the simulated board alone (--rtl)")


def run_pipeline(contestant: Pipeline, task: Task, *, rtl: bool = False,
                 **options: Any) -> dict[str, Any]:
    """Train on the native device, or on the simulated board.

    Parameters
    ----------
    contestant : Pipeline
    task : Task
    rtl : bool
        True for the simulated board, if there is such a pipeline in RTL.
    options
        Of the simulated board, such as ``progress``.

    Returns
    -------
    dict
        ``status`` ("ok", or why there is no model), ``device`` (``cpu``: cycles by the cycle model,
        or ``sim``), ``losses`` after every epoch, ``seconds`` of device time from the start to the
        end of every epoch (the sum over the outputs), ``cycles``, ``stalls``, ``bytes_read``,
        ``gbps`` (these five are None of a pipeline that is not in RTL), ``host`` (seconds of
        quantizing and of the transfer), ``refetched`` (share of the rows visited),
        ``rows_ahead`` (the look-ahead that was used), ``pipeline``.

    Raises
    ------
    KeyboardInterrupt
        On Ctrl-C; there is no result of a part.
    """
    race, profile, rtl = task.race, task.race.profile, rtl and contestant.timed
    started = time.perf_counter()
    entry = _Entry.of(contestant, task)
    config, rows = entry.config, entry.outputs[0].rows
    beats, moved = config.rows.beats(rows.n_features), _bytes_moved(entry.outputs)
    result = {
        "device": "sim" if rtl else "cpu",
        "host": {"quantize_s": time.perf_counter() - started,
                 "transfer_s": moved / profile.stream_gbps / 1e9, "transfer_bytes": moved},
        "rows_ahead": config.ahead.of_rows(beats), "beats_per_row": beats,
        "pipeline": entry.pipeline.name}
    try:
        model, cycles = entry.train(rtl, options)
    except RangeOverflowError as error:
        return {**result, "status": str(error)}
    if cycles is None and model.restarts:
        return {**result, "status": _UNKNOWN}
    counters = report_counters(model.counters)
    # A run that left its range has beats of rows that it did not visit.
    fetched = counters["refetched_rows"] if contestant.refetch and not model.restarts else None
    return {**result, "status": "ok",
            **race.judged(model.coefs, model.intercepts, model.weights),
            **_measured(counters, cycles, profile.clock_hz),
            "refetched": None if fetched is None else fetched / (counters["beats"] // beats)}


def check_on_rtl(contestant: Pipeline, task: Task, **options: Any) -> dict[str, Any]:
    """Run the first epoch of the first pass on the native device and on the simulated board.

    Parameters
    ----------
    contestant : Pipeline
    task : Task
    options
        Of the simulated board.

    Returns
    -------
    dict
        ``status`` ("ok", or why there was no comparison, or none of the cycles), and then
        ``cycles`` by the RTL and ``model_cycles`` by the cycle model.

    Raises
    ------
    RuntimeError
        If the models differ in a bit, or the cycles by more than 0.5 %.
    """
    entry = _Entry.of(contestant, replace(task, steps=task.steps[:1]))
    entry = replace(entry, outputs=entry.outputs[:contestant.models])
    try:
        native, board = entry.train(False, {})[0], entry.train(True, options)[0]
    except RangeOverflowError as error:
        return {"status": str(error)}
    except DeviceError as error:
        return {"status": f"not checked, because {error}"}
    cycles, counted = board.counters["cycles"], native.counters["cycles"]
    same = np.array_equal(native.weights, board.weights) \
        and np.array_equal(native.scaled_intercepts, board.scaled_intercepts)
    if same and counted is None and native.restarts:
        return {"status": f"the same model on the RTL, but {_UNKNOWN}"}
    if not same or cycles is None or counted is None or abs(counted / cycles - 1) > MODEL_ERROR:
        raise RuntimeError(
            f"Device cpu must give what the RTL gives; but {contestant.name} on "
            f"{entry.config.name} has {'the same models' if same else 'other models'}, {counted} "
            f"cycles instead of {cycles}: please report this with the command, and use --rtl "
            "meanwhile")
    return {"status": "ok", "cycles": cycles, "model_cycles": counted}


@dataclass(frozen=True, eq=False)
class _Entry:
    """Quantized rows of a contestant, and its pipeline and training."""

    outputs: list[QuantizedDataset]
    objective: Objective
    config: PipelineConfig
    training: Training
    board: dict[str, Any]
    models: int

    @property
    def pipeline(self) -> PipelineConfig:
        """The configuration, for as many models a pass as the contestant has."""
        return replace(self.config, models=self.models)

    @classmethod
    def of(cls, contestant: Pipeline, task: Task) -> "_Entry":
        race, profile = task.race, task.race.profile
        rows = quantize_rows(race.data.dataset.features, bits=contestant.bits,
                             encoding=contestant.encoding, bus_width=profile.bus_width,
                             seed=race.seed, fine_rows=contestant.refetch,
                             levels=contestant.levels)
        objective = Objective(loss=race.kind.loss, l2=race.l2, refetch=contestant.refetch)
        return cls(race.outputs(rows), objective, _config(rows, objective, contestant),
                   # The clock times the epochs of one run, so corrections stay within them.
                   Training(steps=task.steps, batch=contestant.batch or task.batch,
                            correction_period="within", model_bits=contestant.model_bits,
                            update_bits=contestant.update_bits),
                   {"clock_hz": profile.clock_hz, "memory_latency": profile.memory_latency,
                    "memory_gbps": profile.memory_gbps}, contestant.models)

    def train(self, rtl: bool, options: dict[str, Any]) -> tuple[TrainedModel, np.ndarray | None]:
        """Train; return the model, and cycles from the start to the end of every epoch, with those
        of runs that left their range before; or None of a pipeline that is not in RTL, and where
        device ``cpu`` cannot know.
        """
        if not rtl:
            model = self._train(open_device("cpu", self.config, **self.board))
            if model.epoch_cycles is None or model.counters["cycles"] is None:
                return model, None
            if self.models > 1:
                return self._counted(model)
            return model, _after_restarts(model, model.epoch_cycles)
        rows = self.outputs[0].rows
        beats = rows.n_rows * self.config.rows.beats(rows.n_features)
        watched = EpochClock(open_device("sim", self.pipeline, **self.board, **options),
                             max(64, beats // POLLS), len(self.training.steps),
                             pass_sizes(len(self.outputs), self.models))
        model = self._train(watched, watched.on_epoch)
        return model, _after_restarts(model, watched.cycles(model.counters["cycles"] or 0))

    def _counted(self, model: TrainedModel) -> tuple[TrainedModel, np.ndarray]:
        """The model with the counters of passes of several outputs, and cycles as :meth:`train`."""
        memory = Memory.of(self.board["clock_hz"], self.board["memory_latency"],
                           self.board["memory_gbps"])
        jobs = [made.job for made in plans_of(self.outputs, self.config, self.objective,
                                              self.training)]
        counters, ends = count_passes(jobs, self.pipeline, memory)
        return replace(model, counters=counters), np.append(ends[:-1], counters["cycles"])

    def _train(self, device: Device, on_epoch: Any = None) -> TrainedModel:
        with device:
            model = train_model(self.outputs, device, self.config, self.objective, self.training,
                                timeout_s=TIMEOUT_S, on_epoch=on_epoch)
        if model.interrupted:
            raise KeyboardInterrupt
        return model


def _after_restarts(model: TrainedModel, ends: np.ndarray) -> np.ndarray:
    """Ends of the epochs of the last run, after the runs that were given up; the last is of all."""
    lost = sum_counters([one.counters for one in model.restarts])["cycles"] or 0
    return np.array([*(end + lost for end in ends[:-1]), model.counters["cycles"]], np.int64)


def _measured(counters: dict[str, Any], cycles: np.ndarray | None,
              clock_hz: float) -> dict[str, Any]:
    """Times and traffic of a run."""
    if cycles is None:
        return dict.fromkeys(("cycles", "seconds", "stalls", "bytes_read", "gbps"))
    return {"cycles": cycles.tolist(), "seconds": (cycles / clock_hz).tolist(),
            "stalls": counters["stall_cycles"], "bytes_read": counters["bytes_read"],
            "gbps": counters["bytes_read"] / (cycles[-1] / clock_hz) / 1e9}


def _config(rows: QuantizedRows, objective: Objective, contestant: Pipeline) -> PipelineConfig:
    """Pipeline of a contestant; ``auto`` has the look-ahead for rows of any length, so that there
    are fewer boards to compile.
    """
    ahead, cycles = contestant.lookahead, contestant.update_interval
    config = pipeline_of(rows, objective, 0 if ahead == "auto" else ahead)
    if cycles is not None:
        config = replace(config, update_interval=cycles)
    return config.with_lookahead() if ahead == "auto" else config


def _bytes_moved(outputs: list[QuantizedDataset]) -> int:
    """Bytes of the rows and of all labels."""
    rows = outputs[0].rows
    return sum(copy.nbytes for copy in rows.stored) \
        + sum(each.labels.stored.nbytes for each in outputs) \
        + sum(extra.nbytes for extra in (rows.fine_rows, rows.codebooks) if extra is not None)


class EpochClock(ForwardingDevice):
    """A simulated device that is looked at often, so that the end of every epoch is timed.

    Parameters
    ----------
    device : SimDevice
    interval : int
        Cycles between two looks, the precision of an epoch's end. The last one is exact.
    epochs : int
        Epochs of a run.
    sizes : sequence of int
        Outputs of each run.
    """

    def __init__(self, device: Any, interval: int, epochs: int, sizes: Sequence[int]):
        super().__init__(device)
        self._interval, self._epochs, self._sizes = interval, epochs, sizes
        self._ends: list[np.ndarray] = []

    def wait(self, done: Any, timeout_s: float) -> bool:
        """As the device's, in steps of the interval."""
        deadline = time.monotonic() + timeout_s
        while not (result := done()) and time.monotonic() < deadline:
            self.device.board.run(self._interval)
        return result

    def on_epoch(self, done: int) -> None:
        """Note the cycle counter; ``done`` epochs of all outputs are done."""
        run = 0
        while done > self._sizes[run] * self._epochs:
            done -= self._sizes[run] * self._epochs
            run += 1
        epoch = (done - 1) // self._sizes[run]
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
