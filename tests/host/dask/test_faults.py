"""What is lost while a model is trained: workers, scheduler, client; and Ctrl-C."""

import asyncio
import os
import pickle
import signal
from types import SimpleNamespace
from typing import Any

import dask
import dask.array as da
import numpy as np
import pytest
from clusters import FAST, assert_nothing_is_left, make_cluster
from dask.utils import key_split
from distributed import Client, LocalCluster
from sharded import make_parts, train_parts
from sklearn.datasets import load_breast_cancer

from bitstep.dask import LowPrecisionClassifier, LowPrecisionRegressor
from bitstep.dask.engine import Engine
from bitstep.dask.mapped import MappedShards, kept_shards
from bitstep.pipeline.results import DeviceError
from bitstep.training.shards.parts import make_shards, merge, shard_plan_of, summarize

CANCER: Any = load_breast_cancer(return_X_y=True)
X, Y = CANCER
ENDS = [0, 150, 300, 450, 569]
ROWS = da.from_array(X, chunks=((150, 150, 150, 119), 30))
LABELS = da.from_array(Y, chunks=((150, 150, 150, 119),))


def model_of(client, **options):
    return LowPrecisionClassifier(client=client, **{
        "epochs": 3, "l2": 1e-2, "tol": 0.0, "random_state": 1, "timeout": 60.0} | options)


@pytest.fixture(scope="module")
def expected():
    return train_parts(model_of(None)._local(), make_parts(X, Y, ENDS)).coefs[-1]


def kill_first(client):
    """Kill the worker that has the first address, at once; returns the address."""
    first = min(client.nthreads())
    os.kill(client.run(os.getpid, workers=[first])[first], signal.SIGKILL)
    return first


@pytest.mark.slow
@pytest.mark.parametrize("lost_in", [
    ("scale",), ("quantize", "full-pass", "inner-passes", "losses")])
def test_workers_lost_in_every_kind_of_pass(expected, lost_in, monkeypatch):
    """A worker is killed as soon as the tasks of a pass are on their way: the bits are the same."""
    left, lost, compute = set(lost_in), {}, Engine.compute

    def losing(self, tasks):
        futures = compute(self, tasks)
        name = key_split(tasks[0].key).removeprefix("bitstep-")
        if name in left:
            left.discard(name)
            lost[name] = kill_first(self.client)
        return futures

    monkeypatch.setattr(Engine, "compute", losing)
    with dask.config.set(FAST | {"distributed.scheduler.allowed-failures": 5}), \
            make_cluster() as cluster, Client(cluster, set_as_default=False) as client:
        model = model_of(client).fit(ROWS, LABELS)
        assert not set(lost.values()) & set(client.nthreads())
    assert set(lost) == set(lost_in)
    np.testing.assert_array_equal(model.coef_, expected)


def test_worker_lost_before_its_results_are_fetched(expected, monkeypatch):
    """All tasks of a pass have ended, and one worker is killed with what it has: the same bits."""
    fetched, lost = Engine._fetched, []
    monkeypatch.setattr("bitstep.dask.engine.FETCH_S", 0.5)

    def losing(self, ended, patience_s):
        if not lost and any("-full-pass-" in one.key for one in ended.values()):
            lost.append(kill_first(self.client))
        return fetched(self, ended, patience_s)

    monkeypatch.setattr(Engine, "_fetched", losing)
    with dask.config.set(FAST | {"distributed.scheduler.allowed-failures": 5}), \
            make_cluster() as cluster, Client(cluster, set_as_default=False) as client:
        model = model_of(client).fit(ROWS, LABELS)
        assert lost[0] not in client.nthreads()
    np.testing.assert_array_equal(model.coef_, expected)


def die(block):
    """A partition that no worker survives."""
    if len(block) == 119:
        os.kill(os.getpid(), signal.SIGKILL)
    return block


@pytest.mark.slow
def test_worker_too_small_for_its_shard():
    with make_cluster() as cluster, dask.config.set(FAST), \
            Client(cluster, set_as_default=False) as client, \
            pytest.raises(DeviceError, match=r"on 2 workers when they were lost, the last one tcp"
                                             r".*make partitions smaller"):
        model_of(client).fit(ROWS.map_blocks(die, dtype=float, meta=np.empty((0, 0))), LABELS)


