"""Speed of everything: ``python -m bitstep_sim.reports.speed`` (``make speed``).

Cycles are exact. Rates depend on the machine and on what else it does: compare those of one run.
"""

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from bitstep import LowPrecisionClassifier, LowPrecisionRegressor
from bitstep.cli.options import integer
from bitstep.data import load
from bitstep.devices.cpu.device import CpuDevice
from bitstep.machine import available_cores
from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.device import GradientSum
from bitstep.pipeline.job import TrainingJob
from bitstep.pipeline.parts.formats import BIT_PLANES
from bitstep.pipeline.parts.widths import BUS_WIDTHS
from bitstep.quantization import ENCODINGS, quantize, quantize_bit_planes
from bitstep_lab.baselines.memory import memory_read_ceiling
from bitstep_lab.markdown import add_choice, print_header, print_row
from bitstep_sim.board.device import SimDevice
from bitstep_sim.testing.random_jobs import random_job

FEATURES = (8, 90, 1000, 4096)
EPOCHS = 3
IDEAL_LATENCY = 1           # cycles; with no bandwidth limit, the ideal memory
DECODED_BYTES = 2           # of a value, where rows in bit planes are kept decoded
PASS_SHAPES = ((400_000, 100), (40_000, 1000))


def run(device: SimDevice, *, n_features: int, n_rows: int, **options) -> tuple[int, float]:
    """Run a random job.

    Parameters
    ----------
    device : SimDevice
    n_features, n_rows : int
    **options
        Of :func:`bitstep_sim.testing.random_jobs.random_job`.

    Returns
    -------
    int, float
        Cycles, and the CPU seconds that they took.
    """
    job = random_job(device.config, n_features=n_features, n_rows=n_rows, epochs=EPOCHS, **options)
    start = time.process_time()
    cycles = device.train(job).counters["cycles"]
    assert cycles is not None, "a board counts its cycles"
    return cycles, time.process_time() - start


