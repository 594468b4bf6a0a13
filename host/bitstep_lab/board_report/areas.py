"""Resources of pipelines that were synthesized, by the name of their configuration.

Tests compare the figures with the tables of docs/boards-pynq.md and docs/results.
"""

from bitstep.pipeline.config import PipelineConfig
from bitstep.plugins import entry_points

KINDS = ("LUT", "FF", "RAMB36", "DSP")
GROUP = "bitstep.synthesizers"      # entry points: functions of a configuration
FAMILY = "xc7"                      # name of the one that counts as the table does
SOURCE = "counted by Yosys (synth_xilinx for 7-series) before place and route, recorded"
FRESH = "counted by Yosys (synth_xilinx for 7-series) before place and route, just now"

# LUT, FF, RAMB36, DSP of the whole top.
RECORDED: dict[str, tuple[float, float, float, float]] = {
    "w64-b1-one-n4096-d16-c1": (29_868, 34_490, 94.5, 38),
    "w128-b2-one-n4096-d16-c1-ports2": (30_202, 34_484, 96.5, 38),
    "w128-b4-one-n4096-d16-c1-ports2": (19_020, 19_526, 52.5, 152),
    "w128-b8-one-n4096-d15-c1-ports2": (14_245, 14_591, 29.5, 88),
    "w128-b1-one-n4096-d17-c1": (60_869, 73_334, 4, 66),
    "w128-b2-one-n4096-d16-c1": (29_726, 34_161, 96.5, 38),
    "w256-b2-one-n4096-d17-c1-ports2": (61_476, 72_882, 6, 66),
    "w256-b4-one-n4096-d16-c1-ports2": (30_636, 30_634, 100.5, 294),
    "w256-b8-one-n4096-d16-c1-ports2": (19_862, 20_219, 56.5, 152),
    "w512-b4-one-n4096-d17-c1-ports4": (63_437, 66_243, 10, 578),
    "w512-b8-one-n4096-d16-c1-ports4": (32_779, 32_453, 108, 294),
    "w64-b1-one-n4096-d4-c4": (25_992, 26_653, 93.5, 51),
    "w64-b2-one-n4096-d4-c4": (16_967, 17_121, 51.5, 37),
    "w64-b4-one-n4096-d4-c4": (15_117, 12_332, 28.5, 109),
    "w64-b8-one-n4096-d4-c4": (11_830, 10_802, 17, 142),
    "w128-b1-one-n4096-d5-c4": (53_823, 59_715, 4, 81),
    "w128-b2-one-n4096-d4-c4": (26_981, 27_351, 94.5, 51),
    "w128-b4-one-n4096-d4-c4": (21_563, 17_074, 54.5, 173),
    "w128-b2-one-n4096-d4-c4-ports2": (27_391, 27_673, 94.5, 51),
    "w128-b4-one-n4096-d4-c4-ports2": (21_969, 17_394, 54.5, 173),
    "w128-b8-one-n4096-d4-c4-ports2": (15_089, 13_941, 31.5, 238),
    "w256-b4-one-n4096-d4-c4-ports2": (36_320, 27_714, 96.5, 315),
    "w256-b8-one-n4096-d4-c4-ports2": (20_684, 19_880, 60.5, 430),
    "w256-b2-one-n4096-d5-c4-ports2": (56_506, 61_695, 6, 81),
    "w512-b4-one-n4096-d5-c4-ports4": (77_969, 63_427, 10, 603),
    "w512-b8-one-n4096-d4-c4-ports4": (34_759, 33_561, 100.5, 828),
    "w128-b8-one-n4096-d4-c4": (14_666, 13_622, 31.5, 238),
    "w128-b16-planes-n4096-d4-c4": (38_549, 25_016, 101.5, 321),
    "w64-b1-one-n4096-d4-c4-nobatch-nocorr-m2": (27_313, 30_009, 65, 47),
    "w64-b1-one-n4096-d2-c4-nobatch-nocorr-m3": (35_901, 39_391, 97, 57),
    "w64-b1-one-n4096-d2-c4-nobatch-nocorr-m4": (45_735, 50_060, 129, 75),
    "w64-b4-one-n4096-d4-c4-m2": (23_503, 17_569, 54, 219),
    "w64-b1-one-n4096-d0-c2": (32_982, 22_229, 3, 42),
    "w64-b1-one-n4096-d7-c2": (37_122, 26_640, 3, 63),
    "w64-b2-one-n4096-d0-c2": (16_011, 13_780, 50.5, 28),
    "w64-b2-one-n4096-d7-c2": (19_443, 16_774, 51.5, 49),
    "w64-b4-one-n4096-d0-c2": (11_274, 9_278, 27.5, 92),
    "w64-b4-one-n4096-d6-c2": (16_224, 11_964, 28.5, 121),
    "w64-b8-one-n4096-d0-c2": (9_015, 7_678, 16, 60),
    "w64-b8-one-n4096-d6-c2": (11_066, 9_316, 17, 145),
    "w64-b4-one-n4096-d15-c1": (13_317, 13_888, 27.5, 88),
    "w64-b4-one-n4096-d15-c1-a7": (19_813, 17_274, 28.5, 117),
    "w64-b4-one-n4096-d3-c6-logistic": (12_849, 10_187, 28.5, 99),
    "w64-b4-one-n4096-d0-c6-logistic": (10_473, 8_894, 27.5, 86),
    "w64-b4-one-n4096-d19-c1-logistic": (11_902, 13_120, 27.5, 86),
    "w64-b4-one-n4096-d19-c1-a7-logistic": (18_518, 16_511, 28.5, 115),
    "w64-b8-one-n4096-d15-c1": (10_885, 11_536, 17, 56),
    "w64-b8-one-n4096-d15-c1-a7": (14_326, 13_356, 18, 198),
    "w64-b16-planes-n4096-d6-c2": (24_337, 18_025, 54.5, 253),
    "w64-b16-planes-n4096-d4-c4": (25_417, 17_329, 54.5, 193),
    "w64-b16-planes-n4096-d3-c6-logistic": (19_980, 14_749, 54.5, 168),
    "w64-b4-one-n8-d0-c2-packed": (11_128, 9_325, 1, 96),
    "w64-b4-one-n8-d0-c2-packed-m8": (14_379, 10_257, 1, 98),
    "w64-b4-one-n8-d0-c2-packed-m12": (15_862, 11_810, 1, 98),
    "w64-b4-one-n8-d0-c2-nocorr-packed": (8_815, 7_804, 1, 82),
    "w64-b4-one-n8-d0-c2-nocorr-packed-m8": (12_265, 8_864, 1, 84),
    "w64-b4-one-n8-d0-c2-nocorr-packed-m12": (13_822, 10_270, 1, 84),
}


def recorded(config: PipelineConfig) -> dict[str, float] | None:
    """Recorded resources of a configuration; None if it was not synthesized."""
    found = RECORDED.get(config.name)
    return None if found is None else dict(zip(KINDS, found, strict=True))


def synthesize(config: PipelineConfig) -> dict[str, float]:
    """Count the resources of a configuration now; takes minutes.

    Raises
    ------
    RuntimeError
        If no installed package synthesizes, or the tool fails.
    """
    points = entry_points(GROUP)
    try:
        if FAMILY not in points:
            raise ImportError(f"no package offers the entry point {FAMILY} of {GROUP}")
        count = points[FAMILY].load()
    except ImportError as error:
        raise RuntimeError(f"--synthesize needs the RTL and Yosys ({error}): pip install "
                           '"bitstep[bitstream]"') from error
    return count(config)
