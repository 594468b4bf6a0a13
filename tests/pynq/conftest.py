"""Only where pynq is installed, as `make test-pynq` does, are there tests in this folder."""

from importlib.util import find_spec

if find_spec("pynq") is None:
    collect_ignore_glob = ["test_*.py"]
