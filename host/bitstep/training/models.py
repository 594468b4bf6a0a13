"""The models that can be trained by name: what each minimises, and rows that suit it."""

from dataclasses import dataclass

from bitstep.pipeline.registers import Loss


@dataclass(frozen=True, kw_only=True)
class Model:
    """A kind of model.

    Attributes
    ----------
    task : {"regression", "classification"}
        What its labels are.
    loss : Loss
        What it minimises; of a classification with targets +1 and -1, one class against the rest.
    bits, encoding : int, str
        Rows that suit it if nothing else is asked for (:func:`bitstep.quantization.quantize`).
    refetch : bool
        Whether rows are fetched again at full precision if nothing else is asked for.
    sklearn_loss : str
        Name of the loss in scikit-learn's SGD estimators, whose ``squared_hinge`` is twice ours: it
        lacks the factor 1/2.
    text : str
        What it is, for messages.
    """

    task: str
    loss: Loss
    bits: int
    encoding: str
    refetch: bool = False
    sklearn_loss: str
    text: str


# Least squares: rounding is unbiased with the diagonal correction, so 4 bits are enough. The other
# losses have no such correction; the hinge is decided at full precision where 8 bits leave it open,
# and 8 bits with stochastic rounding are the straw man that ZipML (section 4) finds as good as its
# polynomials.
MODELS = {
    "linreg": Model(task="regression", loss=Loss.LEAST_SQUARES, bits=4, encoding="compensated",
                    sklearn_loss="squared_error", text="linear regression"),
    "ls-svm": Model(task="classification", loss=Loss.LEAST_SQUARES, bits=4,
                    encoding="compensated", sklearn_loss="squared_error",
                    text="least-squares SVM"),
    "l2-svm": Model(task="classification", loss=Loss.SQUARED_HINGE, bits=8, encoding="stochastic",
                    sklearn_loss="squared_hinge", text="SVM with squared hinge loss"),
    "svm": Model(task="classification", loss=Loss.HINGE, bits=8, encoding="nearest", refetch=True,
                 sklearn_loss="hinge", text="SVM with hinge loss"),
    "logistic": Model(task="classification", loss=Loss.LOGISTIC, bits=8, encoding="stochastic",
                      sklearn_loss="log_loss", text="logistic regression"),
}
