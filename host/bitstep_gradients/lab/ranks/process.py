"""The process of a rank, which another process starts."""

import contextlib
import datetime
import multiprocessing
import os
import pickle
import shutil
import socket
import threading
from multiprocessing.connection import Connection, wait
from pathlib import Path

FACTS, STORE, LOG = "facts", "store", "log-"
START_S = 300.0         # in which all processes must have begun


def run_process(rank: int, n_ranks: int, folder: str, line: Connection, limit_s: float) -> None:
    """Train what the parent asks for, until it says None.

    Parameters
    ----------
    rank, n_ranks : int
    folder : str
        Has the model and its data, the store of the group, and what this process prints.
    line : Connection
        To the parent: ``("ready", None)``, ``("step", number)``, ``("done", result)``,
        ``("error", type, text)``.
    limit_s : float
        Of every wait for another rank.
    """
    threading.Thread(target=_end_with_parent, args=(folder,), daemon=True).start()
    log = os.open(str(Path(folder, f"{LOG}{rank}")), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for stream in (1, 2):               # gloo prints; the terminal belongs to the parent
        os.dup2(log, stream)
    code = 0
    try:
        transport = _join(rank, n_ranks, folder, limit_s)
        _serve(transport, folder, line)
    except Exception as error:
        code = 1
        line.send(("error", type(error).__name__, str(error)))
    line.close()
    # No part of torch's own shutdown: it closes connections that others may still use.
    os._exit(code)


def _serve(transport, folder: str, line: Connection) -> None:
    from bitstep_gradients.lab.ranks.rank import train_rank
    model, samples = pickle.loads(Path(folder, FACTS).read_bytes())
    line.send(("ready", None))
    while (asked := line.recv()) is not None:
        contestant, setting, seed = asked
        result = train_rank(
            transport, model, samples, contestant, setting, seed=seed,
            progress=lambda step: line.send(("step", step)) if transport.rank == 0 else None)
        line.send(("done", result))


def _join(rank: int, n_ranks: int, folder: str, limit_s: float):
    """Join the group of all ranks; return the transport."""
    try:
        import torch  # type: ignore
        import torch.distributed as dist  # type: ignore
    except ImportError as error:
        raise RuntimeError(f'gloo processes need torch ({error}): pip install "bitstep[torch]"') \
            from error
    torch.set_num_threads(1)
    own = [name for _, name in socket.if_nameindex() if name.startswith("lo")]
    if own:             # all ranks are on this machine, whatever its name resolves to
        os.environ.setdefault("GLOO_SOCKET_IFNAME", own[0])
    store = dist.FileStore(str(Path(folder, STORE)), n_ranks)
    store.set(f"here-{rank}", "")       # torch's import may take longer than a step
    store.wait([f"here-{other}" for other in range(n_ranks)], datetime.timedelta(seconds=START_S))
    dist.init_process_group("gloo", store=store, rank=rank, world_size=n_ranks,
                            timeout=datetime.timedelta(seconds=limit_s))
    return _transport(limit_s)


def _transport(limit_s: float):
    """The transport over the group; an error of torch is an ExchangeError, with its limit."""
    from bitstep_gradients.errors import ExchangeError
    from bitstep_gradients.torch import TorchTransport

    class Transport(TorchTransport):
        def _gather(self, message, length):
            with told():
                return super()._gather(message, length)

        def _swap(self, messages, lengths):
            with told():
                return super()._swap(messages, lengths)

    @contextlib.contextmanager
    def told():
        try:
            yield
        except RuntimeError as error:
            raise ExchangeError("another worker has ended, or did not answer within "
                                f"{limit_s:g} s: {error}") from error

    return Transport()


def _end_with_parent(folder: str) -> None:
    """End this process when its parent has ended in any way, and leave no file behind."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        shutil.rmtree(folder, ignore_errors=True)
        os._exit(1)
