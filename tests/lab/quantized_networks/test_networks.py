"""The network with weights of few levels: torch's own SGD beside it, and contestants."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs torch; `make test-torch` runs it")

from bitstep_lab.quantized_networks import training  # noqa: E402
from bitstep_lab.quantized_networks.quantizers import Quantizer  # noqa: E402
from bitstep_lab.quantized_networks.report import (  # noqa: E402
    CONTESTANTS,
    Runs,
    conclusions,
    rows_of,
    run_contestants,
    write_report,
)
from bitstep_lab.samples import Samples  # noqa: E402


@pytest.fixture(autouse=True)
def one_thread():
    """One thread: layers are too small to share, and threads wait on a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def samples():
    """Two classes of images of 8 x 8: bars that lie, and bars that stand."""
    rng = np.random.default_rng(0)
    images, labels = rng.normal(0, 0.1, (120, 8, 8)), rng.integers(2, size=120)
    for image, label in zip(images, labels, strict=True):
        place = rng.integers(3)
        image[(place, slice(None)) if label else (slice(None), place)] += 1
    features = images.reshape(120, 64).astype(np.float32)
    return Samples("bars", features[:96], labels[:96], features[96:], labels[96:], 2, 8)


def test_full_precision_is_sgd_of_torch(samples):
    found = training.train_network(samples, None, step=0.05, epochs=3, seed=4)
    torch.manual_seed(4)
    module = training._network(8, 2)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.05, momentum=training.MOMENTUM)
    order = np.random.default_rng((4, 0))
    images = torch.from_numpy(samples.features).reshape(-1, 1, 8, 8)
    labels = torch.from_numpy(samples.labels)
    for epoch in range(3):
        for part in np.array_split(order.permutation(96), 3):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(module(images[part]), labels[part]).backward()
            optimizer.step()
        loss = torch.nn.functional.cross_entropy(module(images), labels)
        assert found.losses[epoch] == pytest.approx(float(loss.detach()), rel=1e-4)


@pytest.mark.parametrize("quantizer", [None, Quantizer("optimal", "nearest"),
                                       Quantizer("uniform", "stochastic")])
def test_a_step_that_is_too_large(samples, quantizer, tmp_path):
    """The other contestants have their rows."""
    found = training.train_network(samples, quantizer, step=1e30, epochs=2, seed=0)
    assert np.isnan([found.losses, found.test_losses, found.accuracy]).all()
    good = training.train_network(samples, quantizer, step=0.01, epochs=2, seed=0)
    names = ("Optimal5, nearest", "XNOR5, nearest")
    runs = [Runs(name, 0.01, [good, one]) for name, one in zip(names, (found, good), strict=True)]
    first, second = rows_of(runs)
    assert first == [names[0], "0.01", "diverged", "-", "-"]
    assert "diverged" not in second
    assert conclusions(runs) == []
    for shown in (runs, runs[:1]):
        assert "diverged" in write_report(tmp_path, samples, shown).read_text("utf-8")


def test_scores_are_of_rounded_weights(samples, monkeypatch):
    seen, score = [], training._scores
    monkeypatch.setattr(training, "_scores",
                        lambda module, used, rows: seen.append(used) or score(module, used, rows))
    training.train_network(samples, Quantizer("optimal", "nearest"), step=0.05, epochs=2, seed=0)
    assert [len(torch.unique(one)) <= 5 for one in seen[-1].values() if one.ndim > 1] == 4 * [True]
    assert any(len(torch.unique(one)) > 5 for one in seen[-1].values() if one.ndim == 1)


def test_every_contestant_trains_and_repeats(samples):
    lines = []
    runs = run_contestants(samples, epochs=12, seeds=1, step=0.05, progress=lines.append)
    assert lines == list(CONTESTANTS)
    losses = np.array([one.histories[0].losses for one in runs])
    assert (losses[:, -1] < 0.2).all(), losses        # 0.69 without any knowledge
    assert len(np.unique(losses[:, 0])) == 5, losses
    again = training.train_network(samples, CONTESTANTS["XNOR5, stochastic"], step=0.05, epochs=12,
                                   seed=0)
    assert (again.losses == losses[-1]).all()
    assert len(rows_of(runs)) == len(conclusions(runs)) + 3 == 5


def test_each_takes_its_own_best_step(samples, monkeypatch):
    tried = []

    def train(samples, quantizer, *, step, epochs, seed):
        tried.append((quantizer, step, seed))
        loss = abs(step - (0.02 if quantizer is None else 0.05))
        return training.History(*3 * [np.array([np.nan if step == 0.1 else loss])])

    monkeypatch.setattr(training, "train_network", train)
    assert training.tuned_step(samples, None, epochs=1) == 0.02
    assert training.tuned_step(samples, Quantizer("uniform", "nearest"), epochs=1) == 0.05
    assert len(tried) == 2 * len(training.GRID)
    assert {seed for _, _, seed in tried} == {0}


def test_conclusions_by_hand():
    def runs(name, losses, accuracies):
        return Runs(name, 0.1, [training.History(np.array([loss]), np.zeros(1), np.array([share]))
                                for loss, share in zip(losses, accuracies, strict=True)])

    line, = conclusions([runs("Optimal5, nearest", [0.1, 0.3], [0.9, 0.8]),
                         runs("XNOR5, nearest", [0.5, 0.5], [0.7, 0.79])])
    assert "cross-entropy of 0.200, XNOR5 with 0.500" in line
    assert "+10.5 points" in line
    assert "+1.0 to +20.0" in line
