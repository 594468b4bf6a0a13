"""Gradients of few bits in torch's DistributedDataParallel; needs torch.

    state = bitstep.torch.Compression("dqsg", bits=4)
    ddp_model.register_comm_hook(state, bitstep.torch.hook)
"""

try:
    import torch  # type: ignore # noqa: F401
except ImportError as error:
    raise ImportError(f'bitstep.torch needs torch ({error}): pip install "bitstep[torch]"') \
        from error

from bitstep.torch.compression import Compression, hook
from bitstep.torch.transport import TorchTransport

__all__ = ["Compression", "TorchTransport", "hook"]
