"""The driver in one process, the simulated board in another, a connection between: so the driver
runs on ARM and the board where it is fast. ``python board.py PORT`` is the driver's side.

What crosses are requests such as a device has (:class:`bitstep.devices.base.RegisterAccess`), and
bytes of buffers; the driver's own copy of a buffer goes over when it is handed to the pipeline.
"""

import os
import sys
import time
from collections.abc import Callable
from multiprocessing.connection import Client, Connection, Listener
from typing import Any

import numpy as np

from bitstep.devices.register_device import RegisterDevice
from bitstep.doctor.jobs import expected_of, training_jobs
from bitstep.pipeline.config import PipelineConfig

KEY = b"bitstep"            # of a connection on this machine
LOOK_S = 0.1
TIMEOUT_S = 120.0
# One of each row format, with what they have; labels, weights and tables among them.
CONFIGS: tuple[dict[str, Any], ...] = (
    {"bits": 4, "max_features": 64, "row_weights": True},
    {"bits": 32, "row_format": "float32", "max_features": 8},
    {"bits": 16, "row_format": "bit_planes", "max_features": 64})


class RemoteBuffer:
    """A buffer of a board that another process has."""

    def __init__(self, device: "RemoteDevice", n_bytes: int):
        self._device = device
        self._number, self.address, content = device.ask("allocate", n_bytes)
        self.array = np.frombuffer(content, np.uint8).copy()

    def to_device(self) -> None:
        """Copy from the host to the pipeline."""
        self._device.ask("to_device", self._number, self.array.tobytes())

    def from_device(self) -> None:
        """Copy from the pipeline to the host."""
        self.array[:] = np.frombuffer(self._device.ask("from_device", self._number), np.uint8)

    def free(self) -> None:
        """Give the memory back."""
        self._device.ask("free", self._number)


class RemoteDevice(RegisterDevice):
    """A board that another process has.

    Parameters
    ----------
    config : PipelineConfig
    connection : Connection
    """

    name = "remote"

    def __init__(self, config: PipelineConfig, connection: Connection):
        self.config, self._connection = config, connection
        self.identity, self.clock_hz = self.ask("facts")

    def ask(self, name: str, *arguments: Any) -> Any:
        """What the other process answers to a request; raise its error."""
        self._connection.send((name, arguments))
        if not self._connection.poll(TIMEOUT_S):
            raise TimeoutError(f"No answer to {name} in {TIMEOUT_S:g} s")
        found, error = self._connection.recv()
        if error is not None:
            raise error
        return found

    def read(self, offset: int) -> int:
        """Read the 32-bit register at byte ``offset``."""
        return self.ask("read", int(offset))

    def write(self, offset: int, value: int) -> None:
        """Write the 32-bit register at byte ``offset``."""
        self.ask("write", int(offset), int(value))

    def allocate(self, n_bytes: int) -> RemoteBuffer:
        """Allocate shared memory."""
        return RemoteBuffer(self, int(n_bytes))

    def wait(self, done: Callable[[], bool], timeout_s: float) -> bool:
        """Let the pipeline run until ``done()``, or for about ``timeout_s`` seconds."""
        deadline = time.monotonic() + timeout_s
        while not (result := done()) and time.monotonic() < deadline:
            self.ask("await_interrupt", LOOK_S)
        return result

    def close(self) -> None:
        """The other process closes the board."""


def serve(device: Any, listener: Listener) -> None:
    """Answer requests of one connection for a board, until it ends."""
    buffers: dict[int, Any] = {}

    def answer(name: str, arguments: tuple[Any, ...]) -> Any:
        if name == "facts":
            return device.identity, device.clock_hz
        if name == "allocate":
            buffer = device.allocate(*arguments)
            buffers[buffer.address] = buffer
            return buffer.address, buffer.address, buffer.array.tobytes()
        if name == "to_device":
            number, content = arguments
            buffers[number].array[:] = np.frombuffer(content, np.uint8)
            return buffers[number].to_device()
        if name == "from_device":
            buffers[arguments[0]].from_device()
            return buffers[arguments[0]].array.tobytes()
        if name == "free":
            return buffers.pop(arguments[0]).free()
        return getattr(device, name)(*arguments)

    with listener.accept() as connection:
        while True:
            try:
                name, arguments = connection.recv()
            except EOFError:
                return
            try:
                reply = answer(name, arguments), None
            except Exception as error:      # it is the driver's to read
                reply = None, error
            connection.send(reply)


def drive(port: int, number: int) -> list[str]:
    """Train the jobs of a configuration twice; return those whose models are not golden's."""
    config, wrong = PipelineConfig(**CONFIGS[number]), []
    with Client(("127.0.0.1", port), authkey=KEY) as connection:
        device = RemoteDevice(config, connection)
        for title, job in training_jobs(config).items():
            expected = expected_of(job)
            for run in ("first", "second"):
                found = device.train(job, timeout_s=TIMEOUT_S)
                if (found.models.tolist(), found.intercepts.tolist()) \
                        != (expected[0].tolist(), expected[1].tolist()):
                    wrong.append(f"{config.name}: {title}, {run} run")
                print(f"{os.uname().machine}: {config.name}: {title}, {run} run, "
                      f"{found.counters['cycles']:,} cycles", flush=True)
    return wrong


if __name__ == "__main__":
    differing = drive(int(sys.argv[1]), int(sys.argv[2]))
    print("\n".join(f"differs: {name}" for name in differing), flush=True)
    sys.exit(1 if differing else 0)
