"""Convolutional networks, whose gradients torch computes; the module is imported with torch only.

LeNet is that of the DQSG paper (1,663,370 parameters for ten classes): convolutions of 5 x 5 with
32 and 64 channels, each with ReLU and a maximum over 2 x 2, then 3,136, 512 and 10 units. The
residual network has a convolution of 3 x 3 with 16 channels, three basic blocks of 16, 32 and 64
channels (the last two halve the image), group normalisation, and a mean over the pixels.
"""

import numpy as np
import torch  # pyright: ignore[reportMissingImports]
from torch import nn  # pyright: ignore[reportMissingImports]

from bitstep_gradients.lab.perceptrons import Parameters, Score

ROWS = 500          # that are judged at a time: memory of large images


class Network:
    """A torch module as a model of a race.

    Parameters
    ----------
    name : str
        ``lenet`` or ``resnet``.
    side : int
        Pixels on each side of the images.
    n_classes : int
    """

    def __init__(self, name: str, side: int, n_classes: int):
        self.name, self.side, self.n_classes = name, side, n_classes
        self._module = self._make(0)

    def first_parameters(self, seed: int) -> Parameters:
        """Parameters before the first step: torch's own of a seed."""
        return {name: value.detach().numpy().copy()
                for name, value in self._make(seed).named_parameters()}

    def gradient(self, parameters: Parameters, features: np.ndarray,
                 labels: np.ndarray) -> tuple[float, Parameters]:
        """Mean loss of a batch, and its gradient."""
        tensors = {name: torch.from_numpy(value).requires_grad_()
                   for name, value in parameters.items()}
        loss = nn.functional.cross_entropy(self._outputs(tensors, features),
                                           torch.from_numpy(labels))
        slopes = torch.autograd.grad(loss, list(tensors.values()))
        return float(loss.detach()), {
            name: slope.numpy() for name, slope in zip(tensors, slopes, strict=True)}

    @torch.no_grad()
    def score(self, parameters: Parameters, features: np.ndarray, labels: np.ndarray) -> Score:
        """Judge the model by some rows."""
        tensors = {name: torch.from_numpy(value) for name, value in parameters.items()}
        outputs = torch.cat([self._outputs(tensors, features[start:start + ROWS])
                             for start in range(0, len(features), ROWS)])
        targets = torch.from_numpy(labels)
        return Score(float(nn.functional.cross_entropy(outputs, targets)),
                     float((outputs.argmax(dim=1) == targets).double().mean()))

    def _outputs(self, tensors, features):
        images = torch.from_numpy(features).reshape(-1, 1, self.side, self.side)
        return torch.func.functional_call(self._module, tensors, (images,))

    def _make(self, seed):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return NETWORKS[self.name](self.side, self.n_classes)


def _lenet(side, n_classes):
    return nn.Sequential(
        nn.Conv2d(1, 32, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(64 * (side // 4)**2, 512), nn.ReLU(), nn.Linear(512, n_classes))


class _Block(nn.Module):
    """A basic block: two convolutions, and their input added."""

    def __init__(self, n_in, n_out, stride):
        super().__init__()
        self.first = nn.Conv2d(n_in, n_out, 3, stride, padding=1, bias=False)
        self.first_norm = nn.GroupNorm(8, n_out)
        self.second = nn.Conv2d(n_out, n_out, 3, padding=1, bias=False)
        self.second_norm = nn.GroupNorm(8, n_out)
        self.shortcut = nn.Identity() if n_in == n_out and stride == 1 else \
            nn.Conv2d(n_in, n_out, 1, stride, bias=False)

    def forward(self, images):
        """Images of ``n_out`` channels."""
        inside = torch.relu(self.first_norm(self.first(images)))
        return torch.relu(self.second_norm(self.second(inside)) + self.shortcut(images))


def _resnet(side, n_classes):
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1, bias=False), nn.GroupNorm(8, 16), nn.ReLU(),
        _Block(16, 16, 1), _Block(16, 32, 2), _Block(32, 64, 2), nn.AdaptiveAvgPool2d(1),
        nn.Flatten(), nn.Linear(64, n_classes))


NETWORKS = {"lenet": _lenet, "resnet": _resnet}
