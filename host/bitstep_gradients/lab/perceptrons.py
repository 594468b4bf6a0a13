"""Models whose gradients are computed in NumPy: linear and logistic regression, FC-300-100."""

from typing import NamedTuple, Protocol

import numpy as np

Parameters = dict[str, np.ndarray]


class Score(NamedTuple):
    """Mean loss of some rows, and the share that a classifier finds right (None: a regression)."""

    loss: float
    accuracy: float | None


class Model(Protocol):
    """Model of a race: a function of its parameters, which are named float32 arrays."""

    name: str

    def first_parameters(self, seed: int) -> Parameters:
        """Parameters before the first step."""
        ...

    def gradient(self, parameters: Parameters, features: np.ndarray,
                 labels: np.ndarray) -> tuple[float, Parameters]:
        """Mean loss of a batch, and its gradient: float32, named and shaped as the parameters."""
        ...

    def score(self, parameters: Parameters, features: np.ndarray, labels: np.ndarray) -> Score:
        """Judge the model by some rows."""
        ...


class Perceptron:
    """Fully connected layers with ReLU between them.

    Weights have the shape (inputs, outputs). Without hidden layers this is linear regression
    (half the squared error) or multinomial logistic regression (cross-entropy), from zeros; hidden
    layers begin with He's normal distribution.

    Parameters
    ----------
    name : str
    sizes : tuple of int
        Inputs, hidden units, outputs.
    classifies : bool
        Cross-entropy of classes; else half the squared error of one output.
    """

    def __init__(self, name: str, sizes: tuple[int, ...], *, classifies: bool):
        self.name, self.sizes, self.classifies = name, sizes, classifies

    def first_parameters(self, seed: int) -> Parameters:
        """Parameters before the first step."""
        rng = np.random.Generator(np.random.PCG64(seed))
        found, n_layers = {}, len(self.sizes) - 1
        for layer, (n_in, n_out) in enumerate(zip(self.sizes, self.sizes[1:], strict=False), 1):
            scale = np.sqrt(2 / n_in) if n_layers > 1 else 0.0
            weights = scale * rng.standard_normal((n_in, n_out))
            found[f"fc{layer}.weight"] = weights.astype(np.float32)
            found[f"fc{layer}.bias"] = np.zeros(n_out, np.float32)
        return found

    def gradient(self, parameters: Parameters, features: np.ndarray,
                 labels: np.ndarray) -> tuple[float, Parameters]:
        """Mean loss of a batch, and its gradient."""
        inputs = self._forward(parameters, features)
        loss, slope = self._loss(inputs.pop(), labels)
        found = {}
        for layer in range(len(self.sizes) - 1, 0, -1):
            found[f"fc{layer}.weight"] = inputs[layer - 1].T @ slope
            found[f"fc{layer}.bias"] = slope.sum(axis=0)
            if layer > 1:
                slope = (slope @ parameters[f"fc{layer}.weight"].T) * (inputs[layer - 1] > 0)
        return loss, {name: found[name] for name in parameters}

    def score(self, parameters: Parameters, features: np.ndarray, labels: np.ndarray) -> Score:
        """Judge the model by some rows."""
        outputs = self._forward(parameters, features)[-1]
        loss, _ = self._loss(outputs, labels)
        if not self.classifies:
            return Score(loss, None)
        return Score(loss, float(np.mean(outputs.argmax(axis=1) == labels)))

    def _forward(self, parameters, features):
        """Inputs of every layer, and the outputs of the last."""
        found = [features]
        for layer in range(1, len(self.sizes)):
            outputs = found[-1] @ parameters[f"fc{layer}.weight"] + parameters[f"fc{layer}.bias"]
            found.append(outputs if layer == len(self.sizes) - 1 else np.maximum(outputs, 0))
        return found

    def _loss(self, outputs, labels):
        """Mean loss, and its derivative by the outputs."""
        count = len(labels)
        if not self.classifies:
            errors = outputs[:, 0] - labels
            return float(np.mean(errors.astype(np.float64)**2) / 2), errors[:, None] / count
        outputs = outputs - outputs.max(axis=1, keepdims=True)
        sums = np.exp(outputs).sum(axis=1)
        rows = np.arange(count)
        loss = float(np.mean(np.log(sums) - outputs[rows, labels]))
        slope = np.exp(outputs) / sums[:, None]
        slope[rows, labels] -= 1
        return loss, slope / np.float32(count)
