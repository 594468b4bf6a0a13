"""Errors of 3-bit codecs on the gradients of a network, as the ALQ paper compares them (Fig. 5).

The paper's uniform levels have no zero, and its buckets run on from tensor to tensor (appendix K);
the last one, if it is shorter, is sent as float32. Here each codec has its error in that form, and
with buckets that end with their tensor, on the same gradients: those of an uncompressed training.
"""

from collections.abc import Sequence

import numpy as np

from bitstep_gradients import Codec, make_codec
from bitstep_gradients.lab.tasks import make_task
from bitstep_gradients.lab.training import Batches, descend, gradients_of
from bitstep_gradients.vectors import sum_of_squares
from bitstep_lab.markdown import markdown_table

WORKERS, BATCH, SEED, BUCKET = 4, 32, 0, 8192
EVERY = 10                              # steps from one measurement, and update, to the next
SCHEDULES = {"fc": (0.0625, 40), "resnet": (0.25, 200)}     # step size, steps
# An `alq-linf` that is never updated has uniform levels, 0 none of them, and the largest value as
# the norm: the paper's QSGDinf.
UNIFORM, ZERO = "uniform, without zero", "uniform, with zero (`qsgd-linf`)"
CODECS = {UNIFORM: "alq-linf", ZERO: "qsgd-linf", "`alq`": "alq", "`alq-n`": "alq-n",
          "`amq`": "amq", "`alq-linf`": "alq-linf", "`terngrad`": "terngrad"}


def errors(name: str) -> tuple[dict[str, dict[str, float]], float]:
    """Mean errors along an uncompressed training, and the share of zeros in its gradients.

    Parameters
    ----------
    name : str
        A key of :data:`SCHEDULES`.

    Returns
    -------
    errors : dict of dict of float
        By codec, for ``tensors`` and ``network``: expected squared error by squared norm.
    zeros : float
    """
    step_size, n_steps = SCHEDULES[name]
    model, samples = make_task(name)
    parameters = model.first_parameters(SEED)
    batches = Batches(samples, WORKERS, BATCH, SEED)
    codecs = {form: {title: _Fitted(codec) for title, codec in CODECS.items()}
              for form in ("tensors", "network")}
    found = {title: {form: [] for form in codecs} for title in CODECS}
    zeros = []
    for step in range(n_steps):
        _, gradients = gradients_of(model, parameters, batches.draw())
        if step % EVERY == 0:
            split = {"tensors": [[value.reshape(-1) for value in one.values()]
                                 for one in gradients]}
            split["network"] = [[np.concatenate(one)] for one in split["tensors"]]
            zeros.append(np.mean([(one[0] == 0).mean() for one in split["network"]]))
            split["network"] = [_full_buckets(one[0]) for one in split["network"]]
            total = sum(sum_of_squares(one) for row in split["tensors"] for one in row)
            for form, rows in split.items():
                for title, codec in codecs[form].items():
                    lost = codec.lost(rows, is_updated=title != UNIFORM)
                    found[title][form].append(lost / total)
        descend(parameters, step_size, {
            tensor: np.mean([one[tensor] for one in gradients], axis=0) for tensor in parameters})
    return {title: {form: float(np.mean(one)) for form, one in forms.items()}
            for title, forms in found.items()}, float(np.mean(zeros))


def _full_buckets(values: np.ndarray) -> list[np.ndarray]:
    """The full buckets as one vector; the rest is sent as it is."""
    whole = values.size // BUCKET * BUCKET
    return [values[:whole]]


class _Fitted:
    """A codec of 3 bits for each tensor."""

    def __init__(self, name: str):
        self._name = name
        self._codecs: list[Codec] = []

    def lost(self, rows: Sequence[Sequence[np.ndarray]], *, is_updated: bool) -> float:
        """Expected squared error of all ranks' tensors, after an update by them."""
        if not self._codecs:
            options = {} if self._name == "terngrad" else {"bits": 3}
            self._codecs = [make_codec(self._name, bucket_size=BUCKET, **options)
                            for _ in rows[0]]
        found = 0.0
        for place, codec in enumerate(self._codecs):
            vectors = [row[place] for row in rows]
            if codec.adapts and is_updated:
                codec.update([codec.statistics(one) for one in vectors])
            found += sum(codec.expected_error(one) or 0.0 for one in vectors)
        return found


def table(names: Sequence[str]) -> str:
    """Errors of all codecs by network, in Markdown.

    Parameters
    ----------
    names : sequence of str
        Keys of :data:`SCHEDULES`.
    """
    both = {name: errors(name) for name in names}
    head = ["3 bits, buckets of 8,192"] + [
        f"{name} ({100 * zeros:.0f} % zeros), {form}" for name, (_, zeros) in both.items()
        for form in ("by tensor", "network-wise")]
    return markdown_table(head, [[title] + [
        f"{found[title][form]:.3g}" for found, _ in both.values()
        for form in ("tensors", "network")] for title in CODECS])
