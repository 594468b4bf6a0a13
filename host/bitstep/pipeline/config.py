"""The pipeline configuration: every choice that changes the hardware.

A :class:`PipelineConfig` is what the generator turns into RTL. What follows from the choices
belongs to the row format, :attr:`PipelineConfig.rows`, or to a stage, in
:attr:`PipelineConfig.stages`; the configuration sums up what they say.
"""

import functools
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from bitstep.checks import check_bool, check_choice, check_integer
from bitstep.pipeline.parts.exclusions import EXCLUSIONS, TRAITS
from bitstep.pipeline.parts.formats import (
    BIT_PLANES,
    ROW_FORMATS,
    RowFormat,
    plain_format,
)
from bitstep.pipeline.parts.lookahead import LookAhead
from bitstep.pipeline.parts.stages import UPDATE_INTERVALS, Clock, Stages, stages_of
from bitstep.pipeline.parts.widths import (
    BUS_WIDTHS,
    FEW_BITS,
    LEAST_PORT_WIDTH,
    MAX_FEATURES,
    MAX_LOOKAHEAD,
    MAX_MODELS,
    MAX_PACKED_MODELS,
    ROW_PORTS,
)
from bitstep.pipeline.registers import Register, registers_of

LOSS_FAMILIES = ("linear", "logistic")

# What a pipeline and the jobs that it runs have alike, and the parts that it must have if they do.
ALIKE = ("bits", "bus_width", "row_format", "loss_family", "codebooks", "packed")
PARTS = ("proximal", "refetch", "rounded_updates", "row_weights")

_FLAGS = ("minibatch", "corrections", "proximal", "refetch", "codebooks", "rounded_updates",
          "packed", "row_weights")


