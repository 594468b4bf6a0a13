"""One rank's part of a training, over any transport."""

from collections.abc import Callable
from typing import Any

import numpy as np

from bitstep_gradients.errors import DivergenceError, ExchangeError
from bitstep_gradients.exchange import EXCHANGES, Aggregator, Transport
from bitstep_gradients.lab.contestants import Contestant
from bitstep_gradients.lab.perceptrons import Model, Parameters
from bitstep_gradients.lab.ranks.watching import WatchedExchange
from bitstep_gradients.lab.training import Batches, Record, Setting, descend
from bitstep_gradients.lab.workers import Exchange, relative_error
from bitstep_lab.samples import Samples

GO, STOP = b"\1", b"\0"


def train_rank(transport: Transport, model: Model, samples: Samples, contestant: Contestant,
               setting: Setting, *, seed: int, progress: Callable[[int], None] = lambda step: None
               ) -> dict[str, Any] | None:
    """Train a model as one of several ranks, all of which call this alike.

    Parameters
    ----------
    transport : Transport
        To the other ranks; their number is that of the workers.
    model, samples, contestant, setting, seed
        See :func:`bitstep_gradients.lab.training.train`.
    progress : callable
        Called on every rank with the number of finished steps.

    Returns
    -------
    result : dict or None
        The same as ``train`` gives, and the counters of the exchange; None but for rank 0.

    Raises
    ------
    ValueError, bitstep_gradients.ExchangeError
        See :meth:`bitstep_gradients.exchange.Aggregator.average`.
    """
    parameters = model.first_parameters(seed)
    watch = WatchedExchange(EXCHANGES[setting.exchange]())
    aggregator = Aggregator(
        contestant.make(setting.n_steps), exchange=watch, min_size=setting.min_size, seed=seed,
        error_feedback=False if contestant.feedback is None else contestant.feedback,
        on_bad="skip", update_at=lambda step: step % setting.update_every == 0)
    batches = Batches(samples, setting.n_workers, setting.batch, seed)
    record = Record(model, samples, setting, parameters) if transport.rank == 0 else None
    while _goes_on(transport, record):
        with np.errstate(over="ignore", invalid="ignore"):
            loss, gradient = model.gradient(parameters, *batches.draw()[transport.rank])
        aggregator.loss = loss
        average = None
        try:
            average = aggregator.average(transport, gradient)
        except (DivergenceError, ExchangeError) as error:       # on all ranks alike
            if isinstance(error, ExchangeError) and error.cause != DivergenceError.__name__:
                raise
        if average is None:
            if record is not None:
                record.diverged()
            continue
        descend(parameters, setting.step, average)
        done = _gathered(transport, aggregator, watch, average)
        if record is not None:
            record.write(parameters, done, aggregator.codecs)
        progress(aggregator.step)
    return None if record is None else record.result(contestant, seed)


def _goes_on(transport: Transport, record: Record | None) -> bool:
    """Return True if there is a next step, as rank 0 says."""
    word = STOP if record is None or not record.goes_on() else GO
    return transport.all_gather(word)[0] == GO


def _gathered(transport: Transport, aggregator: Aggregator, watch: WatchedExchange,
              average: Parameters) -> Exchange:
    """The result of a step, by the facts of all ranks, which do not count as traffic."""
    count = aggregator.traffic.step_total()
    own = np.array([count.made, count.sent, count.received, watch.encode_s, watch.decode_s,
                    *watch.lost, *watch.total], np.float64)
    facts = np.array([np.frombuffer(one) for one in transport.all_gather(own.tobytes())])
    made, sent, received, encode_s, decode_s = facts[:, :5].mean(axis=0).tolist()
    lost, total = np.split(facts[:, 5:].T, 2)
    return Exchange(average, made, relative_error(lost.tolist(), total.tolist()), encode_s,
                    decode_s, (sent, received))
