"""Shapes of the networks that the papers train."""

from math import prod

Shapes = tuple[tuple[int, ...], ...]


def layer(*shape: int) -> Shapes:
    """Weights of a layer and its biases; the last size is the outputs."""
    return shape, shape[-1:]


FC_300_100: Shapes = (*layer(784, 300), *layer(300, 100), *layer(100, 10))
LENET: Shapes = (*layer(5, 5, 1, 32), *layer(5, 5, 32, 64), *layer(3136, 512), *layer(512, 10))
# for images of 32 x 32 cropped to 24 x 24
CIFARNET: Shapes = (*layer(5, 5, 3, 64), *layer(5, 5, 64, 64), *layer(2304, 384), *layer(384, 192),
                    *layer(192, 10))


def count(shapes: Shapes) -> int:
    """Parameters of a network."""
    return sum(map(prod, shapes))


def one_bit_centres(shapes: Shapes) -> int:
    """Scales of 1-bit SGD: two for each row of a weight (its first size), two for a bias vector."""
    return sum(2 * (shape[0] if len(shape) > 1 else 1) for shape in shapes)


def resnet(blocks: tuple[int, ...], classes: int) -> int:
    """Parameters of a residual network for images of 32 x 32, in basic blocks of two layers.

    Parameters
    ----------
    blocks : tuple of int
        Blocks of 64, 128, 256 .. channels: (2, 2, 2, 2) for ResNet18, (3, 4, 6, 3) for ResNet34.
    classes : int
    """
    def normed(size, inputs, outputs):
        return size * size * inputs * outputs + 2 * outputs

    total, inputs = normed(3, 3, 64), 64
    for stage, n_blocks in enumerate(blocks):
        outputs = 64 << stage
        for _ in range(n_blocks):
            total += normed(3, inputs, outputs) + normed(3, outputs, outputs)
            total += normed(1, inputs, outputs) if inputs != outputs else 0
            inputs = outputs
    return total + inputs * classes + classes
