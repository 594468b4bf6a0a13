"""Bytes of messages stay what they are: a digest for each codec."""

import hashlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from bitstep_gradients import Key, list_codecs, make_codec
from bitstep_gradients.registry import CODECS, option_names

CHOICES: dict[str, tuple[Any, ...]] = {
    "bits": (3, 5), "bucket_size": (64, 512), "payload": ("fixed", "radix", "huffman"),
    "share": (0.3,), "ratio": (5,), "norm": ("l2", "linf")}
DIGESTS: dict[str, str] = {
    "none": "26a5cdde6b1c015f",
    "fp16": "80dfdb4bf282fe49",
    "bf16": "91eaec716a8f6e93",
    "qsgd": "a10f3566a6a733ae",
    "qsgd-linf": "4a77a6b55ac55704",
    "terngrad": "65ae2917712f9fca",
    "dqsg": "f0c22e16c7bade1a",
    "qcs": "9aa097dd6384c07f",
    "qcs-mmse": "83cdb5c1ec1f623b",
    "qcs-1bit": "42c2d7184aae7fba",
    "ndqsg": "f0c5d51284920480",
    "one-bit": "525f1a855ecf8cc4",
    "sign": "d84c6e4634f92376",
    "top-k": "f0ff0d7ac398ad8c",
    "random-k": "1367708b87de7956",
    "nuqsgd": "943522512c6b6155",
    "alq": "a35ec9ed71ffb68b",
    "alq-n": "92541bc8d26f87e5",
    "amq": "a5ec775c297b2041",
    "amq-n": "ca8176f23f0c15aa",
    "alq-gd": "14ecd7b178d56af7",
    "alq-n-gd": "216984a984ff38ba",
    "alq-linf": "bd2f8f6934d7f980",
    "optimal": "47729cd49395e484",
}


def vectors() -> Iterator[np.ndarray]:
    """Vectors of random bits, so that no version of NumPy draws others; and zeros."""
    for size in (1, 7, 512, 5000):
        words = np.random.PCG64(size).random_raw(size)
        yield ((words >> np.uint64(11)) * 2.0**-52 - 1).astype(np.float32)
        yield np.zeros(size, np.float32)


def settings(name: str) -> Iterator[dict[str, Any]]:
    """The default, and each choice of an option that the codec has."""
    yield {}
    for option in option_names(CODECS[name]):
        for value in CHOICES.get(option, ()):
            if option != "payload" or value in CODECS[name].payloads:
                yield {option: value}


def digest(name: str) -> str:
    """Digest of the codec's messages for all settings and vectors."""
    messages = hashlib.sha256()
    for options in settings(name):
        codec = make_codec(name, **options)
        for step, vector in enumerate(vectors()):
            messages.update(codec.encode(vector, Key(2**32 - 1, step, 1, 2)))
    return messages.hexdigest()[:16]


@pytest.mark.parametrize("name", list_codecs())
def test_messages_have_the_same_bytes_as_ever(name):
    assert digest(name) == DIGESTS[name]


def test_every_codec_is_in_the_table():
    assert list(DIGESTS) == list_codecs()