def test_rows_larger_than_the_memory_of_workers(expected, monkeypatch):
    """They are mapped from the worker's disk, where they have no name; the bits are the same."""
    found = []
    limits = {f"distributed.worker.memory.{name}": False
              for name in ("target", "spill", "pause", "terminate")}

    def kept(dask_worker):
        return [type(one).__name__ for one in dask_worker.data.values()]

    when_first("inner-passes", lambda engine: found.append(engine.client.run(kept)), monkeypatch)
    with dask.config.set(FAST | limits), make_cluster(1, memory_limit="64MB") as cluster, \
            Client(cluster, set_as_default=False) as client:
        model = model_of(client).fit(ROWS, LABELS)
    names = [name for names in found[0].values() for name in names]
    assert names.count("MappedShards") == 4
    np.testing.assert_array_equal(model.coef_, expected)


@pytest.fixture
def shards():
    part, = make_parts(X, Y, ENDS[:2])
    summary = summarize(part, True)
    plan = shard_plan_of(merge([summary]), "minmax", None, None, seed=1, shuffle=True,
                         fit_intercept=True, shard_rows=70)
    return make_shards(part, plan, 0, summary)


@pytest.mark.parametrize("protocol", [4, 5])
def test_mapped_shards(shards, tmp_path, protocol):
    """Dask may pickle them, for its own spill and for another worker."""
    found = MappedShards(shards, str(tmp_path))
    pickled = pickle.dumps(found, protocol)
    again = pickle.loads(pickled)
    assert not list(tmp_path.iterdir())
    tmp_path.rmdir()
    elsewhere = pickle.loads(pickled)
    found.give_back()
    assert [type(one) for one in (again, elsewhere)] == [MappedShards, list]
    assert len(shards) > 1
    for kinds in zip(shards, found, again, elsewhere, strict=True):
        own, *others = (one.rows.stored[0] for one in kinds)
        # From protocol 5 on, which Dask takes, arrays stay what they were.
        assert [one.flags.writeable for one in others] == [False, False, protocol < 5]
        for other in others:
            np.testing.assert_array_equal(other, own)


def test_no_room_on_the_disk(shards, tmp_path, monkeypatch):
    gone = str(tmp_path / "gone")
    worker = SimpleNamespace(local_directory=gone, memory_manager=SimpleNamespace(memory_limit=1))
    monkeypatch.setattr("bitstep.dask.mapped.get_worker", lambda: worker)
    with pytest.raises(MemoryError, match=rf"cannot be written to its local directory {gone}"):
        kept_shards(shards)
    worker.memory_manager.memory_limit = None
    assert kept_shards(shards) is shards


def test_paused_workers(client, monkeypatch):
    monkeypatch.setattr("bitstep.dask.engine.LOOK_S", 0.1)
    monkeypatch.setattr(client, "scheduler_info", lambda: {"workers": {
        "one": {"status": "paused"}, "other": {"status": "running"}}})
    with pytest.raises(DeviceError, match="Workers are paused, since their memory is full: give"):
        model_of(client, timeout=0.5, resources={"bitstep": 1}).fit(ROWS, LABELS)


def test_no_worker(monkeypatch):
    monkeypatch.setattr("bitstep.dask.engine.LOOK_S", 0.1)
    with LocalCluster(n_workers=0, processes=False, dashboard_address=":0") as cluster, \
            Client(cluster, set_as_default=False) as client, \
            pytest.raises(DeviceError, match=r"No task ended in 0.5 s; the scheduler .* has 0 "
                                             r"workers, and 4 tasks wait"):
        model_of(client, timeout=0.5).fit(ROWS, LABELS)


def test_no_worker_with_the_resources(client, monkeypatch):
    monkeypatch.setattr("bitstep.dask.engine.LOOK_S", 0.1)
    with pytest.raises(DeviceError, match="4 tasks wait for one with resources bitstep=1"):
        model_of(client, timeout=0.5, resources={"bitstep": 1}).fit(ROWS, LABELS)


