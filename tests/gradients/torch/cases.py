"""Cases of the hook that all run in the same two processes, one after the other."""

import io
from typing import Any

import numpy as np
import torch  # type: ignore
import torch.distributed as dist  # type: ignore
from tests.gradients.torch.models import batch
from torch.nn.parallel import DistributedDataParallel  # type: ignore

import bitstep_gradients.torch
from bitstep_gradients import ErrorFeedback, make_codec
from bitstep_gradients.exchange import Count
from bitstep_gradients.exchange.transport import gathered_sizes
from bitstep_gradients.torch import Compression, TorchTransport


def run_cases(rank):
    """Result of every case, by name; (type, text) for an error."""
    found = {}
    for name, case in CASES.items():
        try:
            found[name] = case(rank)
        except Exception as error:
            found[name] = (type(error).__name__, str(error))
    return found


def layers():
    torch.manual_seed(3)
    return torch.nn.Sequential(torch.nn.Linear(40, 50), torch.nn.Tanh(), torch.nn.Linear(50, 7))


def network(dtype=torch.float32, **options):
    return DistributedDataParallel(layers().to(dtype), bucket_cap_mb=0.001, **options)


def backward(model, rank, step=0, dtype=torch.float32):
    """Gradients after one backward pass, as float64 arrays."""
    model.zero_grad()
    model(batch(rank, step, columns=40).to(dtype)).square().mean().backward()
    return gradients(model)


def gradients(model):
    return [one.grad.double().numpy().copy() for one in model.parameters() if one.grad is not None]


def hooked(model, *arguments, **settings):
    compression = Compression(*arguments, **settings)
    compression.register(model)
    return model, compression


def uncompressed(rank):
    """Codec none against DistributedDataParallel's own all-reduce, for three steps."""
    expected = [backward(network(), rank, step) for step in range(3)]
    found = []
    for exchange in ("all_gather", "two-phase"):
        model, _ = hooked(network(), "none", exchange=exchange)
        found.append([backward(model, rank, step) for step in range(3)])
    return expected, found


class Scaled(torch.nn.Module):
    """Layers whose output has a scale: a parameter without dimensions."""

    def __init__(self):
        super().__init__()
        self.layers, self.scale = layers(), torch.nn.Parameter(torch.tensor(1.5))

    def forward(self, x):
        return self.scale * self.layers(x)


def parameter_without_dimensions(rank):
    """Codec none against DistributedDataParallel's own all-reduce."""
    expected = backward(DistributedDataParallel(Scaled()), rank)
    return expected, [backward(hooked(DistributedDataParallel(Scaled()), "none",
                                      exchange=exchange)[0], rank)
                      for exchange in ("all_gather", "two-phase")]


def types(rank):
    """Averages of few bits of parameters of each type, beside those of float64."""
    found = {}
    expected = backward(network(torch.float64), rank, dtype=torch.float64)
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        model, _ = hooked(network(dtype), "dqsg", bits=8, bucket_size=64)
        found[str(dtype)] = backward(model, rank, dtype=dtype)
        assert all(one.grad.dtype == dtype for one in model.parameters())
    return expected, found


class Largest(torch.nn.Module):
    """Its gradients are near the largest number of their type."""

    def __init__(self, dtype):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(40, dtype=dtype))

    def forward(self, x):
        return (0.99 * torch.finfo(x.dtype).max * self.weight).sum()


def near_the_largest_number(rank):
    """Gradients of types of 16 bits, whose dithers are beyond the type."""
    found = {}
    for dtype in (torch.float16, torch.bfloat16):
        model, _ = hooked(DistributedDataParallel(Largest(dtype)), "dqsg", levels=1, min_size=0)
        model(torch.zeros(1, dtype=dtype)).backward()
        found[str(dtype)] = gradients(model)[0], torch.finfo(dtype).max
    return found


def views(rank):
    """Gradients that are views of buckets, against those that are not."""
    models = [hooked(network(gradient_as_bucket_view=view), "dqsg")[0] for view in (False, True)]
    return [[backward(model, rank, step) for step in range(3)] for model in models]


