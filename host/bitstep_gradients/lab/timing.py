"""Modelled time of an exchange: nobody's network, two numbers that everybody knows of theirs."""

from dataclasses import dataclass

from bitstep_gradients.exchange import AllGather, TwoPhase

SUMMED = ("none", "fp16", "bf16")       # sums have the length of a part: all-reduce can add them


@dataclass(frozen=True)
class Network:
    """Ranks in a ring, each with a link to the next.

    Parameters
    ----------
    gbits : float
        Bandwidth of a link in each direction, in 10**9 bits a second.
    latency_s : float
        Seconds from one rank to the next for a message of no length.
    """

    gbits: float
    latency_s: float

    @property
    def title(self) -> str:
        """Name for axes and heads."""
        return f"{self.gbits:g} Gbit/s, {1e6 * self.latency_s:g} us"

    def step_s(self, codec: str, n_bytes: float, n_workers: int,
               exchange: str = AllGather.name) -> float:
        """Seconds in which all ranks get what one step sends.

        A ring all-gather has W - 1 turns with all of a rank's bytes each. Floats can be added on
        their way: a ring all-reduce has 2 (W - 1) turns with a W-th of the bytes each, and they
        take the faster of the two. Messages of codes cannot be added.

        The two-phase scheme has 2 (W - 1) turns as well, with one slice each: a rank makes messages
        of W slices, and of the average of one.

        Parameters
        ----------
        codec : str
            Its name.
        n_bytes : float
            Messages of a rank.
        n_workers : int
            W.
        exchange : str
            A key of ``bitstep_gradients.exchange.EXCHANGES``.
        """
        turns, seconds_a_byte = n_workers - 1, 8 / (1e9 * self.gbits)
        if exchange == TwoPhase.name:
            return 2 * turns * (self.latency_s + n_bytes / (n_workers + 1) * seconds_a_byte)
        gathered = turns * (self.latency_s + n_bytes * seconds_a_byte)
        if codec not in SUMMED:
            return gathered
        return min(gathered, 2 * turns * (self.latency_s + n_bytes / n_workers * seconds_a_byte))
