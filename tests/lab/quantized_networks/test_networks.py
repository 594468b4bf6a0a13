"""The network with weights of few levels: torch's own SGD beside it, and contestants."""

from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs torch; `make test-torch` runs it")

from bitstep_lab.quantized_networks import report, training  # noqa: E402
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


@pytest.mark.parametrize("quantizer", [None, Quantizer("uniform", "nearest"),
                                       Quantizer("uniform", "stochastic")])
def test_training_is_sgd_of_torch(samples, quantizer):
    """With the gradient of the rounded weights. Rounding has random words of its own, so that the
    order of the rows is the same with any.
    """
    found = training.train_network(samples, quantizer, step=0.05, epochs=3, seed=4)
    torch.manual_seed(4)
    module = training._network(8, 2)
    kept = [one.detach().clone().requires_grad_() for one in module.parameters()]
    optimizer = torch.optim.SGD(kept, lr=0.05, momentum=training.MOMENTUM)
    order, words = np.random.default_rng((4, 0)), np.random.default_rng((4, 1))
    images = torch.from_numpy(samples.features).reshape(-1, 1, 8, 8)
    labels = torch.from_numpy(samples.labels)

    def loss_of(part):
        """Loss of rows with weights that are rounded now."""
        for own, one in zip(module.parameters(), kept, strict=True):
            rounded = one.detach().clone()
            if quantizer is not None and one.ndim > 1:
                rounded = torch.from_numpy(quantizer(one.detach().numpy(), words))
            own.data, own.grad = rounded, None
        return torch.nn.functional.cross_entropy(module(images[part]), labels[part])

    for epoch in range(3):
        for part in np.array_split(order.permutation(96), 3):
            loss_of(part).backward()
            for own, one in zip(module.parameters(), kept, strict=True):
                one.grad = own.grad
            optimizer.step()
        assert found.losses[epoch] == pytest.approx(float(loss_of(slice(None)).detach()), rel=1e-4)


def test_scores_are_of_the_rows_to_test_with(samples):
    """Those to train with, whose classes are turned over."""
    turned = replace(samples, test_features=samples.features, test_labels=1 - samples.labels)
    found = training.train_network(turned, None, step=0.05, epochs=8, seed=0)
    assert found.losses[-1] < 0.2
    assert found.test_losses[-1] > 1
    assert found.accuracy[-1] < 0.1


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


def test_every_seed_and_step_is_its_contestants_own(samples, monkeypatch):
    trained = []
    steps = {None: 0.5} | {quantizer: 0.1 * place for place, quantizer in enumerate(
        CONTESTANTS.values()) if quantizer is not None}
    monkeypatch.setattr(report, "tuned_step", lambda samples, quantizer, *, epochs:
                        steps[quantizer])
    monkeypatch.setattr(report, "train_network", lambda samples, quantizer, *, step, epochs, seed:
                        trained.append((quantizer, step, seed)))
    runs = run_contestants(samples, epochs=1, seeds=2)
    assert trained == [(quantizer, steps[quantizer], seed)
                       for quantizer in CONTESTANTS.values() for seed in (0, 1)]
    assert [one.step for one in runs] == [steps[one] for one in CONTESTANTS.values()]


def runs_of(name, losses, accuracies):
    """Trainings of two epochs, of which the last one counts."""
    return Runs(name, 0.1, [training.History(np.array([9.0, loss]), np.array([8.0, 2 * loss]),
                                             np.array([0.5, share]))
                            for loss, share in zip(losses, accuracies, strict=True)])


def test_conclusions_by_hand():
    nearest, stochastic = (
        [runs_of(f"Optimal5, {rounding}", [0.1, 0.3], [0.9, 0.8]),
         runs_of(f"XNOR5, {rounding}", [0.5, 0.5], [0.7, 0.79])]
        for rounding in ("nearest", "stochastic"))
    line, other = conclusions(nearest + stochastic)
    assert line.startswith("Rounded to the nearest, Optimal5 ends")
    assert other.startswith("Rounded stochastically, Optimal5 ends")
    assert "cross-entropy of 0.200, XNOR5 with 0.500" in line
    assert "+10.5 points" in line
    assert "+1.0 to +20.0" in line


def test_rows_by_hand():
    assert rows_of([runs_of("any", [0.1, 0.3], [0.9, 0.8])]) == [
        ["any", "0.1", "0.200 ± 0.100", "0.400 ± 0.200", "85.0 ± 5.0 %"]]