def rows_for(config: PipelineConfig, n_features: int) -> int:
    """Rows of a job that is long enough to measure and short enough to wait for."""
    return max(2000, 100_000 // max(config.rows.beats(n_features), config.update_interval))


def cycles(widths: list[int], buses: list[int]) -> None:
    """Cycles per epoch with an ideal memory and automatic look-ahead, and with batches of 16."""
    print("\n## Cycles per epoch, ideal memory, automatic look-ahead")
    print_header("bus, bits, features, beats a row, look-ahead, rows, cycles an epoch, "
                 "cycles a row, share of 1.02 rows max(beats; 4) + 2000, "
                 "batch 16: cycles more a batch")
    for bus in buses:
        for bits in widths:
            config = PipelineConfig(bus_width=bus, bits=bits).with_lookahead()
            device = SimDevice(config, memory_latency=IDEAL_LATENCY)
            for n_features in FEATURES:
                beats, n_rows = config.rows.beats(n_features), rows_for(config, n_features)
                plain, _ = run(device, n_features=n_features, n_rows=n_rows)
                batched, _ = run(device, n_features=n_features, n_rows=n_rows, batch=16)
                epoch = plain / EPOCHS
                extra = (batched - plain) / EPOCHS / (n_rows / 16)
                bound = 1.02 * n_rows * max(beats, 4) + 2000
                print_row(bus, bits, n_features, beats, config.ahead.of_rows(beats),
                          f"{n_rows:,}", f"{epoch:,.0f}", f"{epoch / n_rows:.3f}",
                          f"{epoch / bound:.3f}", f"{extra:.2f}")
            device.close()


def simulation() -> None:
    """Cycles a second of the simulated board."""
    print("\n## Simulation speed, 512-bit bus, 4 bits")
    print_header("features, look-ahead, first build (s), cycles, cycles per CPU second")
    for n_features, lookahead in ((1000, 0), (90, 0), (1000, None), (90, None)):
        config = PipelineConfig(bus_width=512, bits=4, lookahead=lookahead or 0)
        if lookahead is None:
            config = config.with_lookahead(n_features)
        start = time.perf_counter()
        device = SimDevice(config, memory_latency=IDEAL_LATENCY)
        build = time.perf_counter() - start
        rate, total = 0.0, 0
        for _ in range(3):
            total, seconds = run(device, n_features=n_features, n_rows=20_000)
            rate = max(rate, total / seconds)
        print_row(n_features, config.lookahead, f"{build:.1f}", f"{total:,}", f"{rate:,.0f}")
        device.close()


def quantization() -> None:
    """Megabytes of float32 input a second, for quantizing and packing."""
    print("\n## Quantizing and packing, MB of float32 input per CPU second, 64-bit bus")
    shapes = ((100_000, 90), (20_000, 1000))
    print_header("encoding, rows x features, " + ", ".join(f"{bits} bits" for bits in range(1, 9)))
    rng = np.random.default_rng(0)
    for shape in shapes:
        features = rng.standard_normal(shape, np.float32)
        labels = rng.standard_normal(shape[0])
        for encoding, kind in ENCODINGS.items():
            rates = []
            for bits in range(1, 9):
                if bits < kind.min_bits:
                    rates.append("")
                    continue
                start = time.process_time()
                quantize(features, labels, bits=bits, encoding=encoding)
                rates.append(f"{features.nbytes / 1e6 / (time.process_time() - start):.0f}")
            print_row(encoding, f"{shape[0]:,} x {shape[1]}", *rates)
    print("\n## Bit planes with the ranges of columns, MB of float32 input per CPU second")
    print_header("rows x features, rate")
    quantize_bit_planes(rng.standard_normal((10, 3), np.float32))      # compiles the loops
    for shape in shapes:
        features = rng.standard_normal(shape, np.float32)
        times = []
        for _ in range(5):
            start = time.process_time()
            quantize_bit_planes(features)
            times.append(time.process_time() - start)
        print_row(f"{shape[0]:,} x {shape[1]}",
                  f"{features.nbytes / 1e6 / statistics.median(times):,.0f}")


class _TimedPasses(CpuDevice):
    """Device ``cpu`` that keeps the seconds of its full passes, and their CPU seconds."""

    def __init__(self, config: PipelineConfig):
        super().__init__(config)
        self.seconds = []

    def gradient(self, job: TrainingJob, **options) -> GradientSum:
        start = time.perf_counter(), time.process_time()
        found = super().gradient(job, **options)
        self.seconds.append((time.perf_counter() - start[0], time.process_time() - start[1]))
        return found


def passes() -> None:
    """Full passes of bit-centred training beside what all cores, and one, read from memory."""
    print("\n## Full passes, 10^9 bytes of decoded rows a second")
    print_header("loss, rows x features, by all cores, a sum by all cores, ratio, per CPU second, "
                 "a sum by one core, ratio")
    rng = np.random.default_rng(0)
    linear = PipelineConfig(row_format=BIT_PLANES, bits=16, max_features=1024)
    logistic = replace(linear, loss_family="logistic", update_interval=6)
    for n_rows, n_features in PASS_SHAPES:
        features = rng.standard_normal((n_rows, n_features), np.float32)
        outputs = features.mean(axis=1) + rng.normal(0, 0.1, n_rows)
        n_bytes = DECODED_BYTES * features.size
        ceilings = (memory_read_ceiling(n_bytes, threads=available_cores()),
                    memory_read_ceiling(n_bytes, cpu_time=True))
        for estimator, config, labels in ((LowPrecisionRegressor, linear, outputs),
                                          (LowPrecisionClassifier, logistic, outputs > 0)):
            with _TimedPasses(config) as device:
                model = estimator(device=device, solver="bit-centred").fit(features, labels)
            # The first one decodes the rows, and compiles loops that are not in the cache.
            rates = [n_bytes / statistics.median(times) / 1e9
                     for times in zip(*device.seconds[1:], strict=True)]
            print_row(model.loss, f"{n_rows:,} x {n_features:,}", *(
                text for rate, ceiling in zip(rates, ceilings, strict=True)
                for text in (f"{rate:.1f}", f"{ceiling:.1f}", f"{rate / ceiling:.2f}")))


def reading() -> None:
    """Seconds to read a LIBSVM file of cadata's size."""
    print("\n## Reading LIBSVM text")
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "rows.svm")
        path.write_text("".join(_libsvm_lines(rng.standard_normal((20_433, 8)))), encoding="ascii")
        start = time.perf_counter()
        dataset = load(path)
        seconds = time.perf_counter() - start
    print(f"\n{dataset.n_rows:,} rows of {dataset.n_features} features in {seconds:.2f} s")


def _libsvm_lines(features: np.ndarray) -> Iterator[str]:
    for label, values in enumerate(features):
        yield f"{label} " + " ".join(f"{at}:{x:.5f}" for at, x in enumerate(values, 1)) + "\n"


def main() -> int:
    """Run the parts asked for."""
    parts = {"cycles": cycles, "simulation": simulation, "quantization": quantization,
             "passes": passes, "reading": reading}
    parser = argparse.ArgumentParser(description="Measure speed; prints Markdown tables.")
    add_choice(parser, "parts", parts)
    parser.add_argument("--bits", type=integer(1, 8), nargs="+", default=list(range(1, 9)),
                        metavar="B", help="widths for cycles (%(default)s)")
    parser.add_argument("--bus-width", type=int, choices=BUS_WIDTHS, nargs="+",
                        default=[64, 512], metavar="W", help="buses for cycles (%(default)s)")
    arguments = parser.parse_args()
    for part in arguments.parts:
        if part == "cycles":
            cycles(arguments.bits, arguments.bus_width)
        else:
            parts[part]()
    return 0


if __name__ == "__main__":
    sys.exit(main())
