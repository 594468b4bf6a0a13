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
    "w64-b1-one-n4096-d16-c1": (30_095, 30_888, 94.5, 38),
    "w128-b2-one-n4096-d16-c1-ports2": (30_578, 30_883, 96.5, 38),
    "w128-b4-one-n4096-d16-c1-ports2": (19_580, 17_745, 52.5, 152),
    "w128-b8-one-n4096-d15-c1-ports2": (14_630, 13_348, 29.5, 88),
    "w128-b1-one-n4096-d17-c1": (61_245, 66_848, 4, 66),
    "w128-b2-one-n4096-d16-c1": (30_053, 30_561, 96.5, 38),
    "w256-b2-one-n4096-d17-c1-ports2": (61_829, 66_389, 6, 66),
    "w256-b4-one-n4096-d16-c1-ports2": (31_100, 27_767, 100.5, 294),
    "w256-b8-one-n4096-d16-c1-ports2": (20_284, 18_419, 56.5, 152),
    "w512-b4-one-n4096-d17-c1-ports4": (63_673, 61_229, 10, 578),
    "w512-b8-one-n4096-d16-c1-ports4": (32_824, 29_558, 108, 294),
    "w64-b1-one-n4096-d4-c4": (26_100, 26_170, 93.5, 49),
    "w64-b2-one-n4096-d4-c4": (17_108, 16_635, 51.5, 35),
    "w64-b4-one-n4096-d4-c4": (14_535, 11_323, 28.5, 107),
    "w64-b8-one-n4096-d4-c4": (11_085, 9_794, 17, 140),
    "w128-b1-one-n4096-d5-c4": (54_896, 59_501, 4, 81),
    "w128-b2-one-n4096-d4-c4": (27_049, 26_866, 94.5, 49),
    "w128-b4-one-n4096-d4-c4": (20_910, 15_861, 54.5, 171),
    "w128-b2-one-n4096-d4-c4-ports2": (28_489, 27_450, 94.5, 51),
    "w128-b4-one-n4096-d4-c4-ports2": (23_114, 17_175, 54.5, 173),
    "w256-b4-one-n4096-d4-c4-ports2": (37_425, 27_493, 96.5, 315),
    "w256-b8-one-n4096-d4-c4-ports2": (21_771, 19_659, 60.5, 430),
    "w256-b2-one-n4096-d5-c4-ports2": (57_460, 61_474, 6, 81),
    "w512-b4-one-n4096-d5-c4-ports4": (79_051, 63_200, 10, 603),
    "w128-b8-one-n4096-d4-c4": (13_994, 12_554, 31.5, 236),
    "w128-b16-planes-n4096-d4-c4": (39_564, 24_526, 101.5, 319),
    "w64-b1-one-n4096-d4-c4-nobatch-nocorr-m2": (26_727, 29_314, 65, 43),
    "w64-b1-one-n4096-d2-c4-nobatch-nocorr-m3": (34_444, 38_480, 97, 51),
    "w64-b1-one-n4096-d2-c4-nobatch-nocorr-m4": (43_433, 48_936, 129, 67),
    "w64-b4-one-n4096-d4-c4-m2": (22_782, 16_972, 54, 215),
    "w64-b1-one-n4096-d0-c2": (33_318, 21_797, 3, 38),
    "w64-b1-one-n4096-d7-c2": (37_495, 26_206, 3, 59),
    "w64-b2-one-n4096-d0-c2": (16_479, 13_348, 50.5, 24),
    "w64-b2-one-n4096-d7-c2": (19_973, 16_340, 51.5, 45),
    "w64-b4-one-n4096-d0-c2": (12_322, 9_064, 27.5, 92),
    "w64-b4-one-n4096-d6-c2": (17_286, 11_747, 28.5, 121),
    "w64-b8-one-n4096-d0-c2": (10_047, 7_465, 16, 60),
    "w64-b8-one-n4096-d6-c2": (12_096, 9_103, 17, 145),
    "w64-b4-one-n4096-d15-c1": (13_373, 13_264, 27.5, 88),
    "w64-b4-one-n4096-d15-c1-a7": (19_862, 16_647, 28.5, 117),
    "w64-b4-one-n4096-d3-c6-logistic": (13_915, 10_009, 28.5, 99),
    "w64-b4-one-n4096-d0-c6-logistic": (11_524, 8_715, 27.5, 86),
    "w64-b4-one-n4096-d19-c1-logistic": (11_993, 12_397, 27.5, 86),
    "w64-b4-one-n4096-d19-c1-a7-logistic": (18_583, 15_790, 28.5, 115),
    "w64-b8-one-n4096-d15-c1": (11_036, 10_790, 17, 56),
    "w64-b8-one-n4096-d15-c1-a7": (14_431, 12_610, 18, 198),
    "w64-b16-planes-n4096-d6-c2": (25_178, 17_608, 54.5, 249),
    "w64-b16-planes-n4096-d4-c4": (25_886, 16_840, 54.5, 191),
    "w64-b16-planes-n4096-d3-c6-logistic": (21_434, 14_532, 54.5, 168),
    "w64-b4-one-n8-d0-c2-packed": (11_532, 8_837, 1, 92),
    "w64-b4-one-n8-d0-c2-packed-m8": (14_671, 9_770, 1, 94),
    "w64-b4-one-n8-d0-c2-packed-m12": (16_402, 11_269, 1, 94),
    "w64-b4-one-n8-d0-c2-nocorr-packed": (8_885, 7_331, 1, 78),
    "w64-b4-one-n8-d0-c2-nocorr-packed-m8": (12_338, 8_392, 1, 80),
    "w64-b4-one-n8-d0-c2-nocorr-packed-m12": (13_837, 9_799, 1, 80),
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
