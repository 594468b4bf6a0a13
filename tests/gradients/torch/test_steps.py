"""The table of steps of DistributedDataParallel: its hooks, its times and its bytes."""

import threading
from types import SimpleNamespace

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs torch; `make test-torch` runs it")

from bitstep_gradients.lab import ddp_steps  # noqa: E402
from bitstep_gradients.lab.ddp_steps import HOOKS, eight_bit_hook, main, measure  # noqa: E402


class Ranks:
    """The part of torch.distributed that the hook asks for, between threads."""

    def __init__(self, n_ranks):
        self.n_ranks, self.told = n_ranks, [None] * n_ranks
        self._all, self.own = threading.Barrier(n_ranks), threading.local()

    def get_world_size(self):
        return self.n_ranks

    def all_gather(self, found, tensor):
        self._all.wait(60)
        self.told[self.own.rank] = tensor
        self._all.wait(60)
        for place, one in zip(found, self.told, strict=True):
            place.copy_(one)


def test_eight_bits_by_hand(monkeypatch):
    """Values on the levels of their rank come through as they are, and are averaged."""
    vectors = [[-1.0, 0.0, 1.55], [0.0, 510.0, 2.0], [-2.55, -0.01, -1.0]]
    ranks, found = Ranks(3), {}
    monkeypatch.setattr(ddp_steps, "dist", ranks)

    def work(rank):
        ranks.own.rank = rank
        bucket = SimpleNamespace(buffer=lambda: torch.tensor(vectors[rank]))
        found[rank] = eight_bit_hook(None, bucket).wait()

    threads = [threading.Thread(target=work, args=(rank,)) for rank in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for rank in range(3):
        np.testing.assert_allclose(found[rank], np.mean(vectors, axis=0), rtol=1e-5)


def test_bytes_by_hand():
    """A ring sends each value twice but for a rank's own share; all_gather sends all to all."""
    n_values = (784 + 1) * 300 + (300 + 1) * 100 + (100 + 1) * 10
    assert ddp_steps.torch_bytes("none (all-reduce)", 4) == 2 * 3 / 4 * 4 * n_values
    assert ddp_steps.torch_bytes("torch, fp16", 4) == 2 * 3 / 4 * 2 * n_values
    assert ddp_steps.torch_bytes("torch, 8 bits, all_gather", 4) == 3 * (n_values + 8)
    assert ddp_steps.torch_bytes("none (all-reduce)", 1) == 0


def test_each_rank_has_rows_of_its_own_and_the_median_counts(monkeypatch, tmp_path):
    """By a clock on which steps take 9, 9, 3, 1 and 2 s; the first two do not count."""
    rows, lasted = {0: [], 1: []}, [9.0, 9.0, 3.0, 1.0, 2.0]
    looks = iter([seconds for last in lasted for _ in range(2) for seconds in (100.0, 100 + last)])
    monkeypatch.setattr(ddp_steps, "dist", SimpleNamespace(
        FileStore=lambda *arguments: None, init_process_group=lambda *arguments, **options: None,
        barrier=lambda: None, destroy_process_group=lambda: None))
    monkeypatch.setattr(ddp_steps, "HOOKS", {"none (all-reduce)": None, "counted": {}})
    monkeypatch.setattr(torch, "set_num_threads", lambda count: None)
    counted = SimpleNamespace(step_total=lambda: SimpleNamespace(sent=77))

    def make_run_of(rank):
        layer = torch.nn.Linear(784, 10)
        return lambda choice: (
            lambda some: rows[rank].append(some.numpy()) or layer(some),
            SimpleNamespace(zero_grad=lambda: None, step=lambda: None),
            None if choice is None else SimpleNamespace(traffic=counted))

    for rank in (1, 0):
        monkeypatch.setattr(ddp_steps, "_make_run", make_run_of(rank))
        if rank == 0:
            monkeypatch.setattr(ddp_steps.time, "perf_counter", lambda: next(looks))
        ddp_steps._rank(rank, 2, 5, str(tmp_path))
    found = ddp_steps.pickle.loads((tmp_path / "found").read_bytes())
    assert found == {"none (all-reduce)": (2000, ddp_steps.torch_bytes("none", 2)),
                     "counted": (2000, 77)}
    # Every hook sees the rows of its step; no step and no rank has those of another.
    firsts = [step[0, 0] for rank in rows for step in rows[rank]]
    assert firsts[::2] == firsts[1::2]
    assert len(set(firsts)) == 2 * 5


def test_table_by_hand(monkeypatch, capsys):
    monkeypatch.setattr(ddp_steps, "measure", lambda ranks, steps: {
        name: (100.0 * ranks + place, 1e6 * ranks + 500 * place)
        for place, name in enumerate(HOOKS)})
    assert main(["--ranks", "2", "4"]) == 0
    head, _, first, second, *others = capsys.readouterr().out.splitlines()
    assert head == "| hook | ms, 2 ranks | ms, 4 ranks | kB, 2 ranks | kB, 4 ranks |"
    assert first == "| none (all-reduce) | 200 | 400 | 2,000.0 | 4,000.0 |"
    assert second == "| torch, fp16 | 201 | 401 | 2,000.5 | 4,000.5 |"
    assert len(others) == len(HOOKS) - 2


@pytest.mark.parametrize("codes", [[0, None], [0, -9], [1, 0]])
def test_a_rank_that_fails_or_does_not_end(codes, monkeypatch):
    """Its process is ended, and the error names its exit code: None if it was still running."""
    left, killed = iter(codes), []

    class Process:
        def __init__(self, **options):
            self.exitcode = next(left)

        def start(self):
            pass

        def join(self, limit_s):
            pass

        def kill(self):
            killed.append(self.exitcode)

    monkeypatch.setattr(ddp_steps.multiprocessing, "get_context",
                        lambda kind: SimpleNamespace(Process=Process))
    with pytest.raises(RuntimeError, match="every rank must end with 0") as caught:
        measure(2, 3)
    assert str(codes) in str(caught.value)
    assert killed == codes


@pytest.mark.slow
def test_two_ranks():
    """Uncompressed values in two phases are a ring's; codes of few bits have their bits, and some
    per cent of scales and headers.
    """
    found = measure(2, 3)
    assert list(found) == list(HOOKS)
    assert all(milliseconds > 0 for milliseconds, _ in found.values())
    sent = {name: n_bytes for name, (_, n_bytes) in found.items()}
    assert sent["`none`, two-phase"] == pytest.approx(sent["none (all-reduce)"], rel=0.01)
    assert sent["`dqsg` 8 bits, all_gather"] == pytest.approx(266_610, rel=0.03)
    assert sent["`dqsg` 2 bits, all_gather"] == pytest.approx(266_610 / 4, rel=0.1)
