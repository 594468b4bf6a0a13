"""Training with every codec by 2 and 4 processes, and by one that dies."""

import time

import pytest

pytest.importorskip("torch", reason="needs torch; `make test-torch` runs it")

from tests.gradients.torch.models import codecs_of_layers, lose_a_rank, train_all_codecs
from tests.gradients.torch.processes import COLLECTIVE_S, run_processes

STEPS = 40          # levels and bits are updated three times; it is saved after 20
RUNS = [(1, "two-phase"), (2, "two-phase"), (4, "all_gather"),
        *(pytest.param(run, marks=pytest.mark.slow)
          for run in ((2, "all_gather"), (4, "two-phase")))]


@pytest.fixture(scope="module", params=RUNS, ids=lambda run: "-".join(map(str, run)))
def ranks(request, tmp_path_factory):
    n_ranks, exchange = request.param
    found = run_processes(n_ranks, tmp_path_factory.mktemp("ranks"), train_all_codecs, exchange,
                          STEPS)
    for one in found:
        assert isinstance(one, dict), one
        assert one["n_steps"] == STEPS
        assert one["n_buckets"] > 1             # the first step has one
    return found


@pytest.mark.parametrize("name", codecs_of_layers())
def test_ranks_agree_and_go_on_after_a_restart(name, ranks):
    """Gradients of every step, before and after it, and the last weights, bit for bit."""
    for place in (f"layers.{name}.weight", f"layers.{name}.bias"):
        for one in ranks:
            for part in ("first", "whole", "last", "weights"):
                assert one[part][place] == ranks[0][part][place]
            assert one["whole"][place] == one["restored"][place]


@pytest.mark.parametrize("exchange", ["all_gather", "two-phase"])
def test_a_rank_that_dies_ends_the_others(exchange, tmp_path):
    """By torch's error, and before its time limit."""
    start = time.monotonic()
    found = run_processes(3, tmp_path, lose_a_rank, exchange)
    assert found[1] is None
    for rank in (0, 2):
        assert "RuntimeError" in found[rank]
        assert "gloo" in found[rank].lower() or "Connection" in found[rank]
    assert time.monotonic() - start < 4 * COLLECTIVE_S
