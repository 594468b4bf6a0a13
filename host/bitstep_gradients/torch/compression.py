"""Communication hook of DistributedDataParallel, and its state."""

from collections.abc import Mapping
from typing import Any

import torch  # type: ignore
from torch.nn.parallel import DistributedDataParallel  # type: ignore

from bitstep_gradients.codecs.base import Codec
from bitstep_gradients.exchange.aggregator import Aggregator
from bitstep_gradients.torch.arrays import (
    arrays_of,
    check_tensor,
    in_range,
    tensors_of,
    to_vector,
)
from bitstep_gradients.torch.transport import TorchTransport


class Compression(Aggregator):
    """State of :func:`hook`: how the gradients of one model are exchanged, and what is kept.

    What is kept belongs to parameters, not to the buckets of DistributedDataParallel, which it
    makes anew after the first step. The exchange of a step begins when its last bucket is ready.

    Parameters
    ----------
    codec : str or Codec
        A name of ``bitstep_gradients.list_codecs()``, with its options as keywords, or a codec.
    overrides : mapping of (str or Parameter) to (str or Codec), optional
        Codecs of some parameters: by the parameter itself, or by a pattern of names
        (``"fc1.*"``), which needs :meth:`register`.
    process_group : torch.distributed.ProcessGroup, optional
        Group of the ranks; None: :meth:`register` takes the model's. ``register_comm_hook`` does
        not tell it: None is the default group there, whatever the model's is.
    **settings
        ``exchange``, ``error_feedback``, ``warmup_steps``, ``min_size``, ``on_bad``, ``update_at``
        and ``seed`` of :class:`bitstep_gradients.exchange.Aggregator`, and options of the codec.

    Raises
    ------
    ValueError, TypeError
        For a parameter that cannot be.

    Notes
    -----
    With ``on_bad="skip"`` a step that has NaN or infinity on any rank gives gradients of NaN on all
    ranks. ``torch.amp.GradScaler`` skips such a step; without one, leave out ``optimizer.step()``
    where ``skipped`` is true.
    """

    def __init__(self, codec: "str | Codec", *,
                 overrides: "Mapping[Any, str | Codec] | None" = None, process_group=None,
                 **settings: Any):
        patterns: Any = overrides       # of another type: refused
        if isinstance(overrides, Mapping):
            patterns = {key: one for key, one in overrides.items() if isinstance(key, str)}
        super().__init__(codec, overrides=patterns, **settings)
        self.process_group = process_group
        self._has_patterns = bool(patterns)
        self._own = [(key, self._choice.prepared(one)) for key, one in (overrides or {}).items()
                     if not isinstance(key, str)]
        if not all(isinstance(key, torch.Tensor) for key, _ in self._own):
            raise TypeError("keys of overrides must be patterns of names, or parameters")
        self._parameters: dict[str, Any] = {}       # in the order of their numbers
        self._names: dict[int, str] = {}            # by the identity of a parameter
        self._is_registered = False
        self._buckets: list[tuple[Any, Any]] = []   # with their futures, until the last one
        self._refused: TypeError | None = None      # of one of these buckets

    def register(self, model) -> None:
        """Make this the communication hook of a model, with the names of its parameters and its
        process group (unless ``process_group`` was given).

        Parameters
        ----------
        model : torch.nn.parallel.DistributedDataParallel

        Raises
        ------
        TypeError
            For another model.
        ValueError
            If this has a model already.
        """
        if not isinstance(model, DistributedDataParallel):
            raise TypeError("model must be a torch.nn.parallel.DistributedDataParallel, not "
                            f"{type(model).__name__}")
        if self._parameters:
            raise ValueError("this Compression has a model already; make one for each model")
        model.register_comm_hook(self, hook)
        self._parameters = dict(model.module.named_parameters())
        self._names = {id(one): name for name, one in self._parameters.items()}
        self._is_registered = True
        if self.process_group is None:
            self.process_group = model.process_group

    def take(self, bucket):
        """Take a bucket of gradients; exchange all of the step when it is the last.

        Parameters
        ----------
        bucket : torch.distributed.GradBucket

        Returns
        -------
        future : torch.futures.Future
            Of the bucket's averages.

        Raises
        ------
        ValueError, TypeError, bitstep_gradients.ExchangeError
            At the end of the backward pass, and on all ranks: for sparse or complex gradients; see
            :meth:`bitstep_gradients.exchange.Aggregator.average`.
        """
        if bucket.index() == 0:         # what is left is of a step that an error ended
            self._buckets, self._refused = [], None
        buffer = bucket.buffer()
        try:
            for tensor in (buffer, *bucket.parameters()):   # buffers hold complex numbers as pairs
                check_tensor(tensor)
        except TypeError as error:      # the other ranks hear of it in the exchange
            self._refused = self._refused or error
        on_gpu = buffer.device.type != "cpu"
        future = torch.futures.Future(devices=[buffer.device] if on_gpu else None)
        self._buckets.append((bucket, future))
        if bucket.is_last():
            buckets, self._buckets = self._buckets, []
            self._exchange_buckets(buckets)
        return future

    def _exchange_buckets(self, buckets) -> None:
        """Average the gradients of all buckets of a step, and set their futures. After an error the
        gradients are NaN, and the backward pass raises it at its end.
        """
        averages = None
        try:
            averages = self._averages(buckets)
        except Exception as error:
            _raise_after_backward(error)
        with torch.no_grad():
            if averages is not None:
                for name, gradient in self._named(buckets):
                    gradient.copy_(in_range(averages[name], gradient.dtype))
            for bucket, future in buckets:
                buffer = bucket.buffer()
                if averages is None:
                    (buffer._values() if buffer.is_sparse else buffer).fill_(float("nan"))
                future.set_result(buffer)

    def _named(self, buckets):
        """Names of the buckets' parameters, and their gradients."""
        return [(self._name(parameter), gradient) for bucket, _ in buckets
                for parameter, gradient in zip(bucket.parameters(), bucket.gradients(),
                                               strict=True)]

    def _averages(self, buckets):
        """Averages of gradients by name, as tensors; None if the step is skipped."""
        transport = TorchTransport(self.process_group, buckets[0][0].buffer().device)
        try:
            vectors, codecs = self._vectors(buckets), self._own_codecs()
        except Exception:
            self.tell_failure(transport)
            raise
        averages = self.average(transport, vectors, codecs=codecs)
        return None if averages is None else {name: torch.from_numpy(one)
                                              for name, one in averages.items()}

    def _vectors(self, buckets):
        """Gradients by name, in the order of the model's parameters. Raise what a bucket met."""
        if self._refused is not None:
            raise self._refused
        gradients = dict(self._named(buckets))
        return {name: to_vector(gradients[name]) for name in self._parameters if name in gradients}

    def _name(self, parameter) -> str:
        """Name of a parameter: the model's, or its place in the first step."""
        if id(parameter) not in self._names:
            if self._is_registered:
                raise ValueError("the hook got a parameter that the registered model does not have;"
                                 " make one Compression for each model")
            name = str(len(self._parameters))
            self._parameters[name], self._names[id(parameter)] = parameter, name
        return self._names[id(parameter)]

    def _own_codecs(self) -> dict[str, Codec]:
        """Codecs of the parameters that ``overrides`` has, by name."""
        if self._has_patterns and not self._is_registered:
            raise ValueError("overrides has names of parameters, which a hook is not told; call "
                             "register(ddp_model) in place of ddp_model.register_comm_hook")
        strange = [key for key, _ in self._own if id(key) not in self._names]
        if strange:
            raise ValueError(f"overrides has a parameter of shape {tuple(strange[0].shape)} that "
                             "the model does not have; take parameters of the model on its device")
        return {self._names[id(key)]: codec for key, codec in self._own}

    # State

    def state_dict(self) -> dict[str, Any]:
        """Copy of all that the next steps depend on, arrays as tensors; each rank has its own.

        See :meth:`bitstep_gradients.exchange.Aggregator.state_dict`.
        """
        return tensors_of(super().state_dict())

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a state of :meth:`state_dict`.

        See :meth:`bitstep_gradients.exchange.Aggregator.load_state_dict`.
        """
        super().load_state_dict(arrays_of(state))


def _raise_after_backward(error: Exception) -> None:
    """Raise an error when DistributedDataParallel has finished the backward pass: one that leaves
    the hook itself makes every later pass fail with an assertion of torch.
    """
    queue = torch.autograd.Variable._execution_engine.queue_callback

    def raise_it():
        raise error

    try:
        # DistributedDataParallel queues its own callback after this one: the inner one is last.
        queue(lambda: queue(raise_it))
    except RuntimeError:        # no backward pass: a rank without rows left, within model.join()
        raise error from None


def hook(state: Compression, bucket):
    """Communication hook: ``ddp_model.register_comm_hook(state, hook)``.

    It is told neither names nor process group; :meth:`Compression.register` takes both.

    Parameters
    ----------
    state : Compression
        With ``process_group`` for a model that has one.
    bucket : torch.distributed.GradBucket

    Returns
    -------
    future : torch.futures.Future
        Of the averages, divided by the number of ranks.

    Raises
    ------
    ValueError, TypeError, bitstep_gradients.ExchangeError
        See :meth:`Compression.take`.
    """
    return state.take(bucket)