class Branches(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(2)
        self.parts = torch.nn.ModuleList(torch.nn.Linear(40, 40) for _ in range(3))

    def forward(self, x, part):
        return self.parts[0](x) + self.parts[part](x)


def unused_parameters(rank):
    """Each rank uses another part of the model."""
    model = DistributedDataParallel(Branches(), find_unused_parameters=True, bucket_cap_mb=0.001)
    model, compression = hooked(model, "dqsg", error_feedback=True)
    found = []
    for step in range(4):
        model.zero_grad()
        model(batch(rank, step, columns=40), 1 + (rank + step) % 2).square().mean().backward()
        found.append(gradients(model))
    return found, compression.step


def accumulation(rank):
    """Two backward passes for one exchange."""
    model, compression = hooked(network(), "none")
    model.zero_grad()
    with model.no_sync():
        model(batch(rank, 0, columns=40)).square().mean().backward()
    model(batch(rank, 1, columns=40)).square().mean().backward()
    plain = network()
    expected = [one + other for one, other in zip(backward(plain, rank, 0),
                                                  backward(plain, rank, 1), strict=True)]
    return expected, gradients(model), compression.step


def same_as_numpy(rank):
    """This rank's own gradients and the averages, for the exchange in NumPy to repeat."""
    own, plain = [], layers()
    model = network()
    compression = Compression("dqsg", bits=3, exchange="two-phase", min_size=0, seed=8,
                              error_feedback=0.5)
    model.register_comm_hook(compression, bitstep_gradients.torch.hook)
    found = []
    for step in range(3):
        plain.zero_grad()
        plain(batch(rank, step, columns=40)).square().mean().backward()
        own.append([one.grad.numpy().copy() for one in plain.parameters()])
        backward(model, rank, step)
        found.append([one.grad.numpy().copy() for one in model.parameters()])
    return own, found


def saved_before_the_first_step(rank):
    """Gradients with a new state, and with one that has loaded a new one's."""
    file = io.BytesIO()
    torch.save(Compression("dqsg", error_feedback=True).state_dict(), file)
    file.seek(0)
    found = []
    for state in (None, torch.load(file)):
        model, compression = hooked(network(), "dqsg", error_feedback=True)
        if state is not None:
            compression.load_state_dict(state)
        found.append([backward(model, rank, step) for step in range(2)])
    return found


def embedding(is_sparse, **options):
    torch.manual_seed(1)
    return DistributedDataParallel(torch.nn.Sequential(
        torch.nn.Embedding(5, 4, sparse=is_sparse), torch.nn.Linear(4, 2)), **options)


def passes(model, *rows, count=2):
    """Errors of backward passes, and True if they have left gradients that are not NaN."""
    errors, is_finite = [], False
    for _ in range(count):
        model.zero_grad()
        try:
            model(*rows).sum().backward()
        except Exception as error:
            errors.append((type(error).__name__, str(error)))
        for one in model.parameters():
            values = one.grad.coalesce().values() if one.grad.is_sparse else one.grad
            is_finite |= not bool(values.isnan().all())
    return errors, is_finite


def sparse(rank):
    found = []
    for view in (False, True):
        model = embedding(True, gradient_as_bucket_view=view)
        _, compression = hooked(model, "dqsg")
        found.append((passes(model, torch.tensor([1, 2])), compression.step))
    return found


def sparse_on_one_rank(rank):
    """One pass: before the second, torch itself fails to agree on buckets of such models."""
    model, _ = hooked(embedding(rank == 1), "dqsg")
    return passes(model, torch.tensor([1, 2]), count=1)


class Turned(torch.nn.Module):
    """Its parameter is complex."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(2, dtype=torch.complex64))

    def forward(self, x):
        return (self.weight * x).abs().sum()


def complex_numbers(rank):
    model, compression = hooked(DistributedDataParallel(Turned()), "none")
    return [(passes(model, torch.ones(2)), compression.step)]


def spoilt(model, rank, value):
    """A backward pass in which rank 1 has a value that is not finite."""
    model.zero_grad()
    loss = model(batch(rank, 1, columns=40)).square().mean()
    (loss * (value if rank == 1 else 1.0)).backward()


def not_finite(rank):
    model, _ = hooked(network(), "dqsg")
    backward(model, rank)
    spoilt(model, rank, float("nan"))


def after_an_error(rank):
    """A new model and a new state after a step that failed."""
    model, _ = hooked(network(), "dqsg")
    return backward(model, rank)


def going_on_after_an_error(rank):
    """The same model and state: the step that failed, then steps as if it had never been."""
    model, compression = hooked(network(), "dqsg", error_feedback=0.5)
    errors, found = [], [backward(model, rank)]
    for value in (float("nan"), float("inf")):
        try:
            spoilt(model, rank, value)
        except ValueError as error:
            errors.append((str(error), compression.step, compression.skipped,
                           bool(np.isnan(np.concatenate(gradients(model), axis=None)).all())))
    found += [backward(model, rank, step) for step in (1, 2)]
    clean, _ = hooked(network(), "dqsg", error_feedback=0.5)
    return errors, found, [backward(clean, rank, step) for step in range(3)]


def joined(rank):
    """Rank 0 has no batch left when rank 1 has a gradient that is not finite."""
    model, _ = hooked(network(), "dqsg")
    with model.join():
        for step in range(1 + rank):
            spoilt(model, rank, float("nan") if step else 1.0)


def skipped(rank):
    """A scaler of AMP skips the step on all ranks, and goes on with a smaller scale."""
    model, compression = hooked(network(), "dqsg", on_bad="skip", error_feedback=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    found = []
    for value in (1.0, float("inf"), 1.0):
        optimizer.zero_grad()
        loss = model(batch(rank, 0, columns=40)).square().mean()
        scaler.scale(loss * (value if rank == 1 else 1.0)).backward()
        scaler.step(optimizer)
        scaler.update()
        weights = np.concatenate([one.detach().numpy().ravel() for one in model.parameters()])
        found.append((compression.skipped, scaler.get_scale(), weights))
    return found


def scale_that_changes(rank):
    """Unscaled averages of three steps, of which a scaler skips one, and what is left of a rank's
    own gradients, which were the same in both steps.
    """
    model, compression = hooked(network(), "top-k", share=0.1, min_size=0, on_bad="skip",
                                error_feedback=True)
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    total, codecs = 0.0, []
    for value in (1.0, float("inf"), 1.0):
        optimizer.zero_grad()
        before, loss = scaler.get_scale(), model(batch(rank, 0, columns=40)).square().mean()
        scaler.scale(loss * (value if rank == 1 else 1.0)).backward()
        if not compression.skipped:
            total += np.concatenate(gradients(model), axis=None) / before
        scaler.step(optimizer)
        scaler.update()
        codecs = [one for one in compression.codecs.values() if isinstance(one, ErrorFeedback)]
        for codec in codecs:
            codec.rescale(scaler.get_scale() / before)
    rest: list[Any] = [codec.residual(number) for number, codec in enumerate(codecs)]
    plain = layers()
    plain(batch(rank, 0, columns=40)).square().mean().backward()
    return total, np.concatenate(rest, axis=None) / scaler.get_scale(), \
        2 * np.concatenate(gradients(plain), axis=None)


def overrides(rank):
    model = network()
    weight = model.module[2].weight
    _, compression = hooked(model, "dqsg", overrides={weight: "qsgd", "0.b*": make_codec("fp16")})
    backward(model, rank)
    return {name: one["codec"] for name, one in compression.state_dict()["tensors"].items()}


def pattern_without_names(rank):
    model = network()
    compression = Compression("dqsg", overrides={"0.*": "fp16"})
    model.register_comm_hook(compression, bitstep_gradients.torch.hook)
    backward(model, rank)


def parameter_of_another_model(rank):
    model, _ = hooked(network(), "dqsg", overrides={torch.nn.Parameter(torch.ones(2)): "fp16"})
    backward(model, rank)


def model_not_registered(rank):
    """Errors of two backward passes of another model, and True if its gradients are NaN."""
    _, compression = hooked(network(), "dqsg")
    model, errors = network(), []
    model.register_comm_hook(compression, bitstep_gradients.torch.hook)
    for step in range(2):
        try:
            backward(model, rank, step)
        except ValueError as error:
            errors.append(str(error))
    return errors, all(np.isnan(one).all() for one in gradients(model))


def one_rank_not_registered(rank):
    _, compression = hooked(network(), "dqsg")
    model = network()
    model.register_comm_hook(compression if rank else Compression("dqsg"),
                             bitstep_gradients.torch.hook)
    return passes(model, batch(rank, 0, columns=40))


def no_ddp(rank):
    Compression("dqsg").register(torch.nn.Linear(2, 2))


def bad_key(rank):
    Compression("dqsg", overrides={3: "fp16"})


def overrides_without_values(rank):
    Compression("dqsg", overrides=["0.*"])      # type: ignore[arg-type]


def registered_twice(rank):
    _, compression = hooked(network(), "dqsg")
    compression.register(network())


def two_models(rank):
    compression = Compression("dqsg")
    for model in (network(), network()):
        model.register_comm_hook(compression, bitstep_gradients.torch.hook)
        backward(model, rank)


def subgroup(rank):
    """A process group of its own, of this rank alone: told by the model, and to the state."""
    group = [dist.new_group([one]) for one in range(2)][rank]
    plain, found = layers(), []
    plain(batch(rank, 0, columns=40)).square().mean().backward()
    expected = [one.grad.numpy().copy() for one in plain.parameters()]
    for told, registers in ((None, True), (group, True), (group, False)):
        model, compression = network(process_group=group), Compression("none", process_group=told)
        if registers:
            compression.register(model)
        else:
            model.register_comm_hook(compression, bitstep_gradients.torch.hook)
        found.append((backward(model, rank), compression.traffic.total().sent))
    return expected, found


def subgroup_that_no_one_tells(rank):
    """A hook is not told the model's group: without it, the averages are those of all ranks."""
    group = [dist.new_group([one]) for one in range(2)][rank]
    model = network(process_group=group)
    model.register_comm_hook(Compression("none"), bitstep_gradients.torch.hook)
    return backward(network(), rank), backward(model, rank)


def transport(rank):
    """Messages of all lengths, against what each rank knows of the other's."""
    found, own = [], TorchTransport()
    for lengths in ((0, 0), (8, 3), (9, 9), (0, 9), (70_001, 70_001), (5, 100_000)):
        messages = [bytes([one % 251 + 1]) * length for one, length in enumerate(lengths)]
        assert own.all_gather(messages[rank]) == messages, lengths
        pairs = [[messages[to] + bytes([sender]) for to in range(2)] for sender in range(2)]
        assert own.all_to_all(pairs[rank]) == [pairs[sender][rank] for sender in range(2)]
        found.append(lengths)
    return found


def counted(rank):
    """Bytes to and from the other rank in steps, as ``traffic`` has them and as the tensors of the
    collectives do; the same of gathered messages of some lengths.
    """
    bytes_of, real = Count(), (dist.all_gather, dist.all_to_all_single)

    def all_gather(tensors, own, group=None):
        bytes_of.add(own.numel(), sum(one.numel() for one in tensors) - own.numel())
        real[0](tensors, own, group=group)

    def all_to_all_single(coming, own, coming_sizes, sizes, group=None):
        assert (coming_sizes[rank], sizes[rank]) == (0, 0)
        bytes_of.add(own.numel(), coming.numel())
        real[1](coming, own, coming_sizes, sizes, group=group)

    found, gathered, own = [], [], TorchTransport()
    dist.all_gather, dist.all_to_all_single = all_gather, all_to_all_single
    try:
        for exchange in ("all_gather", "two-phase"):
            for codec in ("none", "dqsg", "alq"):
                model, compression = network(), Compression(codec, exchange=exchange)
                compression.register(model)
                for step in range(2):
                    bytes_of.sent = bytes_of.received = 0
                    backward(model, rank, step)
                    total = compression.traffic.step_total()
                    found.append(((total.sent, total.received),
                                  (bytes_of.sent, bytes_of.received)))
        for lengths in ((0, 0), (8, 3), (9, 9), (0, 9), (5, 100_000)):
            messages = [bytes(length) for length in lengths]
            bytes_of.sent = bytes_of.received = 0
            own.all_gather(messages[rank])
            sizes = gathered_sizes(own, messages)
            gathered.append(((sizes[rank], sizes[1 - rank]), (bytes_of.sent, bytes_of.received)))
    finally:
        dist.all_gather, dist.all_to_all_single = real
    return found, gathered


CASES = {case.__name__: case for case in (
    uncompressed, parameter_without_dimensions, types, near_the_largest_number, views,
    unused_parameters, accumulation, same_as_numpy, saved_before_the_first_step, sparse,
    sparse_on_one_rank, complex_numbers, not_finite, joined, after_an_error,
    going_on_after_an_error, skipped, scale_that_changes, overrides, pattern_without_names,
    parameter_of_another_model, model_not_registered, one_rank_not_registered, no_ddp, bad_key,
    overrides_without_values, registered_twice, two_models, subgroup,
    subgroup_that_no_one_tells, transport, counted)}
