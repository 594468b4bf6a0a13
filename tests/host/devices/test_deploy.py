"""Deploying to a board that is this machine, behind an ssh and an scp of a few lines."""

import json
import os
import shutil
import subprocess
import sys
import textwrap
import types
from pathlib import Path

import pytest
from fake_pynq import FakePynq, write_bitstream

from bitstep.cli import main
from bitstep.devices.deploy import (
    DeployError,
    Payload,
    collect,
    deploy_local,
    deploy_remote,
    find_wheel,
)
from bitstep.devices.pynq import read_bitstream
from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.results import DeviceError

HERE = Path(__file__).parents[1]      # of fake_pynq
CONFIG = PipelineConfig()
# What each program does, unless the file of its fault says otherwise.
PROGRAMS = {
    "ssh": """
        assert sys.argv[1:6] == ["-o", "BatchMode=yes", "-o", "ConnectTimeout=15", "--"]
        fault()
        raise SystemExit(subprocess.run(["sh", "-c", sys.argv[7]]).returncode)
        """,
    "scp": """
        fault()
        *files, target = sys.argv[sys.argv.index("--") + 1:]
        for file in files:
            shutil.copy(file, target.partition(":")[2])
        damage = pathlib.Path(__file__).with_name("damage")
        if damage.exists():
            name = damage.read_text()
            (pathlib.Path(target.partition(":")[2]) / name).write_bytes(b"half of it")
        """,
    "sudo": """
        assert sys.argv[1:4] == ["-n", "bash", "-lc"]
        fault()
        raise SystemExit(subprocess.run(["sh", "-c", sys.argv[4]]).returncode)
        """,
    "python3": """
        if sys.argv[1:3] == ["-m", "pip"]:
            fault()
            assert pathlib.Path(sys.argv[-1]).read_bytes() == b"wheel"
            raise SystemExit
        assert sys.argv[1:3] == ["-m", "bitstep"]
        sys.path.insert(0, HERE)
        from fake_pynq import FakePynq
        from importlib.machinery import ModuleSpec
        sys.modules["pynq"] = FakePynq()
        sys.modules["pynq"].__spec__ = ModuleSpec("pynq", None)
        from bitstep.cli import main
        raise SystemExit(main(sys.argv[3:]))
        """,
}


