"""Models by name, with the data that they are trained on."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bitstep_gradients.lab.perceptrons import Model, Perceptron
from bitstep_lab.samples import Samples, load_samples

HIDDEN = (300, 100)         # of FC-300-100, in the DQSG paper


class TaskError(ValueError):
    """A model and data that do not go together, or a package that the model needs."""


@dataclass(frozen=True)
class Kind:
    """A kind of model.

    Parameters
    ----------
    title : str
    data : str
        Data set by default.
    make : callable
        Makes the model for some samples.
    side : int
        Pixels on each side to which images are resized; 0: as they are.
    regression, images : bool
        What data it takes.
    """

    title: str
    data: str
    make: Callable[[Samples], Model]
    side: int = 0
    regression: bool = False
    images: bool = False


def _perceptron(name, *hidden):
    return lambda samples: Perceptron(name, (samples.n_features, *hidden, samples.n_classes or 1),
                                      classifies=bool(samples.n_classes))


def _network(name):
    def make(samples):
        try:
            from bitstep_gradients.lab.networks import Network
        except ImportError as error:
            raise TaskError(f"{name} needs torch ({error}): "
                            'pip install "bitstep[torch]"') from error
        return Network(name, samples.side, samples.n_classes)
    return make


KINDS = {
    "linreg": Kind("linear regression", "synthetic-64", _perceptron("linreg"), regression=True),
    "logreg": Kind("logistic regression", "digits", _perceptron("logreg")),
    "fc": Kind("FC-300-100", "digits", _perceptron("fc", *HIDDEN), side=28),
    "lenet": Kind("LeNet", "digits", _network("lenet"), side=28, images=True),
    "resnet": Kind("residual network", "digits", _network("resnet"), images=True)}


def make_task(name: str, source: str | None = None, *, rows: int | None = None,
              data_home: str | Path | None = None) -> tuple[Model, Samples]:
    """Make a model, and load the data that it is trained on.

    Parameters
    ----------
    name : str
        A key of :data:`KINDS`.
    source : str, optional
        Data set; default: the model's.
    rows, data_home
        See :func:`bitstep_lab.samples.load_samples`.

    Returns
    -------
    model : Model
    samples : Samples

    Raises
    ------
    TaskError
        If the data do not suit the model, or torch is missing.
    bitstep.data.dataset.DataError
        See :func:`bitstep_lab.samples.load_samples`.
    """
    kind = KINDS[name]
    source = source or kind.data
    samples = load_samples(source, side=kind.side, rows=rows, data_home=data_home)
    task = "classification" if samples.n_classes else "regression"
    if kind.regression == bool(samples.n_classes):
        raise TaskError(f"{name} is for a {'regression' if kind.regression else 'classification'},"
                        f" and {source} is a {task}; choose other data or another model")
    if kind.images and not samples.side:
        raise TaskError(f"{name} needs images, and {source} has none; take digits or mnist")
    return kind.make(samples), samples
