"""A cluster of processes on this machine, as a command starts it."""

import logging
import signal
from concurrent.futures import Future
from contextlib import suppress
from multiprocessing import resource_tracker
from threading import Thread

from distributed import LocalCluster


def start_cluster(workers: int) -> LocalCluster:
    """A cluster of so many processes with one thread each, to be closed by the caller.

    Ctrl-C reaches all processes of a terminal, and Dask's ignore it once they run. One that is
    starting would print where it stood, and a cluster that is half there cannot be closed. So a
    thread starts it, whose processes do not get the signal, and an interrupt waits for its end.

    Raises
    ------
    KeyboardInterrupt
        After Ctrl-C, when the cluster has been closed.
    """
    made: Future[LocalCluster] = Future()

    def start() -> None:
        try:
            made.set_result(LocalCluster(
                n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=":0",
                silence_logs=logging.CRITICAL))     # heartbeats fail at the end: an ERROR
        except BaseException as error:
            made.set_exception(error)

    thread = Thread(target=start, name="bitstep-cluster", daemon=True)
    resource_tracker.ensure_running()       # the first process would, and let the signal through
    try:
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            thread.start()                  # with this mask, which its threads and processes have
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return made.result()
    except KeyboardInterrupt:
        if thread.ident is not None:
            with suppress(Exception):
                made.result().close()
        raise
