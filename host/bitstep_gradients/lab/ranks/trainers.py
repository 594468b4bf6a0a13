"""Choice of what trains the models of a race."""

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

from bitstep_gradients.exchange import AllGather
from bitstep_gradients.lab.perceptrons import Model
from bitstep_gradients.lab.ranks.processes import RankProcesses
from bitstep_gradients.lab.ranks.threads import train_threads
from bitstep_gradients.lab.training import Setting
from bitstep_lab.samples import Samples


@contextlib.contextmanager
def open_trainer(model: Model, samples: Samples, setting: Setting, limit_s: float
                 ) -> Iterator[Callable[..., dict[str, Any]] | None]:
    """A function to call in place of :func:`bitstep_gradients.lab.training.train`, as a context
    manager, which ends the processes of the workers.

    Parameters
    ----------
    model, samples
        Of all trainings.
    setting : Setting
        Its workers, exchange and transport.
    limit_s : float
        Seconds that a rank waits for another.

    Yields
    ------
    trainer : callable or None
        None: ``train`` itself does it.
    """
    if setting.transport == "gloo":
        with RankProcesses(model, samples, setting.n_workers, limit_s=limit_s) as processes:
            yield processes.train
    else:
        yield None if setting.exchange == AllGather.name else functools.partial(
            train_threads, limit_s=limit_s)
