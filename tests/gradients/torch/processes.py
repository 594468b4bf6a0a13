"""Ranks as processes over gloo, with a limit on every wait."""

import datetime
import multiprocessing
import pickle
import time
import traceback
from pathlib import Path
from typing import Any

COLLECTIVE_S, PROCESS_S = 600, 3600


def run_processes(n_ranks, folder, work, *arguments) -> "list[Any]":
    """Run ``work(rank, *arguments)`` in processes of one gloo group.

    Returns
    -------
    found : list
        What each rank returned; the text of the error for one that failed; None for one that ended
        without a word.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    # Ranks are forked from a process that has imported torch, which takes each of them seconds.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["torch.distributed", "bitstep_gradients.torch"])
    processes = [context.Process(target=_run, args=(rank, n_ranks, str(folder), work, arguments),
                                 daemon=True) for rank in range(n_ranks)]
    for process in processes:
        process.start()
    end = time.monotonic() + PROCESS_S
    for process in processes:
        process.join(max(end - time.monotonic(), 0))
    late = [rank for rank, process in enumerate(processes) if process.is_alive()]
    for rank in late:
        processes[rank].kill()
        processes[rank].join()
    assert not late, f"ranks {late} did not end in {PROCESS_S} s"
    found = []
    for rank, process in enumerate(processes):
        path = folder / f"result-{rank}"
        found.append(pickle.loads(path.read_bytes()) if path.exists() else None)
        if found[rank] is not None and not isinstance(found[rank], str):
            assert process.exitcode == 0, f"rank {rank} ended with {process.exitcode}"
    return found


def _run(rank, n_ranks, folder, work, arguments):
    import torch  # type: ignore
    import torch.distributed as dist  # type: ignore

    torch.set_num_threads(1)
    store = dist.FileStore(f"{folder}/store", n_ranks)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=n_ranks,
                            timeout=datetime.timedelta(seconds=COLLECTIVE_S))
    try:
        result = work(rank, *arguments)
        dist.barrier()          # nobody closes a connection that another still uses
    except Exception:
        result = traceback.format_exc()
    dist.destroy_process_group()
    Path(folder, f"result-{rank}").write_bytes(pickle.dumps(result))
