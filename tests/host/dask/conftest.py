"""A cluster of two processes on this machine, for all tests in here."""

import pytest

pytest.importorskip("distributed")

import dask
from clusters import FAST, make_cluster
from distributed import Client


@pytest.fixture(scope="session")
def cluster():
    with make_cluster() as made:
        yield made


@pytest.fixture
def client(cluster):
    with dask.config.set(FAST), Client(cluster, set_as_default=False) as made:
        yield made
