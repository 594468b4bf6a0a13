"""Time and bytes of a step of torch's DistributedDataParallel, with and without bitstep's hook.

    python -m bitstep_gradients.lab.ddp_steps --ranks 2 4 8

It needs torch. Every hook has a model of its own, FC-300-100 (266,610 parameters), in the same gloo
processes of one thread on this machine; hooks take turns, one step each, and the median counts.
"""

import argparse
import datetime
import multiprocessing
import pickle
import statistics
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

try:
    import torch  # type: ignore
    import torch.distributed as dist  # type: ignore
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks  # type: ignore
    from torch.nn.parallel import DistributedDataParallel  # type: ignore

    from bitstep_gradients.torch import Compression
except ImportError as error:
    raise SystemExit(f"error: steps of DistributedDataParallel need torch ({error}): "
                     'pip install "bitstep[torch]"') from None


def eight_bit_hook(_, bucket):
    """The work of torch's ``quantization_pertensor_hook``, which itself fails on gloo (torch 2.13):
    8 bits between minimum and maximum, rounded to the nearest, all_gather, sum.
    """
    values, n_ranks = bucket.buffer(), dist.get_world_size()
    low, high = torch.aminmax(values)
    low, high = low.clamp(max=0), high.clamp(min=0)
    scale = torch.clamp((high - low) / 255, min=torch.finfo(torch.float32).eps)
    zero = torch.round(-low / scale)
    facts = torch.stack([scale, zero])
    all_facts = [torch.empty_like(facts) for _ in range(n_ranks)]
    dist.all_gather(all_facts, facts)
    codes = torch.clamp(torch.round(values / scale) + zero, 0, 255).to(torch.uint8)
    all_codes = [torch.empty_like(codes) for _ in range(n_ranks)]
    dist.all_gather(all_codes, codes)
    total = torch.zeros_like(values)
    for codes, (scale, zero) in zip(all_codes, all_facts, strict=True):
        total += scale * (codes.to(torch.float32) - zero)
    future = torch.futures.Future()
    future.set_result(total / n_ranks)
    return future


LIMIT_S = 600
BATCH = 32
PARAMETERS, BYTES_OF_SCALE = 266_610, 8
# Name: arguments of Compression; a function of torch; or None, for no hook.
HOOKS: dict[str, Any] = {
    "none (all-reduce)": None,
    "torch, fp16": default_hooks.fp16_compress_hook,
    "torch, 8 bits, all_gather": eight_bit_hook,
    "`none`, two-phase": {"codec": "none", "exchange": "two-phase"},
    "`dqsg` 8 bits, all_gather": {"codec": "dqsg", "bits": 8},
    "`dqsg` 8 bits, two-phase": {"codec": "dqsg", "bits": 8, "exchange": "two-phase"},
    "`dqsg` 2 bits, all_gather": {"codec": "dqsg", "bits": 2},
    "`dqsg` 2 bits, two-phase": {"codec": "dqsg", "bits": 2, "exchange": "two-phase"},
    "`dqsg` 2 bits, two-phase, feedback": {"codec": "dqsg", "bits": 2, "exchange": "two-phase",
                                           "error_feedback": 0.5},
}


def torch_bytes(name: str, n_ranks: int) -> float:
    """Bytes that a rank sends at a step with one of torch's ways, by their sources: a ring of
    n_ranks, or all_gather of one byte a value and of two numbers a bucket.
    """
    if "8 bits" in name:
        return (n_ranks - 1) * (PARAMETERS + BYTES_OF_SCALE)
    width = 2 if "fp16" in name else 4
    return 2 * (n_ranks - 1) / n_ranks * width * PARAMETERS


def measure(n_ranks: int, n_steps: int) -> dict[str, tuple[float, float]]:
    """Median milliseconds of a step, and bytes that rank 0 sends at it, by hook.

    Raises
    ------
    RuntimeError
        If a process fails, or does not end in ten minutes.
    """
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        processes = [context.Process(target=_rank, args=(rank, n_ranks, n_steps, folder),
                                     daemon=True) for rank in range(n_ranks)]
        for process in processes:
            process.start()
        end = time.monotonic() + LIMIT_S
        for process in processes:
            process.join(max(end - time.monotonic(), 0))
        codes = [process.exitcode for process in processes]
        for process in processes:
            process.kill()
        if any(code != 0 for code in codes):        # None of one that has not ended
            raise RuntimeError(f"every rank must end with 0, but they ended with {codes}; see the "
                               "errors above (None: not in time)")
        return pickle.loads(Path(folder, "found").read_bytes())


def _rank(rank, n_ranks, n_steps, folder):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", store=dist.FileStore(f"{folder}/store", n_ranks), rank=rank,
                            world_size=n_ranks, timeout=datetime.timedelta(seconds=LIMIT_S))
    runs = {name: _make_run(choice) for name, choice in HOOKS.items()}
    times: dict[str, list[float]] = {name: [] for name in runs}
    generator = torch.Generator().manual_seed(rank)
    for _ in range(n_steps):
        rows = torch.randn(BATCH, 784, generator=generator)
        labels = torch.randint(10, (BATCH,), generator=generator)
        for name, (model, optimizer, _) in runs.items():        # they take turns
            dist.barrier()
            start = time.perf_counter()
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(rows), labels).backward()
            optimizer.step()
            times[name].append(1e3 * (time.perf_counter() - start))
    found = {name: (statistics.median(times[name][2:]),
                    torch_bytes(name, n_ranks) if state is None
                    else state.traffic.step_total().sent)
             for name, (_, _, state) in runs.items()}
    if rank == 0:
        Path(folder, "found").write_bytes(pickle.dumps(found))
    dist.barrier()          # nobody closes a connection that another still uses
    dist.destroy_process_group()


def _make_run(choice):
    """Model, optimizer, and the state of bitstep's hook."""
    torch.manual_seed(0)
    sizes, layers = (784, 300, 100, 10), []
    for n_inputs, n_outputs in pairwise(sizes):
        layers += [torch.nn.Linear(n_inputs, n_outputs), torch.nn.ReLU()]
    model = DistributedDataParallel(torch.nn.Sequential(*layers[:-1]))
    state = None
    if isinstance(choice, dict):
        state = Compression(**choice)
        state.register(model)
    elif choice is not None:
        model.register_comm_hook(None, choice)
    return model, torch.optim.SGD(model.parameters(), lr=0.01), state


def main(arguments: list[str] | None = None) -> int:
    """Print a table of all hooks: time and bytes by ranks."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4, 8])
    parser.add_argument("--steps", type=int, default=30)
    options = parser.parse_args(arguments)
    if min(options.ranks) < 1 or options.steps < 3:
        parser.error("--ranks must be at least 1, and --steps at least 3")
    found = {ranks: measure(ranks, options.steps) for ranks in options.ranks}
    head = [f"ms, {ranks} ranks" for ranks in found] + [f"kB, {ranks} ranks" for ranks in found]
    print(f"| hook | {' | '.join(head)} |")
    print(f"| --- {'| ---: ' * len(head)}|")
    for name in HOOKS:
        cells = [f"{found[ranks][name][0]:.0f}" for ranks in found] \
            + [f"{found[ranks][name][1] / 1000:,.1f}" for ranks in found]
        print(f"| {name} | {' | '.join(cells)} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