def when_first(name, act, monkeypatch):
    """Call a function when the tasks of a pass are first on their way."""
    submit, done = Engine.submit, []

    def watched(self, pass_name, *arguments):
        if pass_name == name and not done:
            done.append(name)
            act(self)
        return submit(self, pass_name, *arguments)

    monkeypatch.setattr(Engine, "submit", watched)


def test_scheduler_that_ends(monkeypatch):
    """Workers are not asked to close their devices: Dask would wait for the scheduler first."""
    cluster, run, asked = make_cluster(n_workers=1), Client.run, []

    def watched(self, *arguments, **options):
        asked.append(self.status)
        return run(self, *arguments, **options)

    with dask.config.set(FAST), Client(cluster, set_as_default=False, timeout=3) as client:
        when_first("inner-passes", lambda engine: cluster.close(timeout=10), monkeypatch)
        monkeypatch.setattr(Client, "run", watched)
        with pytest.raises(DeviceError, match=r"The scheduler tcp.* is gone, or has dropped this"):
            model_of(client).fit(ROWS, LABELS)
        assert not asked


def test_devices_are_closed_in_time(client, monkeypatch):
    """A scheduler that has just ended seems to run; then the call ends with the time limit."""
    given, wait = [], asyncio.wait_for

    def refused(awaited, timeout):
        given.append(timeout)
        return wait(awaited, 0 if timeout == 45.0 else timeout)

    monkeypatch.setattr("bitstep.dask.engine.asyncio.wait_for", refused)
    assert model_of(client, timeout=45.0).fit(ROWS, LABELS).n_iter_ == 3
    assert given.count(45.0) == 1


def test_client_that_was_closed(cluster, monkeypatch):
    client = Client(cluster, set_as_default=False)
    client.close()
    with pytest.raises(DeviceError, match=r"The scheduler .* is gone, or has dropped this client"):
        model_of(client).fit(ROWS, LABELS)
    client = Client(cluster, set_as_default=False)
    when_first("inner-passes", lambda engine: engine.client.close(), monkeypatch)
    with pytest.raises(DeviceError, match=r"The scheduler .* is gone, or has dropped this client"):
        model_of(client).fit(ROWS, LABELS)
    with Client(cluster, set_as_default=False) as other:
        assert_nothing_is_left(other)


def test_interrupt_keeps_the_last_outer_step(client, expected, monkeypatch):
    model = model_of(client)
    submit, seen = Engine.submit, []

    def interrupting(self, name, *arguments):
        if name == "full-pass":
            seen.append(name)
            if len(seen) == 4:
                raise KeyboardInterrupt
        return submit(self, name, *arguments)

    monkeypatch.setattr(Engine, "submit", interrupting)
    with pytest.raises(KeyboardInterrupt):
        model.fit(ROWS, LABELS)
    assert model.n_iter_ in (1, 2)
    monkeypatch.undo()
    shorter = model_of(client, epochs=3).fit(ROWS, LABELS)
    np.testing.assert_array_equal(shorter.coef_, expected)
    assert model.history_ == shorter.history_[:model.n_iter_]


def test_partitions_that_change(client):
    def noise(block):
        return block + np.random.default_rng().normal(size=block.shape)
    with pytest.raises(ValueError, match=r"Partition \d has other rows than when it was scaled.*on "
                                         r"worker tcp"):
        model_of(client).fit(ROWS.map_blocks(noise, dtype=float, meta=np.empty((0, 0))), LABELS)


@pytest.mark.parametrize("kind, change", [
    (LowPrecisionClassifier, lambda block: np.arange(len(block)) < np.random.default_rng().integers(
        1, len(block))),
    (LowPrecisionRegressor, lambda block: block + np.random.default_rng().normal(size=len(block)))])
def test_labels_that_change(client, kind, change):
    """Labels beyond the range of the first time would count as its ends."""
    with pytest.raises(ValueError, match=r"Partition \d has other rows than when it was scaled"):
        kind(client=client, timeout=60.0).fit(ROWS, LABELS.map_blocks(
            change, dtype=float, meta=np.empty(0)))
