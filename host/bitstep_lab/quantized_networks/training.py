"""Training of the network; the module is imported with torch only.

The network has convolutions of 3 x 3 with 16 and 32 channels, each with ReLU and a maximum over
2 x 2, then 64 and 10 units: 13,706 parameters for digits of 8 x 8 pixels.
"""

from dataclasses import dataclass

import numpy as np
import torch  # pyright: ignore[reportMissingImports]
from torch import nn  # pyright: ignore[reportMissingImports]

from bitstep_lab.quantized_networks.quantizers import Quantizer
from bitstep_lab.samples import Samples

MOMENTUM, BATCH = 0.9, 32
GRID = (0.005, 0.01, 0.02, 0.05, 0.1)   # steps that are tried


@dataclass(frozen=True, eq=False)
class History:
    """Scores after each epoch, of the weights that the network computes with.

    Parameters
    ----------
    losses, test_losses : ndarray of float64, shape (epochs,)
        Mean cross-entropy of the rows to train on and of the others, in nats.
    accuracy : ndarray of float64, shape (epochs,)
        Share of the other rows whose class is right.

    All are NaN from the epoch on in which the weights leave the finite numbers.
    """

    losses: np.ndarray
    test_losses: np.ndarray
    accuracy: np.ndarray


def train_network(samples: Samples, quantizer: Quantizer | None, *, step: float, epochs: int,
                  seed: int) -> History:
    """Train with weights that are rounded in each forward and backward pass.

    Sums of steps are kept in full precision, and the gradient of the rounded weights is taken for
    theirs (straight-through, as in XNOR-Net). Biases are not rounded. SGD with momentum.

    Parameters
    ----------
    samples : Samples
        Images of at least 4 x 4 pixels.
    quantizer : Quantizer or None
        None for full precision.
    step : float
        Positive.
    epochs : int
        At least 1.
    seed : int
        Of the first weights, the order of the rows and the rounding; the first two are the same for
        all quantizers.
    """
    order, rounding = (np.random.default_rng((seed, kind)) for kind in range(2))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module = _network(samples.side, samples.n_classes)
    weights = {name: one.detach().clone() for name, one in module.named_parameters()}
    speeds = {name: torch.zeros_like(one) for name, one in weights.items()}
    images, labels = _tensors(samples.features, samples.labels, samples.side)
    scores = []
    for _ in range(epochs):
        for part in np.array_split(order.permutation(len(labels)), -(-len(labels) // BATCH)):
            if not _are_finite(weights):
                break
            used = {name: one.requires_grad_()
                    for name, one in _rounded(weights, quantizer, rounding).items()}
            outputs = torch.func.functional_call(module, used, (images[part],))
            loss = nn.functional.cross_entropy(outputs, labels[part])
            for (name, slope) in zip(used, torch.autograd.grad(loss, list(used.values())),
                                     strict=True):
                speeds[name].mul_(MOMENTUM).add_(slope)
                weights[name].sub_(step * speeds[name])
        scores.append(_scores(module, _rounded(weights, quantizer, rounding), samples)
                      if _are_finite(weights) else (np.nan,) * 3)
    return History(*(np.array(column) for column in zip(*scores, strict=True)))


def tuned_step(samples: Samples, quantizer: Quantizer | None, *, epochs: int) -> float:
    """The step of :data:`GRID` that ends with the least training loss, with seed 0."""
    losses = [train_network(samples, quantizer, step=step, epochs=epochs, seed=0).losses[-1]
              for step in GRID]
    return float(GRID[int(np.argmin(np.nan_to_num(losses, nan=np.inf)))])


def _are_finite(weights):
    return all(one.isfinite().all() for one in weights.values())


def _rounded(weights, quantizer, rng):
    """Weights that the network computes with: copies, rounded but for biases."""
    if quantizer is None:
        return {name: one.clone() for name, one in weights.items()}
    return {name: torch.from_numpy(quantizer(one.numpy(), rng)) if one.ndim > 1 else one.clone()
            for name, one in weights.items()}


@torch.no_grad()
def _scores(module, used, samples):
    """Training loss, test loss and accuracy."""
    found = []
    for features, targets in ((samples.features, samples.labels),
                              (samples.test_features, samples.test_labels)):
        images, labels = _tensors(features, targets, samples.side)
        outputs = torch.func.functional_call(module, used, (images,))
        found += [float(nn.functional.cross_entropy(outputs, labels)),
                  float((outputs.argmax(dim=1) == labels).double().mean())]
    return found[0], found[2], found[3]


def _tensors(features, labels, side):
    return torch.from_numpy(features).reshape(-1, 1, side, side), torch.from_numpy(labels)


def _network(side, n_classes):
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(32 * (side // 4)**2, 64), nn.ReLU(), nn.Linear(64, n_classes))
