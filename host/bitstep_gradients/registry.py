"""Codecs by name."""

import inspect
from typing import Any

from bitstep.checks import check_choice
from bitstep_gradients.codecs.base import Codec
from bitstep_gradients.codecs.levels.adaptive import (
    Alq,
    AlqGd,
    AlqLinf,
    AlqN,
    AlqNGd,
    Amq,
    AmqN,
)
from bitstep_gradients.codecs.levels.base import NuQsgd
from bitstep_gradients.codecs.levels.optimal import Optimal
from bitstep_gradients.codecs.ndqsg import Ndqsg
from bitstep_gradients.codecs.plain import BrainFloat16, Float16, Uncompressed
from bitstep_gradients.codecs.qcs import Qcs, Qcs1Bit, QcsMmse
from bitstep_gradients.codecs.signs import OneBit, Sign
from bitstep_gradients.codecs.sparse import RandomK, TopK
from bitstep_gradients.codecs.uniform import Dqsg, Qsgd, QsgdLinf, TernGrad

CODECS: dict[str, type[Codec]] = {one.name: one for one in (
    Uncompressed, Float16, BrainFloat16, Qsgd, QsgdLinf, TernGrad, Dqsg,
    Qcs, QcsMmse, Qcs1Bit, Ndqsg, OneBit, Sign, TopK, RandomK,
    NuQsgd, Alq, AlqN, Amq, AmqN, AlqGd, AlqNGd, AlqLinf, Optimal)}


def list_codecs() -> list[str]:
    """Names that :func:`make_codec` takes."""
    return list(CODECS)


def make_codec(name: str, **options: Any) -> Codec:
    """Make a codec.

    Parameters
    ----------
    name : str
        One of :func:`list_codecs`.
    **options
        Parameters of the codec's class, such as ``bits``, ``bucket_size`` or ``payload``.

    Returns
    -------
    codec : Codec

    Raises
    ------
    ValueError
        For an unknown name, an option that the codec does not have, or a bad value.
    """
    check_choice("name", name, CODECS)
    known = option_names(CODECS[name])
    for option in options:
        if option not in known:
            raise ValueError(f"{name} has no option {option!r}; it has "
                             f"{', '.join(known) if known else 'none'}")
    return CODECS[name](**options)


def option_names(codec: type[Codec]) -> list[str]:
    """Names of the options of a codec's class and of its bases."""
    names: dict[str, None] = {}
    for one in codec.__mro__:
        if not issubclass(one, Codec) or "__init__" not in vars(one):
            continue
        parameters = inspect.signature(one.__init__).parameters.values()
        names |= {each.name: None for each in parameters if each.kind is each.KEYWORD_ONLY}
        if not any(each.kind is each.VAR_KEYWORD for each in parameters):
            break
    return [name for name in names if name not in codec.preset]
