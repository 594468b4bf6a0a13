"""Passes over the rows: jobs whose models one run of a device trains, one or several at a time."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait

from bitstep.pipeline.device import Device
from bitstep.pipeline.job import TrainingJob


def passes_of(device: Device, jobs: Mapping[int, TrainingJob],
              alone: Callable[[int], bool]) -> list[list[int]]:
    """Numbers of the jobs of each pass: as few passes as the device needs, and one for each of its
    workers.

    Parameters
    ----------
    device : Device
        It trains ``device.models`` in a pass, ``device.workers`` passes at a time.
    jobs : mapping of int to TrainingJob
    alone : callable
        True of the number of a job that has passes of its own.
    """
    groups: list[list[int]] = []
    for number, job in jobs.items():
        for group in groups:
            if not alone(number) and not alone(group[0]) \
                    and device.shares_pass(jobs[group[0]], job):
                group.append(number)
                break
        else:
            groups.append([number])
    passes = []
    for group in groups:
        count = max(-(-len(group) // device.models), min(device.workers, len(group)))
        for turn in range(count):       # sizes differ by at most one
            members = group[turn * len(group) // count:(turn + 1) * len(group) // count]
            for part in device.parts([jobs[number] for number in members]):
                passes.append(members[:len(part)])
                members = members[len(part):]
    return passes


def run_together(device: Device, passes: Sequence[list[int]],
                 train: Callable[[list[int]], bool]) -> None:
    """Train passes at the same time, ``device.workers`` of them, in threads of their own.

    Parameters
    ----------
    device : Device
    passes : sequence of list of int
    train : callable
        Trains a pass; False if the others are to end.

    Raises
    ------
    KeyboardInterrupt
        On Ctrl-C, once all have ended.
    DeviceError
        The first error ends the others.
    """
    def work(members: list[int]) -> None:
        if not train(members):
            raise _Enough

    with ThreadPoolExecutor(min(device.workers, len(passes))) as pool:
        working = [pool.submit(work, members) for members in passes]
        errors: list[BaseException | None] = []
        try:
            wait(working, return_when=FIRST_EXCEPTION)
        except KeyboardInterrupt as stopped:
            errors.append(stopped)
        finally:
            if not all(one.done() for one in working):      # Ctrl-C, or one of them has failed
                device.end_jobs(True)
                wait(working)
                device.end_jobs(False)
    errors += [future.exception() for future in working]
    failures = [one for one in errors if one and not isinstance(one, (_Enough, KeyboardInterrupt))]
    if failures:
        raise failures[0]
    # What ends the other passes interrupts them, too.
    if any(isinstance(one, KeyboardInterrupt) for one in errors) \
            and not any(isinstance(one, _Enough) for one in errors):
        raise KeyboardInterrupt


class _Enough(Exception):
    """A model left its range, which ends the other passes."""
