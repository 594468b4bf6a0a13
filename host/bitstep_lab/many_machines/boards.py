"""A model of time of many boards: passes by the cycle model, the network, the scheduler."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from bitstep.cycles import Memory, count_epochs
from bitstep.pipeline.bit_planes import PLANES, BitPlaneLayout
from bitstep.pipeline.boards import FACTS
from bitstep.pipeline.job import EpochSteps, TrainingJob
from bitstep.pipeline.registers import LabelFormat

LATENCY_S = 1e-7            # of a board's memory
INNER = (4, 4)              # planes of the inner passes of an outer step
ROUND_TRIP_S = 2e-4         # of a request in a local network: an assumption
BYTES = 8                   # of a number of a vector
MESSAGE_BYTES = 2_000       # of a task beside its vectors


@dataclass(frozen=True)
class Setting:
    """What a time depends on, beside the number of boards.

    Attributes
    ----------
    board : str
    n_rows, n_features : int
    task_ms : float
        Of client and scheduler, for each task.
    """

    board: str
    n_rows: int
    n_features: int
    task_ms: float


@cache
def pass_seconds(board: str, n_rows: int, n_features: int) -> float:
    """Seconds of the passes of an outer step over so many rows of a board: a full pass, its
    derivatives not written, and the inner ones.
    """
    facts = FACTS[board]
    config, clock_hz = facts.bit_plane_config(), 1e6 * facts.clock_mhz
    layout, none = BitPlaneLayout(n_features), np.zeros(n_features, np.int32)
    memory = Memory.of(clock_hz, round(LATENCY_S * clock_hz), facts.memory_gbps)
    seconds = 0.0
    for epochs, period in (((EpochSteps(1, 1, planes=PLANES),), 0),
                           (tuple(EpochSteps(1, 1, planes=planes) for planes in INNER), 32)):
        job = TrainingJob(      # no row is looked at, so they need no memory
            config=config, n_features=n_features, bit_plane_rows=n_rows,
            rows=(np.broadcast_to(np.zeros(1, np.uint8),
                                  (layout.blocks(n_rows), layout.block_bytes)),),
            labels=np.broadcast_to(np.zeros(1, np.uint8), (-(-n_rows // 4) * 8,)),
            label_format=LabelFormat.INT16, label_shift=PLANES,
            intercept_level=config.rows.intercept_limit, batch=1,
            correction_period=period, coefficients=none, model=none, epochs=epochs)
        cycles = count_epochs(job, memory)[0]["cycles"]
        assert cycles is not None
        seconds += cycles / clock_hz
    return seconds


def step_seconds(setting: Setting, boards: int, gbps: float) -> dict[str, float]:
    """Seconds of an outer step of so many boards, by cause: two tasks a board, one after the other
    at the scheduler; a vector to each board and one back, all through its one connection.
    """
    vectors = 2 * 2 * boards * ((setting.n_features + 1) * BYTES + MESSAGE_BYTES)
    return {
        "passes": pass_seconds(setting.board, -(-setting.n_rows // boards), setting.n_features),
        "network": vectors * 8 / (gbps * 1e9) + 2 * ROUND_TRIP_S,
        "scheduler": 2 * boards * setting.task_ms / 1e3}


def speedups(setting: Setting, counts: Sequence[int], gbps: float) -> list[float]:
    """How many times as fast as one board, whose rows may be more than its memory has."""
    alone = sum(step_seconds(setting, 1, gbps).values())
    return [alone / sum(step_seconds(setting, count, gbps).values()) for count in counts]


def draw(settings: Sequence[Setting], counts: Sequence[int], path: Path) -> None:
    """Plot the speedups at 1 and 10 Gbit/s."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4.2), layout="constrained")
    axes.plot(counts, counts, color="gray", linewidth=0.8, label="as many times as boards")
    for setting, colour in zip(settings, ("C0", "C1", "C2"), strict=False):
        for gbps, style in ((1, "o--"), (10, "s-")):
            axes.loglog(counts, speedups(setting, counts, gbps), style, color=colour, markersize=4,
                        label=f"{setting.n_rows:,} x {setting.n_features:,}, {gbps} Gbit/s")
    axes.set(xlabel="boards", ylabel="times as fast as one board",
             title=f"bit-centred training over {settings[0].board}s, "
                   f"{settings[0].task_ms:.2g} ms a task")
    for ticks in (axes.set_xticks, axes.set_yticks):
        ticks(counts, labels=list(map(str, counts)))
    axes.minorticks_off()
    axes.legend(frameon=False, fontsize=8)
    figure.savefig(path, dpi=110)
