"""Boards as the report sees them: clock, memory, resources, and the pipeline that suits them."""

from dataclasses import dataclass, replace
from typing import Any

from bitstep.pipeline.boards import FACTS, BoardFacts
from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.manifest import Manifest, read_manifest
from bitstep.pipeline.parts.formats import FLOAT_BITS
from bitstep_lab.board_report.areas import FRESH, KINDS, SOURCE, recorded, synthesize
from bitstep_lab.races.board_profiles import PROFILES


@dataclass(frozen=True)
class Board:
    """A board, or the bitstream of a manifest.

    Attributes
    ----------
    title : str
    clock_hz : float
    clock_source : str
        Where the clock is from, as a sentence without a full stop.
    memory : dict
        Options ``memory_latency`` and ``memory_gbps`` of the device that counts cycles.
    facts : BoardFacts or None
        None of a board whose manifest alone is known.
    manifest : Manifest or None
    """

    title: str
    clock_hz: float
    clock_source: str
    memory: dict[str, Any]
    facts: BoardFacts | None = None
    manifest: Manifest | None = None

    def bus_width(self, bits: int) -> int:
        """Bits of the row bus for codes of ``bits`` bits."""
        if self.manifest is not None:
            return self.manifest.config.bus_width
        assert self.facts is not None
        return self.facts.bus_widths.get(bits, self.facts.port_width)

    def pipeline(self, trained: PipelineConfig, n_features: int) -> PipelineConfig:
        """Return the pipeline of this board that can run what ``trained`` runs.

        Parameters
        ----------
        trained : PipelineConfig
            As a training chooses it, whatever the board.
        n_features : int

        Raises
        ------
        ValueError
            If there is none.
        """
        if self.facts is not None:
            trained = replace(trained, row_ports=self.facts.ports_for(trained.bus_width))
        if self.manifest is not None:
            built = self.manifest.config
            if trained.bits == built.bits:
                return built
            return replace(built, bits=trained.bits, row_format=trained.row_format,
                           refetch=built.refetch and trained.refetch,
                           update_interval=max(built.update_interval,
                                                 4 if trained.bits == FLOAT_BITS else 2))
        fast = replace(trained, update_interval=4) if trained.loss_family == "linear" else trained
        if fast.refetch:
            return fast if not fast.lookahead else fast.with_lookahead(n_features)
        return replace(fast, lookahead=0).with_lookahead()

    def resources(self, config: PipelineConfig, *, count: bool = False) -> dict[str, Any]:
        """Resources of a pipeline against those of the board.

        Parameters
        ----------
        count : bool
            True to synthesize what is not recorded, which takes minutes.

        Returns
        -------
        dict
            ``used`` and ``available`` by kind (None: not known), and ``source``.
        """
        manifest = self.manifest
        if manifest is not None and config == manifest.config:
            entries = manifest.resources
            return {"used": {kind: entry["used"] for kind, entry in entries.items()},
                    "available": {kind: entry["available"] for kind, entry in entries.items()},
                    "source": "placed and routed, by the manifest"} if entries else _unknown()
        if self.facts is None:
            return _unknown()
        used, source = recorded(config), SOURCE
        if used is None and count:
            used, source = synthesize(config), FRESH
        if used is None:
            return _unknown()
        if self.facts.device != "xc7z020":
            source += (f"; a {self.facts.device} has the same lookup tables and wider "
                       "multipliers, so it may need fewer DSP")
        return {"used": used, "source": source,
                "available": {kind: self.facts.resources[kind] for kind in KINDS}}


def _unknown():
    return {"used": None, "available": None, "source": "not synthesized"}


def board_named(name: str) -> Board:
    """A board by the name that `bitstep deploy` takes."""
    facts, profile = FACTS[name], PROFILES[name]
    return Board(f"{facts.title} ({facts.device})", profile.clock_hz,
                 "the clock that this board's bitstreams are built for; place and route has not "
                 "confirmed it", {"memory_latency": profile.memory_latency,
                                  "memory_gbps": profile.memory_gbps}, facts=facts)


def board_of(path: str) -> Board:
    """The board of a manifest.

    Raises
    ------
    DeviceError
        If the file is no manifest.
    """
    manifest = read_manifest(path, "a bitstream", "board", "clock_mhz")
    reached = manifest.clock_mhz.get("achieved")
    said = f"placed and routed for {manifest.clock_hz / 1e6:g} MHz"
    if reached:
        said += f", {reached:g} MHz reached"
    facts = FACTS.get(manifest.board)
    memory = board_named(manifest.board).memory if facts else {}    # else: in the FPGA itself
    return Board(f"{facts.title if facts else manifest.board}, {path}", manifest.clock_hz,
                 f"{said}, by the manifest", memory, facts=facts, manifest=manifest)


def largest_share(found: dict[str, Any]) -> tuple[str, float] | None:
    """The kind of resource that is used up first, and its share; None where it is not known."""
    if found["used"] is None:
        return None
    return max(((kind, used / found["available"][kind]) for kind, used in found["used"].items()),
               key=lambda pair: pair[1])
