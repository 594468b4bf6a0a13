"""The table of steps of DistributedDataParallel: its hooks, its times and its bytes."""

from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch", reason="needs torch; `make test-torch` runs it")

from bitstep_gradients.lab import ddp_steps  # noqa: E402
from bitstep_gradients.lab.ddp_steps import measure  # noqa: E402


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
