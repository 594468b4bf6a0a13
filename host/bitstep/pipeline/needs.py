"""What a run asks of its pipeline: registers whose values need a choice of the hardware.

The check of a job (:class:`bitstep.pipeline.job.TrainingJob`) and that of the registers in hardware
both follow from :data:`NEEDS`.
"""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Need:
    """A register that needs a part of the pipeline for all values but one.

    Attributes
    ----------
    register : str
        Field of a job, and register of that name.
    without : int
        Its value in a run that does not use the part.
    choice : str
        Field of :class:`bitstep.pipeline.config.PipelineConfig` that is true if the part is there.
    part : str
        The part in words, with what needs it.
    """

    register: str
    without: int
    choice: str
    part: str

    def asked(self, registers: Any) -> Any:
        """Whether a run uses the part: of a job a bool, of Amaranth's registers a value."""
        return getattr(registers, self.register) != self.without


NEEDS = (
    Need("batch", 1, "minibatch", "mini-batches"),
    Need("correction_period", 0, "corrections", "diagonal corrections (for L2, and for the "
         "encodings 'double-symmetric' and 'compensated')"),
    Need("proximal_period", 0, "proximal", "proximal steps (for L1 and a box constraint)"),
    Need("cell_half_levels", 0, "refetch", "refetching"),
    Need("weighted", 0, "row_weights", "weights of rows"),
)


def missing_rounding(job: Any, config: Any) -> list[tuple[str, int, str]]:
    """What a pipeline cannot round to the few bits that a job asks for: in words, the bits, and the
    option of ``bitstep rtl`` that makes a pipeline which can.
    """
    return [(what, bits, option) for what, bits, there, option in (
        ("a model", job.model_bits, config.model_bits, f"--model-bits {job.model_bits}"),
        ("updates", job.update_bits, config.rounded_updates, "--rounded-updates"))
        if bits and not there]


def check_needs(job: Any) -> None:
    """Raise ValueError unless the pipeline of a training job has every part that it asks for."""
    for need in NEEDS:
        if need.asked(job) and not getattr(job.config, need.choice):
            raise ValueError(f"This pipeline has no {need.part}, so {need.register} must be "
                             f"{need.without}, not {getattr(job, need.register)}; build one with "
                             f"{need.choice}=True")
