"""A worker needs NumPy, the standard library and bitstep; everything else blocked."""

import subprocess
import sys

PROGRAM = """
import sys

class Block:
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top not in sys.stdlib_module_names and top not in ("numpy", "bitstep",
                                                              "bitstep_gradients"):
            raise ImportError(f"{name} is blocked")

sys.meta_path.insert(0, Block())

import numpy
from bitstep_gradients import Key, list_codecs, make_codec
import bitstep_gradients.exchange

for name in list_codecs():
    codec = make_codec(name)
    message = codec.encode(numpy.ones(9), Key(1))
    assert codec.decode(message, Key(1)).shape == (9,)
try:
    import bitstep_gradients.torch
except ImportError as error:
    print(error)
"""


def test_workers_need_numpy_alone():
    run = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True,
                         timeout=120)
    assert run.returncode == 0, run.stderr
    assert run.stdout == ("bitstep_gradients.torch needs torch (torch is blocked): "
                          'pip install "bitstep[torch]"\n')


def test_steps_of_torch_without_torch():
    block = "import sys; sys.modules['torch'] = None; "
    run = subprocess.run([sys.executable, "-c", block + "import bitstep_gradients.lab.ddp_steps"],
                         capture_output=True, text=True, timeout=120)
    assert run.returncode == 1
    assert run.stderr.startswith("error: steps of DistributedDataParallel need torch (")
    assert run.stderr.endswith('pip install "bitstep[torch]"\n')
