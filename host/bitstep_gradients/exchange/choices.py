"""Codecs of tensors: the chosen one, overrides by name, and none for small tensors."""

from collections.abc import Mapping
from copy import deepcopy
from fnmatch import fnmatchcase
from typing import Any

import numpy as np

from bitstep.checks import check_integer
from bitstep_gradients.codecs.base import Codec
from bitstep_gradients.control.controller import BitController
from bitstep_gradients.control.feedback import ErrorFeedback
from bitstep_gradients.registry import make_codec

UNCOMPRESSED = "none"
SMALL = 1024


class CodecChoice:
    """Choice of a codec for every tensor.

    Parameters
    ----------
    codec : str or Codec
        A name, or a codec that is copied for every tensor.
    options : mapping
        Options of the name.
    error_feedback : bool or float
        See :class:`bitstep_gradients.exchange.Aggregator`.
    min_size : int
    overrides : mapping of str to (str or Codec), or None

    Raises
    ------
    ValueError, TypeError
        For a codec, an option or a weight that cannot be.
    """

    def __init__(self, codec: "str | Codec", options: Mapping[str, Any], *,
                 error_feedback: "bool | float | None", min_size: int,
                 overrides: "Mapping[str, str | Codec] | None"):
        check_integer("min_size", min_size, 0)
        if not isinstance(overrides, (Mapping, type(None))):
            raise TypeError("overrides must be a dictionary, such as {'fc1.*': 'fp16'}, not "
                            f"{overrides!r}")
        if isinstance(error_feedback, (bool, np.bool_)):
            error_feedback = 1.0 if error_feedback else None
        self.weight = error_feedback
        self.codec = self.prepared(codec, options)
        self.small = make_codec(UNCOMPRESSED)
        self.min_size = min_size
        self.overrides = {pattern: self.prepared(one) for pattern, one in (overrides or {}).items()}

    def prepared(self, codec: "str | Codec", options: Mapping[str, Any] | None = None) -> Codec:
        """A codec of a name or an object, with error feedback if it was asked for."""
        if isinstance(codec, str):
            codec = make_codec(codec, **(options or {}))
        elif not isinstance(codec, Codec):
            raise TypeError("codec must be a name of bitstep_gradients.list_codecs() or a codec, "
                            f"not {codec!r}")
        elif options:
            raise ValueError(f"options ({', '.join(options)}) belong to the name of a codec; give "
                             "them to the codec itself")
        else:
            codec = deepcopy(codec)         # the caller's codec never changes
        if self.weight is None or codec.name == UNCOMPRESSED:
            return codec
        if isinstance(codec, ErrorFeedback):
            raise ValueError("the codec has error feedback already; leave error_feedback away")
        return ErrorFeedback(codec, weight=self.weight)

    def for_tensors(self, sizes: Mapping[str, int],
                    own: Mapping[str, Codec] | None = None) -> dict[str, Codec]:
        """A codec of its own for every tensor.

        Parameters
        ----------
        sizes : mapping of str to int
            Values of each tensor.
        own : mapping of str to Codec, optional
            Codecs of some of them, before all other choices.

        Returns
        -------
        codecs : dict of str to Codec

        Raises
        ------
        ValueError
            For a pattern of ``overrides`` that no name fits.
        """
        unused = set(self.overrides)
        found, controllers = {}, {}
        for name, size in sizes.items():
            fitting = [pattern for pattern in self.overrides if fnmatchcase(name, pattern)]
            unused -= set(fitting)
            if own and name in own:
                codec = own[name]
            elif fitting:
                codec = self.overrides[fitting[0]]
            else:
                codec = self.small if size < self.min_size else self.codec
            found[name] = _copy(codec, controllers)
        if unused:
            raise ValueError(f"overrides has {', '.join(map(repr, sorted(unused)))}, which fits "
                             f"none of the tensors {', '.join(list(sizes)[:20])}")
        return found


def _copy(codec: Codec, controllers: dict[int, BitController]) -> Codec:
    """A copy. There is one controller of bits for the gradient of all tensors: ``controllers`` has
    its copy, by the identity of the first, for all who share it.
    """
    inside = codec.codec if isinstance(codec, ErrorFeedback) else codec
    if not isinstance(inside, BitController):
        return deepcopy(codec)
    if id(inside) not in controllers:
        controllers[id(inside)] = deepcopy(inside)
    return deepcopy(codec, {id(inside): controllers[id(inside)]})
