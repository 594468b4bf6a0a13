"""The models that can be trained by name: their losses, and rows that suit them."""

from dataclasses import dataclass

from bitstep.pipeline.losses import LOSSES
from bitstep.pipeline.registers import Loss


@dataclass(frozen=True, kw_only=True)
class Model:
    """A model that can be trained by name.

    Attributes
    ----------
    task : {"regression", "classification"}
        Kind of its labels.
    loss : Loss
        Loss that it minimises; of a classification, with targets +1 and -1, one class against the
        rest.
    bits, encoding : int, str
        Rows that suit it if nothing else is asked for (:func:`bitstep.quantization.quantize`).
    text : str
        Its name in the middle of a sentence.
    """

    task: str
    loss: Loss
    bits: int
    encoding: str
    text: str

    @property
    def name(self) -> str:
        """Its key in :data:`MODELS`."""
        return next(name for name, model in MODELS.items() if model is self)

    @property
    def sklearn_loss(self) -> str:
        """Name of the loss in scikit-learn's SGD estimators."""
        return LOSSES[self.loss].name


# Least squares: rounding is unbiased with the diagonal correction, so 4 bits are enough. The other
# losses have no such correction; the hinge is decided by the fine row where 8 bits leave it open,
# and 8 bits with stochastic rounding are the straw man that ZipML (section 4) finds as good as its
# polynomials.
MODELS = {
    "linreg": Model(task="regression", loss=Loss.LEAST_SQUARES, bits=4, encoding="compensated",
                    text="linear regression"),
    "huber": Model(task="regression", loss=Loss.HUBER, bits=8, encoding="stochastic",
                   text="robust linear regression"),
    "ls-svm": Model(task="classification", loss=Loss.LEAST_SQUARES, bits=4,
                    encoding="compensated", text="least-squares SVM"),
    "l2-svm": Model(task="classification", loss=Loss.SQUARED_HINGE, bits=8, encoding="stochastic",
                    text="SVM with squared hinge loss"),
    "svm": Model(task="classification", loss=Loss.HINGE, bits=8, encoding="nearest",
                 text="SVM with hinge loss"),
    "logistic": Model(task="classification", loss=Loss.LOGISTIC, bits=8, encoding="stochastic",
                      text="logistic regression"),
}


def model_of(loss: Loss) -> str:
    """Name of the first model that minimises a loss."""
    return next(name for name, model in MODELS.items() if model.loss == loss)
