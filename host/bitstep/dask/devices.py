"""Devices of a worker: opened for its first pass, closed after the training."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import dask.config

from bitstep.devices import default_device, on_bus_of, open_device
from bitstep.devices.software import SoftwareDevice
from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.device import Device

SETTING = "bitstep.device"      # of Dask's configuration, on a worker


@dataclass(frozen=True)
class DeviceChoice:
    """A device by name with its options; the name None leaves it to each worker.

    A worker's own is the entry ``bitstep.device`` of its Dask configuration, a name or a dictionary
    with ``name`` and options, such as of the environment variable ``DASK_BITSTEP__DEVICE``;
    without one it is that of a desk.
    """

    name: str | None = None
    options: tuple[tuple[str, Any], ...] = ()

    @staticmethod
    def of(asked: Any) -> "DeviceChoice":
        """The choice of ``"auto"``, a name, or a dictionary with ``name`` and options.

        Raises
        ------
        ValueError
            If it is none of these.
        """
        if isinstance(asked, str):
            return DeviceChoice(None if asked == "auto" else asked)
        if not isinstance(asked, dict) or "name" not in asked:
            raise ValueError("device must be 'auto', the name of a device, or a dictionary with "
                             f"'name' and options, which each worker opens, not {asked!r}")
        return DeviceChoice(asked["name"], tuple(sorted(
            (name, value) for name, value in asked.items() if name != "name")))

    def here(self) -> "DeviceChoice":
        """The choice, with a name, on this worker."""
        if self.name is not None:
            return self
        found = DeviceChoice.of(dask.config.get(SETTING, "auto"))
        return found if found.name is not None else DeviceChoice(default_device())


@dataclass
class _Opened:
    stack: ExitStack
    device: Device
    lock: Any = field(default_factory=threading.Lock)


_opened: dict[Any, _Opened] = {}
_lock = threading.Lock()


@contextmanager
def worker_device(choice: DeviceChoice, config: PipelineConfig) -> Iterator[Device]:
    """The device of this worker, for one pass: devices that compute on the host take as many passes
    at a time as there are threads, others one. A board's has the row bus of its bitstream: bit
    planes are the same bytes for all.
    """
    key = choice.here(), config
    while True:
        found = _open(key)
        with nullcontext() if isinstance(found.device, SoftwareDevice) else found.lock:
            if _opened.get(key) is found:       # else another training has closed it meanwhile
                yield found.device
                return


def _open(key: tuple[DeviceChoice, PipelineConfig]) -> _Opened:
    """The device of a choice and a pipeline, opened if it is not yet."""
    with _lock:
        if key not in _opened:
            stack = ExitStack()
            choice, config = key
            assert choice.name is not None
            options = dict(choice.options)
            device = stack.enter_context(open_device(
                choice.name, on_bus_of(choice.name, options, config), **options))
            stack.enter_context(device.keep_rows())
            _opened[key] = _Opened(stack, device)
        return _opened[key]


def close_devices() -> None:
    """Close the devices of this worker; a pass that comes later opens them again."""
    with _lock:
        for key, one in list(_opened.items()):
            with one.lock:
                del _opened[key]        # first, as a pass that waits for the lock looks
                one.stack.close()
