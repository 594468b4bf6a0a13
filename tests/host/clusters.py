"""Dask clusters on this machine, as tests start them."""

import time

import dask.config
from distributed import LocalCluster

FAST = {
    # What a lost worker, or a scheduler that is gone, makes a test wait for.
    "distributed.comm.timeouts.connect": "5s", "distributed.scheduler.allowed-failures": 1,
    # A cluster that lives as long as all tests would take 12 % of a core to watch itself, not 2 %.
    "distributed.worker.profile.enabled": False, "distributed.admin.tick.interval": "500ms",
    "distributed.admin.system-monitor.interval": "5s"}


def make_cluster(n_workers=2, **options):
    """A cluster of processes with one thread each."""
    with dask.config.set(FAST):
        return LocalCluster(**{"n_workers": n_workers, "threads_per_worker": 1, "processes": True,
                               "dashboard_address": ":0", "silence_logs": 50} | options)


def assert_nothing_is_left(client):
    """The scheduler hears of results that are let go a moment later."""
    end = time.monotonic() + 30
    while left := [key for key in client.who_has() if "bitstep" in str(key)]:
        assert time.monotonic() < end, left
        time.sleep(0.02)
