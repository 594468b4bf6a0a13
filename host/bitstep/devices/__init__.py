"""Devices that run training jobs, and the registry of those installed."""

import importlib.metadata
import importlib.util
import inspect
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from importlib.metadata import PackageNotFoundError
from typing import Any

from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.device import NO_BIT_PLANE_ROWS, NO_FEW_BITS, Device
from bitstep.pipeline.parts.formats import BIT_PLANES
from bitstep.pipeline.results import DeviceError
from bitstep.plugins import entry_points

GROUP = "bitstep.devices"
EXTRAS = {"cpu": "cpu", "sim": "sim"}   # extra of the distribution that a device of ours needs

__all__ = ["Device", "DeviceError", "available", "default_device", "device_class", "open_device"]


def available() -> dict[str, importlib.metadata.EntryPoint]:
    """Devices that some installed distribution offers, by name, without importing them."""
    return entry_points(GROUP)


def default_device() -> str:
    """The device for people at a desk: ``cpu``, or ``golden`` where numba is not installed."""
    with suppress(ImportError):         # a finder of modules may refuse
        if importlib.util.find_spec("numba"):
            return "cpu"
    return "golden"


def device_class(name: str) -> type:
    """Class of a device.

    Raises
    ------
    DeviceError
        If no such device is installed, or what it needs is not.
    """
    points = available()
    if name not in points:
        names = ", ".join(f"'{known}'" for known in points) or "none"
        raise DeviceError(f"There is no device '{name}'; installed are: {names}")
    try:
        return points[name].load()
    except ImportError as error:
        raise _missing(name, error) from error


def _missing(name: str, error: ImportError) -> DeviceError:
    """The error for a device without a package that it needs."""
    remedy = (f'pip install "bitstep[{EXTRAS[name]}]"' if name in EXTRAS
              else "see the documentation of the package that offers it")
    # Of a distribution that is not installed only the name is told.
    reason = f"{error.name} is not installed" if isinstance(error, PackageNotFoundError) else error
    return DeviceError(f"Device '{name}' cannot be loaded, because {reason}; to install what it "
                       f"needs: {remedy}")


def built_pipelines(name: str, options: dict[str, Any]) -> list[PipelineConfig] | None:
    """Return the pipelines of a board's bitstreams, as far as they are known before it is opened;
    None for a device that makes any pipeline.

    Parameters
    ----------
    name : str
        One of :func:`available`.
    options : dict
        Of the device, such as ``bitfile``.
    """
    try:
        manifests = getattr(device_class(name), "manifests", None)
        return None if manifests is None else [one.config for one in manifests(options)]
    except DeviceError:
        return []                           # opening it will say why


def on_bus_of(name: str, options: dict[str, Any], config: PipelineConfig) -> PipelineConfig:
    """A pipeline with the row bus of a board's bitstream that runs its jobs: of several the widest.

    Parameters
    ----------
    name : str
        One of :func:`available`.
    options : dict
        Of the device, such as ``bitfile``.
    config : PipelineConfig
        Returned as it is for a device that makes any pipeline, or if no bitstream runs its jobs.
    """
    widths = [one.bus_width for one in built_pipelines(name, options) or ()
              if one.runs(replace(config, bus_width=one.bus_width))]
    return replace(config, bus_width=max(widths, default=config.bus_width))


def has_bit_planes(name: str, options: dict[str, Any], loss_family: str) -> bool:
    """True for a device that can train on bit-plane rows, as far as is known before it is opened.

    Parameters
    ----------
    name : str
        One of :func:`available`.
    options : dict
        Of the device, such as ``bitfile``.
    loss_family : str
        Of the pipeline that is needed.
    """
    built = built_pipelines(name, options)
    if built is None:
        return bool(getattr(device_class(name), "bit_planes", False))
    return any((one.row_format, one.loss_family) == (BIT_PLANES, loss_family) for one in built)


def options_of(kind: type) -> list[str]:
    """Parameters of a device's class, and ``models`` (in a pass) where it makes any pipeline."""
    return [*inspect.signature(kind).parameters, *["models"] * getattr(kind, "any_models", False)]


def check_option_names(name: str, options: Iterable[str]) -> None:
    """Raise DeviceError unless a device takes options of these names."""
    known = [parameter for parameter in options_of(device_class(name)) if parameter != "config"]
    if unknown := sorted(set(options) - set(known)):
        raise DeviceError(f"Device '{name}' has no option '{unknown[0]}'; its options are: "
                          f"{', '.join(known) or 'none'}")


def open_device(name: str, config: PipelineConfig, *, few_bits: bool = False,
                **options: Any) -> Device:
    """Open a device.

    Parameters
    ----------
    name : str
        One of :func:`available`.
    config : PipelineConfig
        The pipeline that must be on it.
    few_bits : bool
        True if jobs are for a model or updates of few bits (``model_bits``, ``update_bits``).
    **options
        What the device's class takes besides, such as ``clock_hz``.

    Returns
    -------
    Device
        A context manager, or the caller closes it.

    Raises
    ------
    DeviceError
        If it is not installed, does not have such an option, or cannot be opened.
    """
    kind = device_class(name)
    check_option_names(name, options)
    if config.row_format == BIT_PLANES and not getattr(kind, "bit_planes", False):
        raise DeviceError(NO_BIT_PLANE_ROWS.format(name))
    if few_bits and not getattr(kind, "few_bits", False):
        raise DeviceError(NO_FEW_BITS.format(name))
    models = options.pop("models", None)
    try:
        config = config if models is None else replace(config, models=models)
    except ValueError as error:
        raise DeviceError(f"No pipeline for {models} models in a pass: {error}; leave models out") \
            from error
    try:
        return kind(config, **options)
    except ImportError as error:        # of what only some pipelines need, or not every time
        raise _missing(name, error) from error