@pytest.fixture
def network(tmp_path, monkeypatch):
    """Folder of the fake programs, first on PATH; a file ``NAME.fault`` makes one fail."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, body in PROGRAMS.items():
        head = textwrap.dedent(f"""\
            #!{sys.executable}
            import json, pathlib, shutil, subprocess, sys, time
            HERE = {str(HERE)!r}

            def fault():
                with open({str(folder / "log")!r}, "a") as log:
                    log.write(json.dumps([{name!r}, *sys.argv[1:]]) + "\\n")
                path = pathlib.Path({str(folder / name)!r} + ".fault")
                if path.exists():
                    text, code, seconds = json.loads(path.read_text())
                    time.sleep(seconds)
                    print(text, file=sys.stderr)
                    raise SystemExit(code)

            """)
        (folder / name).write_text(head + textwrap.dedent(body))
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return folder


def fail(network, program, text, code=1, seconds=0.0):
    (network / f"{program}.fault").write_text(json.dumps([text, code, seconds]))


def log(network):
    return [json.loads(line) for line in (network / "log").read_text().splitlines()]


@pytest.fixture
def files(tmp_path):
    """A payload with one bitstream and one file of data, and a wheel."""
    data = tmp_path / "cadata.npz"
    data.write_bytes(b"rows")
    wheel = tmp_path / "bitstep-0.1.0-py3-none-any.whl"
    wheel.write_bytes(b"wheel")
    return collect("pynq-z2", [write_bitstream(tmp_path, CONFIG)], [data]), wheel


def deployed(folder):
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


FILES = {"bitstreams/pynq-z2-test.bit", "bitstreams/pynq-z2-test.hwh",
         "bitstreams/pynq-z2-test.json", "data/cadata.npz"}


def test_to_a_host(network, files, tmp_path):
    payload, wheel = files
    target, said = tmp_path / "board", []
    deploy_remote(payload, "xilinx@pynq", wheel, folder=target, tell=said.append)
    assert deployed(target) == FILES
    assert (target / "data/cadata.npz").read_bytes() == b"rows"
    text = "\n".join(said)
    assert "copied to xilinx@pynq: 5 files, checksums agree" in text
    assert "loaded: pynq-z2-test.bit" in text
    assert "identity 0123456789abcdef" in text
    assert "pynq    yes" in text                # what `bitstep devices` says there
    stage = next(call[-1] for call in log(network) if call[0] == "ssh").split()[-1]
    assert not Path(stage).exists()
    assert next(call for call in log(network) if call[0] == "python3")[2:8] == \
        ["pip", "install", "--quiet", "--no-index", "--no-deps", "--force-reinstall"]


def test_command_line(network, files, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dist").mkdir()
    shutil.copy(files[1], tmp_path / "dist")
    (tmp_path / "bitstreams").mkdir()
    write_bitstream(tmp_path / "bitstreams", CONFIG, name="pynq-z2-default")
    write_bitstream(tmp_path / "bitstreams", CONFIG, name="kv260-default", board="kv260")
    assert main(["deploy", "pynq-z2", "board", "--folder", str(tmp_path / "board")]) == 0
    assert deployed(tmp_path / "board") == {f"bitstreams/pynq-z2-default.{suffix}"
                                            for suffix in ("bit", "hwh", "json")}
    assert "loaded: pynq-z2-default.bit" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [["pynq-z2"], ["pynq-z2", "board", "--local"]])
def test_host_or_local(arguments, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["deploy", *arguments])
    assert "Either HOST or --local must be given" in capsys.readouterr().err


@pytest.mark.parametrize("value", ["0", "nan", "3e6"])
def test_bad_limit_of_time(value, capsys):
    """The system cannot wait for a month."""
    with pytest.raises(SystemExit, match="2"):
        main(["deploy", "pynq-z2", "board", "--timeout", value])
    assert "argument --timeout: must be a number between 0 and 1e+06" in capsys.readouterr().err


def test_unknown_board(tmp_path, capsys):
    """It is told before what else is wrong."""
    with pytest.raises(SystemExit, match="2"):
        main(["deploy", "pynq-z9"])
    assert "argument BOARD: invalid choice: 'pynq-z9' (choose from " in capsys.readouterr().err
    with pytest.raises(DeployError, match="no board 'pynq-z9'; there are pynq-z1, pynq-z2, "):
        collect("pynq-z9", [tmp_path / "none.bit"])


def test_host_that_is_an_option_of_ssh(capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["deploy", "pynq-z2", "-oProxyCommand=touch x"])
    assert "HOST must be a name or an address, not '-oProxyC" in capsys.readouterr().err


@pytest.mark.parametrize(("program", "said", "code", "message"), [
    ("ssh", "ssh: Could not resolve hostname board", 255,
     r"making a temporary folder on board failed \(exit code 255\): .*resolve.* Is the board on"),
    ("ssh", "xilinx@board: Permission denied (publickey,password).", 255, "ssh-copy-id board"),
    ("ssh", "Host key verification failed.", 255, "Log in once with `ssh board`"),
    ("scp", "No space left on device", 1, "copying files on board failed .*No space left"),
    ("sudo", "sudo: a password is required", 1, "installing the wheel .*deploy as root@board"),
    ("sudo", "bash: python3: command not found", 127, "Name the board's Python .*--python"),
    ("python3", "ERROR: not a supported wheel", 1, "installing the wheel on board"),
])
def test_step_that_fails(network, files, program, said, code, message):
    fail(network, program, said, code)
    with pytest.raises(DeployError, match=message):
        deploy_remote(files[0], "board", files[1])


def test_step_that_hangs(network, files, monkeypatch):
    fail(network, "scp", "", 0, seconds=60)
    run = subprocess.run

    def sooner(command, *, timeout, **options):
        return run(command, timeout=timeout / 50 if command[0] == "scp" else timeout, **options)

    monkeypatch.setattr(subprocess, "run", sooner)
    with pytest.raises(DeployError, match=r"copying files on board took more than 5 s.*--timeout"):
        deploy_remote(files[0], "board", files[1], timeout_s=5)


def test_folder_is_removed_after_a_failure(network, files):
    fail(network, "sudo", "no")
    with pytest.raises(DeployError):
        deploy_remote(files[0], "board", files[1])
    stage = log(network)[0][-1].split()[-1]
    assert log(network)[-1][-1] == f"rm -rf {stage}"
    assert not Path(stage).exists()


@pytest.mark.parametrize("name", ["pynq-z2-test.bit", "cadata.npz"])
def test_damaged_on_the_way(network, files, name):
    (network / "damage").write_text(name)
    with pytest.raises(DeployError, match=f"{name} arrived damaged on board"):
        deploy_remote(files[0], "board", files[1])


def test_wrong_bitstream_on_the_board(network, tmp_path, files):
    payload = collect("pynq-z2", [write_bitstream(tmp_path, CONFIG, name="other", identity=3)])
    with pytest.raises(DeployError, match=r"deploying on the board .*another bitstream is loaded"):
        deploy_remote(payload, "board", files[1], folder=tmp_path / "board")


def test_no_ssh(files, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DeployError, match=r"ssh is not on PATH: install OpenSSH.*--local"):
        deploy_remote(files[0], "board", files[1])


def test_host_is_no_option(files):
    with pytest.raises(DeployError, match=r"must be a name or USER@NAME, not '-oProxyCommand=x'"):
        deploy_remote(files[0], "-oProxyCommand=x", files[1])


def test_local(files, tmp_path, monkeypatch, capsys):
    fake = FakePynq(CONFIG)
    monkeypatch.setitem(sys.modules, "pynq", fake)
    folder = tmp_path / "there"
    for _ in range(2):
        deploy_local(files[0], folder)
        assert deployed(folder) == FILES
    assert fake.loaded == [str(folder / "bitstreams/pynq-z2-test.bit")] * 2
    # From the place itself, as a second `bitstep deploy --local` would.
    here = collect("pynq-z2", [folder / "bitstreams/pynq-z2-test.bit"])
    deploy_local(here, folder)
    assert capsys.readouterr().out.count("loaded: ") == 3


def test_local_makes_pynq_forget(files, tmp_path, monkeypatch):
    """pynq would give a bitstream that is written over the description of the old one."""
    state = types.SimpleNamespace(clear_global_state=lambda: cleared.append(
        (tmp_path / "there").exists()))
    cleared = []
    monkeypatch.setitem(sys.modules, "pynq", FakePynq(CONFIG))
    monkeypatch.setitem(sys.modules, "pynq.pl_server", types.SimpleNamespace(global_state=state))
    deploy_local(files[0], tmp_path / "there", check=False, tell=lambda line: None)
    assert cleared == [False]               # before the files are there


def test_local_without_check(files, tmp_path):
    deploy_local(files[0], tmp_path / "there", check=False, tell=lambda line: None)
    assert deployed(tmp_path / "there") == FILES


def test_local_that_cannot_write(files, tmp_path, monkeypatch):
    def refuse(*_):
        raise PermissionError("Permission denied")

    monkeypatch.setattr(shutil, "copyfile", refuse)
    with pytest.raises(DeployError, match=r"\.bit cannot be written: .*as root \(sudo\).*--folder"):
        deploy_local(files[0], tmp_path / "there")


def test_local_that_reads_back_differently(files, tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "copyfile", lambda source, target: Path(target).write_bytes(b""))
    with pytest.raises(DeployError, match="reads back differently"):
        deploy_local(files[0], tmp_path / "there")


def test_nothing_to_deploy(tmp_path):
    with pytest.raises(DeployError, match=r"no bitstream for kv260 in .*BOARD=kv260"):
        collect("kv260", [], source=tmp_path)
    with pytest.raises(DeployError, match=r"no wheel in .*`make wheel`"):
        find_wheel(tmp_path)


def test_newest_wheel(tmp_path):
    for age, name in enumerate(("bitstep-2-py3.whl", "bitstep-10-py3.whl", "bitstep-1-py3.whl")):
        (tmp_path / name).write_bytes(b"")
        os.utime(tmp_path / name, (age, age))
    assert find_wheel(tmp_path).name == "bitstep-1-py3.whl"


def test_files_that_do_not_go_together(tmp_path):
    path = write_bitstream(tmp_path, CONFIG)
    with pytest.raises(DeployError, match=r"is for pynq-z2, not for kv260"):
        collect("kv260", [path])
    with pytest.raises(DeployError, match=r"missing\.npz do not exist: .*bitstep quantize"):
        collect("pynq-z2", [path], [tmp_path / "missing.npz"])
    (tmp_path / "other").mkdir()
    again = write_bitstream(tmp_path / "other", CONFIG)
    with pytest.raises(DeployError, match=r"different names .*, not two pynq-z2-test\.bit"):
        collect("pynq-z2", [path, again])
    path.with_suffix(".hwh").unlink()
    with pytest.raises(DeviceError, match="hwh does not exist"):
        collect("pynq-z2", [path])


def test_payload_lists_files(tmp_path):
    payload = Payload("pynq-z2", (read_bitstream(write_bitstream(tmp_path, CONFIG)),))
    assert [path.suffix for path, _ in payload.files] == [".bit", ".hwh", ".json"]
