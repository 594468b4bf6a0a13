"""Models and training runs of the tests, for processes that torch starts."""

import io
import os
import signal
import zlib

import torch  # type: ignore
from torch.nn.parallel import DistributedDataParallel  # type: ignore

import bitstep_gradients.torch
from bitstep_gradients import list_codecs, make_codec
from bitstep_gradients.control.dq_sgd import DqSgd
from bitstep_gradients.control.feedback import ErrorFeedback

WIDTH = 12
COMMON = 15             # steps of a run that are repeated from a saved state


def codecs_of_layers():
    """A codec for each layer of :class:`Layers`: all names, and some with a state around them."""
    found = {name: make_codec(name) for name in list_codecs()}
    found["feedback"] = ErrorFeedback(make_codec("dqsg", bits=3), weight=0.5)
    found["terngrad-feedback"] = ErrorFeedback(make_codec("terngrad"))
    found["controller"] = DqSgd(make_codec("dqsg"), steps=200, alpha=0.99, mean_bits=4, interval=12)
    return found


class Layers(torch.nn.Module):
    """Sum of layers, each with a codec of its own."""

    def __init__(self, names):
        super().__init__()
        torch.manual_seed(1)
        self.layers = torch.nn.ModuleDict({
            name: torch.nn.Linear(WIDTH, WIDTH) for name in names})

    def forward(self, x):
        """Sum of the outputs."""
        return sum(torch.tanh(layer(x)) for layer in self.layers.values())


def batch(rank, step, rows=8, columns=WIDTH):
    """The rows of a rank at a step."""
    return torch.randn(rows, columns, generator=torch.Generator().manual_seed(1000 * step + rank))


def make_run(exchange):
    """Model, hook and optimizer of a run in which every codec has a layer."""
    codecs = codecs_of_layers()
    model = DistributedDataParallel(Layers(codecs), bucket_cap_mb=0.003)
    compression = bitstep_gradients.torch.Compression(
        "dqsg", exchange=exchange, min_size=0, seed=5, update_at=(0, 6, 28, 190),
        overrides={f"layers.{name}.*": codec for name, codec in codecs.items()})
    compression.register(model)
    return model, compression, torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)


def train_steps(run, rank, first, last):
    """Checksums of all gradients of every step, by parameter."""
    model, _, optimizer = run
    sums = {name: 0 for name, _ in model.module.named_parameters()}
    for step in range(first, last):
        optimizer.zero_grad()
        model(batch(rank, step)).square().mean().backward()
        for name, parameter in model.module.named_parameters():
            sums[name] = zlib.crc32(parameter.grad.numpy().tobytes(), sums[name])
        optimizer.step()
    return sums


def save(run):
    """Everything of a run as bytes."""
    file = io.BytesIO()
    torch.save([one.state_dict() for one in (run[0].module, *run[1:])], file)
    return file.getvalue()


def restore(run, saved):
    """Load what :func:`save` gave."""
    states = torch.load(io.BytesIO(saved), weights_only=True)
    for one, state in zip((run[0].module, *run[1:]), states, strict=True):
        one.load_state_dict(state)


def train_all_codecs(rank, exchange, n_steps):
    """A run that is saved in the middle and goes on, and one that the saved state begins and that
    ends the training: sums of both, and the last weights.
    """
    run, middle = make_run(exchange), n_steps // 2
    first = train_steps(run, rank, 0, middle)
    saved = save(run)
    whole = train_steps(run, rank, middle, middle + COMMON)
    again = make_run(exchange)
    restore(again, saved)
    restored = train_steps(again, rank, middle, middle + COMMON)
    last = train_steps(again, rank, middle + COMMON, n_steps)
    weights = {name: one.detach().numpy().tobytes()
               for name, one in again[0].module.named_parameters()}
    n_buckets = [len(one[0]._get_ddp_logging_data()["rebuilt_bucket_sizes"].split(","))
                 for one in (run, again)]
    return {"first": first, "whole": whole, "restored": restored, "last": last,
            "weights": weights, "n_buckets": min(n_buckets), "n_steps": again[1].step}


def lose_a_rank(rank, exchange):
    """Rank 1 dies in the middle of a run: the text of the error that each other rank gets."""
    run = make_run(exchange)
    train_steps(run, rank, 0, 3)
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        train_steps(run, rank, 3, 10)
    except RuntimeError as error:
        os.write(2, f"rank {rank}: {error}\n".encode())
        raise
    return "no error"
