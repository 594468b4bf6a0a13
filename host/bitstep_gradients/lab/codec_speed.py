"""Speed of gradient codecs: encoding plus decoding, beside torch's 8-bit quantization.

Times are processor times of one thread. All methods take turns; a ratio is taken within a turn, and
each figure is the median of the turns. What they are compared with, if torch is installed:

- operators: torch's MinMaxObserver, quantize_per_tensor to uint8, and dequantize
- hook: the functions that torch's quantization_pertensor_hook calls to do the same

    python -m bitstep_gradients.lab.codec_speed
"""

import argparse
import time
import warnings
from collections.abc import Callable
from unittest.mock import patch

import numpy as np

from bitstep.cli.options import integer
from bitstep_gradients import Codec, Key, kernels, list_codecs, make_codec
from bitstep_lab.markdown import add_choice, print_header, print_row

KEY = Key(seed=1, step=2, rank=3, tensor=4)
# Settings of the codecs that have a choice; all others are taken as they come.
WIDTHS = [{"bits": 2}, {"bits": 4}, {"bits": 8}]
CODERS = [{"bits": 2, "payload": "radix"}, {"bits": 4, "payload": "huffman"},
          {"bits": 4, "payload": "range"}]
SETTINGS = {"qsgd": WIDTHS, "qsgd-linf": WIDTHS,
            "dqsg": [*WIDTHS, {"bits": 4, "bucket_size": 512}, *CODERS]}


def torch_work(values: np.ndarray) -> dict[str, Callable[[], object]]:
    """Quantize and restore values by torch, by name of the way; empty without torch."""
    try:
        import torch  # pyright: ignore[reportMissingImports]
        from torch.ao.quantization import MinMaxObserver  # pyright: ignore[reportMissingImports]
        from torch.distributed.algorithms.ddp_comm_hooks import (  # pyright: ignore
            quantization_hooks as hooks,
        )
    except ImportError:
        return {}
    torch.set_num_threads(1)
    tensor = torch.from_numpy(values)

    def operators():
        scale, zero = observed(MinMaxObserver(dtype=torch.quint8))
        return torch.quantize_per_tensor(tensor, float(scale), int(zero), torch.quint8).dequantize()

    def hook():
        scale, zero = observed(MinMaxObserver())
        coded = hooks._quantize_per_tensor_backend(tensor, scale, zero)
        return hooks._dequantize_per_tensor_backend(coded, scale, zero)

    def observed(observer):
        observer(tensor)
        return observer.calculate_qparams()

    return {"operators": operators, "hook": hook}


def seconds(work: Callable[[], object]) -> float:
    """Processor time of a call, in all threads."""
    start = time.process_time()
    work()
    return time.process_time() - start


def measure(codec: Codec, values: np.ndarray, side: np.ndarray,
            references: dict[str, Callable[[], object]], turns: int) -> dict[str, float]:
    """Median seconds of encoding and decoding, median ratios, and bits a value."""
    found = []
    message = codec.encode(values, KEY, side)       # compiles the loops
    codec.decode(message, KEY, side)
    for _ in range(turns):
        one = {name: seconds(work) for name, work in references.items()}
        encode = seconds(lambda: codec.encode(values, KEY, side))
        decode = seconds(lambda: codec.decode(message, KEY, side))
        found.append([encode, decode, *((encode + decode) / each for each in one.values())])
    return dict(zip(["encode", "decode", *references], np.median(found, axis=0), strict=True)) \
        | {"bits": 8 * len(message) / values.size}


def main() -> None:
    """Print a Markdown table of milliseconds and ratios."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n    ")[0],
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add_choice(parser, "codecs", list_codecs())
    parser.add_argument("--values", type=integer(1), default=10**7, help="(default: 10,000,000)")
    parser.add_argument("--turns", type=integer(1), default=7, help="(default: 7)")
    parser.add_argument("--numpy", action="store_true", help="without the compiled loops")
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    values = rng.standard_normal(options.values, np.float32)
    side = values + np.float32(0.01) * rng.standard_normal(options.values, np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")             # torch's, that its operators will go
        references = torch_work(values)
        for work in references.values():
            work()
        print(f"{options.values:,} normal values, {options.turns} turns, loops in "
              f"{'NumPy' if options.numpy or not kernels.find_kernels() else 'numba'}"
              + "".join(f"; torch, {name}: {1000 * seconds(work):.0f} ms"
                        for name, work in references.items())
              + ("" if references else "; torch is not installed, so nothing to compare with"))
        print_header(", ".join(["codec", "options", "bits a value", "encode ms", "decode ms",
                         *(f"/ torch {name}" for name in references)]))
        with patch.object(kernels, "find_kernels",
                          (lambda: None) if options.numpy else kernels.find_kernels):
            for name in options.codecs:
                for setting in SETTINGS.get(name, [{}]):
                    found = measure(make_codec(name, **setting), values, side, references,
                                    options.turns)
                    print_row(name, " ".join(f"{key}={value}" for key, value in setting.items()),
                        f"{found['bits']:.2f}", f"{1000 * found['encode']:.0f}",
                        f"{1000 * found['decode']:.0f}",
                        *(f"{found[each]:.2f}" for each in references))


if __name__ == "__main__":
    main()
