"""Gradients of few bits in torch's DistributedDataParallel; needs torch.

    state = bitstep_gradients.torch.Compression("dqsg", bits=4)
    state.register(ddp_model)
"""

try:
    import torch  # type: ignore # noqa: F401
except ImportError as error:
    raise ImportError(f"bitstep_gradients.torch needs torch ({error}): "
                      'pip install "bitstep[torch]"') from error

from bitstep_gradients.torch.compression import Compression, hook
from bitstep_gradients.torch.transport import TorchTransport

__all__ = ["Compression", "TorchTransport", "hook"]
