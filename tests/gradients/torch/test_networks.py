"""Networks whose gradients torch computes."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs torch; `make test-torch` runs it")

from bitstep_gradients.lab import networks  # noqa: E402
from bitstep_gradients.lab.networks import Network  # noqa: E402


def rows_of(network, count, seed=0):
    """Random images, and a class for each."""
    rng = np.random.default_rng(seed)
    return (rng.random((count, network.side**2), np.float32),
            rng.integers(network.n_classes, size=count))


@pytest.mark.parametrize("name, side, n_values", [("lenet", 28, 1_663_370), ("resnet", 8, 77_562)])
def test_gradient_is_the_slope_of_the_loss(name, side, n_values):
    model = Network(name, side, 10)
    parameters = model.first_parameters(1)
    assert sum(value.size for value in parameters.values()) == n_values
    features, labels = rows_of(model, 8)
    loss, gradient = model.gradient(parameters, features, labels)
    assert loss == pytest.approx(model.score(parameters, features, labels).loss, rel=1e-5)
    stepped = {key: value - np.float32(1e-3) * gradient[key] for key, value in parameters.items()}
    square = sum(float(np.sum(value.astype(np.float64)**2)) for value in gradient.values())
    fallen = loss - model.score(stepped, features, labels).loss
    assert fallen == pytest.approx(1e-3 * square, rel=0.2)


def test_first_parameters_are_those_of_their_seed():
    """And no other random words of torch change by them."""
    model, before = Network("resnet", 8, 4), torch.get_rng_state()
    first, same, other = (model.first_parameters(seed) for seed in (1, 1, 2))
    assert (torch.get_rng_state() == before).all()
    for name, value in first.items():
        np.testing.assert_array_equal(value, same[name])
    assert (first["0.weight"] != other["0.weight"]).any()


def test_every_row_is_judged():
    """Of more rows than are judged at a time; the network says class 1, whatever it sees."""
    model = Network("resnet", 4, 3)
    parameters = {name: np.zeros_like(value) for name, value in model.first_parameters(0).items()}
    parameters["8.bias"] = np.log(np.array([0.25, 0.5, 0.25], np.float32))
    labels = np.repeat([1, 0, 2], [networks.ROWS, 80, 20])
    score = model.score(parameters, rows_of(model, len(labels))[0], labels)
    assert score.accuracy == networks.ROWS / len(labels)
    assert score.loss == pytest.approx(
        (networks.ROWS * np.log(2) + 100 * np.log(4)) / len(labels), rel=1e-5)


def test_a_block_adds_its_input_before_the_last_relu():
    block = networks._Block(8, 8, 1)
    torch.nn.init.zeros_(block.second_norm.weight)      # the convolutions give nothing
    images = torch.randn(2, 8, 4, 4)
    assert torch.equal(block(images), images.clamp(min=0))


def test_a_maximum_halves_the_images_of_lenet():
    first = networks.NETWORKS["lenet"](4, 10)[:3]
    with torch.no_grad():
        first[0].weight.zero_()
        first[0].bias.zero_()
        first[0].weight[:, 0, 2, 2] = 1                 # the pixel itself
        found = first(torch.arange(-3.0, 13).reshape(1, 1, 4, 4))
    assert found.shape == (1, 32, 2, 2)
    assert found[0, 7].tolist() == [[2, 4], [10, 12]]
