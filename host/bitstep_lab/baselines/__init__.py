"""Baselines of a race: training on a CPU with the same data, losses and steps.

Every method runs compiled kernels or a compiled library; none is an interpreted loop. Importing
the package needs NumPy alone: :func:`train_cpu` and :func:`memory_read_ceiling` need
``bitstep[bench]``, :func:`train_sklearn` needs ``bitstep[sklearn]``. ``bitstep bench --baselines``
measures them all on this machine.
"""

from bitstep_lab.baselines.cpu import train_cpu
from bitstep_lab.baselines.memory import memory_copy_ceiling, memory_read_ceiling
from bitstep_lab.baselines.runs import DivergedError
from bitstep_lab.baselines.sklearn_sgd import train_sklearn

__all__ = ["DivergedError", "memory_copy_ceiling", "memory_read_ceiling", "train_cpu",
           "train_sklearn"]
