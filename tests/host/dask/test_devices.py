"""Devices of workers: the simulated board alone, and beside workers that compute."""

import sys
from contextlib import contextmanager, nullcontext
from threading import Lock
from types import SimpleNamespace
from typing import Any

import dask
import dask.array as da
import numpy as np
import pytest
from clusters import FAST
from distributed import Client, Nanny, Scheduler, SpecCluster
from sharded import make_parts, train_parts
from sklearn.datasets import load_diabetes

from bitstep.cli import main
from bitstep.dask import LowPrecisionRegressor
from bitstep.dask.devices import DeviceChoice, _opened, close_devices, worker_device
from bitstep.devices.golden import GoldenDevice
from bitstep.pipeline.config import PipelineConfig
from bitstep.training.files.model_file import load_model

DIABETES: Any = load_diabetes(return_X_y=True)
X, Y = DIABETES[0][:90, :3], DIABETES[1][:90]
WEIGHTS = np.arange(90) % 4 + 1.0
BOARD = {"bitstep": 1}


@pytest.fixture
def mixed():
    """Two workers with a device each, the compiled one and the simulated board, which offer the
    resource; and one that does not.
    """
    def worker(device, **resources):
        return {"cls": Nanny, "options": {
            "nthreads": 1, "resources": resources, "silence_logs": 50,
            "config": {"bitstep": {"device": device}}}}

    with dask.config.set(FAST), SpecCluster(
            scheduler={"cls": Scheduler, "options": {"dashboard_address": ":0"}},
            workers={0: worker("cpu", bitstep=1), 1: worker("sim", bitstep=1),
                     2: worker("nonesuch")}) as cluster, \
            Client(cluster, set_as_default=False) as client:
        client.wait_for_workers(3, timeout=60)
        yield client


def opened_devices():
    """Names of the devices that a worker has open."""
    return sorted(one.device.name for one in _opened.values())


@pytest.mark.slow       # the simulated board is compiled first
def test_a_mixed_cluster_trains_the_same_model(mixed, monkeypatch):
    model = LowPrecisionRegressor(client=mixed, epochs=1, tol=0.0, random_state=2, resources=BOARD)
    seen = []
    monkeypatch.setattr("bitstep.dask.engine.DaskShards.close",
                        lambda self: seen.append(mixed.run(opened_devices)))
    chunks = ((30, 30, 30), 3)
    model.fit(da.from_array(X, chunks=chunks), da.from_array(Y, chunks=(30,)))
    expected = train_parts(model._local(), make_parts(X, Y, [0, 30, 60, 90]))
    np.testing.assert_array_equal(model.coef_, expected.coefs[-1][0])
    assert sorted(seen[0].values()) == [[], ["cpu"], ["sim"]]


class Board(GoldenDevice):
    """One that has bitstreams of other buses than a desk's rows."""

    @staticmethod
    def manifests(options):
        del options
        plain = {"bits": 16, "row_format": "bit_planes", "max_features": 1024}
        return [SimpleNamespace(config=PipelineConfig(**(plain | other))) for other in (
            {"bus_width": 128}, {"bus_width": 256},
            {"bus_width": 512, "loss_family": "logistic", "update_interval": 6},
            {"bits": 4, "row_format": "one_level", "bus_width": 512})]


def test_a_device_that_another_training_closes_is_opened_again(monkeypatch):
    """While a pass waits for its turn, a training on the same workers ends and closes devices."""
    @contextmanager
    def opening(name, config):
        device = SimpleNamespace(keep_rows=nullcontext, closed=False)
        yield device
        device.closed = True

    class Turn:
        def __enter__(self):
            opened.lock = Lock()
            close_devices()

        def __exit__(self, *_):
            pass

    monkeypatch.setattr("bitstep.dask.devices.open_device", opening)
    monkeypatch.setattr("bitstep.dask.devices.on_bus_of", lambda name, options, config: config)
    choice, config = DeviceChoice("board"), PipelineConfig()
    with worker_device(choice, config) as first:
        [opened] = _opened.values()
    opened.lock = Turn()
    with worker_device(choice, config) as second:
        assert (first.closed, second.closed) == (True, False)
    close_devices()
    assert second.closed


def test_a_board_trains_on_the_bus_of_its_bitstream(monkeypatch):
    """The widest of those that run its jobs; the bits are those of a desk."""
    model = LowPrecisionRegressor(epochs=2, tol=0.0, random_state=2)._local()
    expected = train_parts(model, make_parts(X, Y, [0, 90]), device="golden")
    buses = []

    @contextmanager
    def on_worker(name, config):
        with worker_device(DeviceChoice(name), config) as opened:
            buses.append((config.bus_width, opened.config.bus_width))
            yield opened

    monkeypatch.setattr("bitstep.devices.device_class", lambda name: Board)
    monkeypatch.setattr("sharded.open_device", on_worker)
    try:
        found = train_parts(model, make_parts(X, Y, [0, 90]), device="golden")
    finally:
        close_devices()
    assert buses == [(64, 256)]
    np.testing.assert_array_equal(found.coefs, expected.coefs)


BLOCK = """
import sys
for name in ("sklearn", "scipy", "numba", "pandas", "pyarrow", "matplotlib", "dask.array",
             "dask.dataframe"):
    sys.modules[name] = None
"""


@pytest.mark.filterwarnings("ignore:Mismatched versions")     # of pandas, which older Dask compares
def test_a_worker_needs_distributed_and_numpy_alone(tmp_path):
    """To train on files, as the 32-bit boards do."""
    (tmp_path / "block.py").write_text(BLOCK)
    for number, part in enumerate(np.split(np.column_stack([X, Y]), 2)):
        np.save(tmp_path / f"part-{number}.npy", part)
    with dask.config.set(FAST), SpecCluster(
            scheduler={"cls": Scheduler, "options": {"dashboard_address": ":0"}},
            workers={0: {"cls": Nanny, "options": {
                "nthreads": 1, "silence_logs": 50, "preload": [str(tmp_path / "block.py")]}}}
            ) as cluster, Client(cluster, set_as_default=False) as client:
        client.wait_for_workers(1, timeout=60)
        assert main(["train", str(tmp_path / "part-*.npy"), "--quiet", "--epochs", "1", "--tol",
                     "0", "--scheduler", cluster.scheduler_address, "--out",
                     str(tmp_path / "m.npz")]) == 0
        assert client.run(lambda: "dask.array" in sys.modules and sys.modules["dask.array"]) \
            == dict.fromkeys(client.nthreads())
    model = LowPrecisionRegressor(epochs=1, tol=0.0, random_state=0)
    expected = train_parts(model._local(), make_parts(X, Y, [0, 45, 90]))
    np.testing.assert_array_equal(load_model(tmp_path / "m.npz").coef, expected.coefs[-1])


@pytest.mark.slow
def test_weighted_rows_on_simulated_boards(client):
    model = LowPrecisionRegressor(client=client, epochs=1, tol=0.0, random_state=2, device="sim")
    model.fit(da.from_array(X, chunks=(45, 3)), da.from_array(Y, chunks=(45,)),
              sample_weight=da.from_array(WEIGHTS, chunks=(45,)))
    expected = train_parts(model._local(), make_parts(X, Y, [0, 45, 90], WEIGHTS))
    np.testing.assert_array_equal(model.coef_, expected.coefs[-1][0])
    assert model.counters_["cycles"] > 0