@dataclass(frozen=True, kw_only=True)
class PipelineConfig:
    """One SGD pipeline, as plain choices.

    Parameters
    ----------
    bus_width : {64, 128, 256, 512}
        Bits in a beat of the row bus.
    bits : int
        Stored bits per value, 1 to 8; 32 for row format ``float32``, 16 for ``bit_planes``.
    row_format : {"one_level", "two_levels", "float32", "bit_planes"}
        ``one_level``: a code is one signed level, used in the dot product and in the gradient
        (encodings ``nearest``, ``stochastic``, ``double-symmetric``, ``compensated``).
        ``two_levels``: a code holds two samples, one for each use (encoding ``double``).
        ``float32``: a value is an IEEE 754 single-precision number in [-1, 1].
        ``bit_planes``: bit planes, of which each epoch reads as many as its entry says; at most
        65,536 features.
    max_features : int
        Features that the memories are sized for; rounded up to whole beats (``capacity``).
    lookahead : int
        Rows by which the model in memory may trail the row being read. 0 waits for every update.
    update_interval : int
        Cycles from one update to the next, the least distance between two rows: 2, or 4 for a fast
        clock; 6 with loss family ``logistic``. 1: the rows of a batch enter one beat a cycle, every
        batch begins with an empty pipeline (``drains``), and there are no products with the rows
        before but those of ``batch_lookahead``. This needs rows of codes or numbers, ``minibatch``
        and no ``refetch``.
    batch_lookahead : int
        With ``update_interval`` 1, rows at a batch's start that may enter before the updates of the
        batch before are there, at most what saves cycles (:meth:`with_batch_lookahead`): products
        with so many rows before are formed (costs their products in all lanes, and multipliers).
        0: the pipeline drains between two batches. Needs rows of codes, and neither ``model_bits``
        nor ``rounded_updates``.
    minibatch : bool
        True if batches of more than one row are possible (costs a second model memory).
    corrections : bool
        True if the diagonal corrections and L2 are possible (costs a memory and multipliers).
    loss_family : {"linear", "logistic"}
        ``linear``: losses whose derivative is piecewise linear (least squares, squared hinge,
        hinge, Huber). ``logistic``: the logistic loss.
    proximal : bool
        True if proximal steps (L1 and box constraint) are possible.
    refetch : bool
        True if rows that could be on either side of the hinge are read again with 16 bits a value
        (costs memories, multipliers and a port). Needs row format ``one_level`` and loss family
        ``linear``.
    codebooks : bool
        True if every feature has a table of its levels, loaded at the start of a run: a code is an
        index into it (costs a memory a lane, and lanes as wide as with 8 bits). Needs row format
        ``one_level``, at most 5 bits and no ``refetch``.
    models : int
        Models that one pass over the rows trains, 1 to 8 (costs a dot product, a model memory, a
        solver and, with ``corrections``, an engine each). More than 1 needs rows of whole codes
        and no ``refetch``. With ``packed`` 1 to 16, which are interleaved on one path.
    model_bits : int
        Largest number of bits of the model that dot products meet, 2 to 16, for runs that round
        it; 0: dot products meet words of 32 bits. Costs rounding in a few lanes; saves
        multipliers, the products with the rows before and most of the second model memory.
    rounded_updates : bool
        True if updates can be rounded to 2 to 16 bits. With this or ``model_bits`` every batch
        begins with an empty pipeline (``drains``), and needs integer rows of fixed bits, no
        ``refetch`` and one model.
    packed : bool
        True if rows follow each other in memory without padding, ``max_features`` codes each, and
        those of a beat are taken together (docs/pipeline.md#packed-rows). Needs ``max_features`` of
        at most 64 that fit a beat, whole codes, ``update_interval=2``, ``lookahead=0``,
        and none of ``proximal``, ``refetch`` and ``codebooks``.
    row_weights : bool
        True if rows can have weights, beside their labels (costs a multiplier a model, and the
        largest derivative's step for each row; of packed rows for each row of a beat).
    row_ports : {1, 2, 4}
        Memory ports that the row bus is made of, of at least 64 bits each. Memory holds the rows in
        as many slices, which are read side by side (docs/memory-layout.md). Results and cycles are
        those of a single port that is as wide.

    Raises
    ------
    ValueError
        If a choice is out of range; the message says what must hold.
    """

    bus_width: int = 64
    bits: int = 4
    row_format: str = "one_level"
    max_features: int = 4096
    lookahead: int = 8
    update_interval: int = 2
    batch_lookahead: int = 0
    minibatch: bool = True
    corrections: bool = True
    loss_family: str = "linear"
    proximal: bool = False
    refetch: bool = False
    codebooks: bool = False
    models: int = 1
    model_bits: int = 0
    rounded_updates: bool = False
    packed: bool = False
    row_weights: bool = False
    row_ports: int = 1

    def __post_init__(self):
        for name in ("bus_width", "bits", "max_features", "lookahead", "update_interval",
                     "batch_lookahead", "models", "model_bits", "row_ports"):
            if isinstance(value := getattr(self, name), np.integer):
                object.__setattr__(self, name, int(value))
        for name in _FLAGS:
            if isinstance(value := getattr(self, name), np.bool_):
                object.__setattr__(self, name, bool(value))
        check_choice("bus_width", self.bus_width, BUS_WIDTHS)
        check_choice("row_ports", self.row_ports, ROW_PORTS)
        if self.port_width < LEAST_PORT_WIDTH:
            raise ValueError(f"row_ports must divide the row bus into ports of at least "
                             f"{LEAST_PORT_WIDTH} bits, not {self.bus_width} bits into "
                             f"{self.row_ports}; choose fewer ports or a wider bus_width")
        check_choice("row_format", self.row_format, (*ROW_FORMATS, BIT_PLANES))
        plain_format(self.row_format).check_bits(self)
        check_integer("max_features", self.max_features, 1, MAX_FEATURES)
        check_integer("lookahead", self.lookahead, 0, MAX_LOOKAHEAD)
        check_integer("models", self.models, 1, MAX_PACKED_MODELS if self.packed else MAX_MODELS)
        check_choice("loss_family", self.loss_family, LOSS_FAMILIES)
        check_choice(f"update_interval of loss family {self.loss_family!r}", self.update_interval,
                     UPDATE_INTERVALS[self.loss_family])
        for name in _FLAGS:
            check_bool(name, getattr(self, name))
        if self.model_bits != 0 or isinstance(self.model_bits, bool):
            check_integer("model_bits that are not 0", self.model_bits, *FEW_BITS)
        self._check_exclusions()
        if self.batch_lookahead != 0 or isinstance(self.batch_lookahead, bool):
            check_integer(f"batch_lookahead of lookahead {self.lookahead}", self.batch_lookahead,
                          0, self.ahead.most_between(None))
        self.rows.check_features()

    def _check_exclusions(self):
        said = {trait: " and ".join(f"{name}={getattr(self, name)!r}" for name, holds in
                                    fields.items() if holds(getattr(self, name)))
                for trait, fields in TRAITS.items()}
        for one in EXCLUSIONS:
            if said[one.one] and said[one.other]:
                raise ValueError(f"{said[one.one]} does not go together with {said[one.other]}: "
                                 f"{one.reason}; leave one of the two out")

    # What the choices make

    @functools.cached_property
    def stages(self) -> Stages:
        """The stages of the pipeline, with the cycles that they take."""
        return stages_of(self)

    @property
    def rows(self) -> RowFormat:
        """The row format: what a code means, and how rows stand in memory."""
        return self.stages.rows

    @property
    def registers(self) -> tuple[Register, ...]:
        """The registers that the pipeline has."""
        return registers_of(self.register_choices)

    @property
    def register_choices(self) -> list[str]:
        """Choices that bring registers of their own (:attr:`Register.choice`), if they are made."""
        return [name for name in _FLAGS if getattr(self, name)] \
            + ["row_ports"] * (self.row_ports > 1)

    @property
    def row_buses(self) -> list[str]:
        """Names of the top's buses for rows, in the order of their slices."""
        return ["m_axi_rows", *(f"m_axi_rows{port}" for port in range(1, self.row_ports))]

    @property
    def fine_buses(self) -> list[str]:
        """Names of the top's buses for fine rows: one with ``refetch``, else none."""
        return ["m_axi_fine"] * self.refetch

    @property
    def port_width(self) -> int:
        """Bits of a memory port of the rows."""
        return self.bus_width // self.row_ports

    @functools.cached_property
    def clock(self) -> Clock:
        """The clock that the pipeline has registers for."""
        return Clock(self.update_interval)

    @property
    def drains(self) -> bool:
        """True if every batch begins with an empty pipeline, all updates before it applied."""
        return self.model_bits > 0 or self.rounded_updates or self.clock.every_cycle

    @property
    def carries_on(self) -> bool:
        """True if a batch's first row carries the last update of the batch before: it begins as
        soon as that is there. Else the pipeline settles in between, since something is made of the
        model, or the hardware was built so.
        """
        return self.clock.every_cycle and not self.model_bits

    @property
    def latency(self) -> int:
        """Cycles from a row's last beat to the first beat that may apply its update."""
        return self.stages.latency

    @functools.cached_property
    def ahead(self) -> LookAhead:
        """How far rows look ahead, and what that asks of memories."""
        return LookAhead(self)

    # Jobs and other pipelines

    def runs(self, other: "PipelineConfig") -> bool:
        """True if this pipeline runs the jobs of another one, as far as its options go.

        Cycles per update and ports may differ, and so may the look-ahead of integer rows: they
        change the speed alone. The sizes of a job are checked with the job
        (:func:`bitstep.pipeline.results.check_job`).

        Parameters
        ----------
        other : PipelineConfig
            The pipeline that the jobs are made for.
        """
        names = (*ALIKE, *PARTS, "model_bits")
        return self.has({name: getattr(other, name) for name in names}) and all(
            self.ahead.keeps(other.ahead, beats)
            for beats in range(1, min(self.rows.max_beats, other.rows.max_beats) + 1))

    def has(self, wanted: Mapping[str, Any]) -> bool:
        """True if this pipeline has what jobs need: options of :data:`ALIKE` as they are wanted,
        each of :data:`PARTS` that is wanted, and as many bits of a quantized model, or none.

        Parameters
        ----------
        wanted : mapping of str to value
            By the names of those options; what it does not name, the jobs leave open.
        """
        model_bits = wanted.get("model_bits", self.model_bits)
        return all(getattr(self, name) == wanted[name] for name in ALIKE if name in wanted) \
            and all(getattr(self, name) or not wanted.get(name) for name in PARTS) \
            and bool(self.model_bits) == bool(model_bits) and self.model_bits >= model_bits

    def with_lookahead(self, n_features: int | None = None) -> "PipelineConfig":
        """This configuration with exactly the look-ahead that rows of ``n_features`` need, or, for
        None, rows of any length.
        """
        lookahead = max(map(self.stages.required_lookahead, self.ahead.lengths(n_features)))
        config = replace(self, lookahead=lookahead, batch_lookahead=0)
        return replace(config, batch_lookahead=min(self.batch_lookahead,
                                                   config.ahead.most_between(None)))

    def with_batch_lookahead(self, n_features: int | None = None) -> "PipelineConfig":
        """This configuration with as much look-ahead from a batch to the next as rows of
        ``n_features`` gain from, or, for None, rows of any length; ``update_interval`` must be 1.
        """
        return replace(self, batch_lookahead=self.ahead.most_between(n_features))

    # Identity

    @property
    def name(self) -> str:
        """Short name for files and messages, unique among configurations."""
        flags = "".join(f"-{flag}" for flag, said in (
            (f"a{self.batch_lookahead}", self.batch_lookahead),
            ("nobatch", not self.minibatch), ("nocorr", not self.corrections),
            ("logistic", self.loss_family == "logistic"), ("proximal", self.proximal),
            ("refetch", self.refetch), ("codebooks", self.codebooks),
            ("packed", self.packed), (f"m{self.models}", self.models > 1),
            (f"q{self.model_bits}", self.model_bits), ("rounded", self.rounded_updates),
            ("weights", self.row_weights), (f"ports{self.row_ports}", self.row_ports > 1)) if said)
        return (f"w{self.bus_width}-b{self.bits}-{self.rows.short}-n{self.max_features}"
                f"-d{self.lookahead}-c{self.update_interval}{flags}")

    def to_dict(self) -> dict[str, Any]:
        """The choices as a dictionary that JSON can hold."""
        return asdict(self)
