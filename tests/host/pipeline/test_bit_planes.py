import numpy as np
import pytest

from bitstep.pipeline.bit_planes import (
    BitPlaneLayout,
    from_bit_planes,
    middle_levels,
    to_bit_planes,
)

SIZES = [(1, 3), (3, 130), (4, 1), (5, 700), (8, 513), (12, 20), (100, 333), (257, 3), (4096, 5)]


@pytest.mark.parametrize("n_features, n_rows", SIZES)
def test_first_planes_are_the_narrow_codes(n_features, n_rows):
    rng = np.random.default_rng(n_features)
    codes = rng.integers(0, 1 << 16, (n_rows, n_features)).astype(np.uint16)
    bit_planes = to_bit_planes(codes)
    for planes in (1, 2, 7, 8, 9, 16):
        narrow = codes >> (16 - planes)
        np.testing.assert_array_equal(from_bit_planes(bit_planes, n_features, planes, 0, n_rows),
                                      narrow)
        start = n_rows // 2
        np.testing.assert_array_equal(from_bit_planes(bit_planes, n_features, planes, start,
                                                      n_rows),
                                      narrow[start:])


def test_bytes_by_hand():
    """Rows of 5 features take 8 bits of a plane: feature 0 lowest, three bits of padding."""
    codes = np.zeros((2, 5), np.uint16)
    codes[0, 0], codes[0, 4], codes[1, 1] = 0x8000, 0xC000, 0x0001
    bit_planes = to_bit_planes(codes)
    assert bit_planes.shape == (1, 16 * 512)
    planes = bit_planes.reshape(16, 512)
    assert planes[0, :3].tolist() == [0b10001, 0, 0]
    assert planes[1, :3].tolist() == [0b10000, 0, 0]
    assert planes[15, :3].tolist() == [0, 0b10, 0]
    assert planes.sum() == 0b10001 + 0b10000 + 0b10


def test_rows_of_an_odd_number_of_groups_share_bytes():
    codes = np.full((3, 4), 0x8000, np.uint16)
    assert to_bit_planes(codes).reshape(16, -1)[0, :3].tolist() == [0xFF, 0x0F, 0]


@pytest.mark.parametrize("n_features", [1, 3, 8, 12, 100, 500, 784, 4096, 5000])
def test_blocks(n_features):
    layout = BitPlaneLayout(n_features)
    assert layout.plane_bytes >= 512
    assert layout.plane_bytes % 64 == 0     # whole beats of every bus
    assert 8 * layout.plane_bytes == layout.block_rows * layout.row_bits
    assert 0 <= layout.row_bits - n_features < 4
    rows = 3 * layout.block_rows
    assert layout.bytes_read(rows, 4) * 4 == layout.blocks(rows) * layout.block_bytes
    assert layout.blocks(rows + 1) == 4


def test_bytes_of_a_last_block_are_those_of_its_rows():
    layout = BitPlaneLayout(8)             # 512 rows a block
    assert layout.bytes_read(512 + 65, 3) == 3 * (512 + 128)


def test_levels_are_middles_of_cells():
    assert middle_levels(np.array([0, 1], np.uint16), 1).tolist() == [-1, 1]
    assert middle_levels(np.array([0, 1, 2, 3], np.uint16), 2).tolist() == [-3, -1, 1, 3]
    assert middle_levels(np.array([0, 65535], np.uint16), 16).tolist() == [-65535, 65535]


@pytest.mark.parametrize("codes", [np.zeros((2, 2), np.uint8), np.zeros(2, np.uint16)])
def test_bad_codes(codes):
    with pytest.raises(ValueError, match=r"codes must be uint16 of shape \(n_rows, n_features\)"):
        to_bit_planes(codes)


@pytest.mark.parametrize("n_features", [1, 7, 32, 100, 4096])
@pytest.mark.parametrize("rows", [0.3, 1, 2.5])
def test_chunks_are_all_that_is_read_of_a_plane(n_features, rows):
    """Once each, in the order of memory, and whole beats."""
    layout = BitPlaneLayout(n_features)
    n_rows, end = max(1, int(rows * layout.block_rows)), 0
    found = list(layout.chunks(n_rows))
    for place, n_bytes in found:
        assert 0 < n_bytes <= 1024
        assert place % 64 == n_bytes % 64 == 0
        assert place >= end
        assert place % layout.block_bytes + n_bytes <= layout.plane_bytes
        end = place + n_bytes
    assert sum(n_bytes for _, n_bytes in found) == layout.bytes_read(n_rows, 1)
    # The last one has the plane's bits of the last row, but for whole beats.
    last = (n_rows - 1) % layout.block_rows * layout.row_bits + layout.row_bits
    assert end % layout.block_bytes - 64 < last / 8 <= end % layout.block_bytes
