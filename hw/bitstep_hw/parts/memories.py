"""Memories, with their attributes: which primitive to use, and that a word read while written is
undefined.
"""

import re

from amaranth.lib import memory

_MARK = "no_rw_check"       # Yosys's own name for it
_BLOCK_DEPTH = 32           # words of a memory of blocks for up to 64 lanes; of more in proportion
_MEMORY = re.compile(r"(?:^  attribute .*\n)*^  memory .*(\\\S+)$", re.MULTILINE)
_READ = re.compile(r"^  cell \$memrd_v2 .*?^  end$", re.MULTILINE | re.DOTALL)


def attributes(config, *, depth=0):
    """Return the attributes of a memory in which a word read while written is undefined.

    With a fast clock no such word is used, since two slots with the same index are 4 cycles apart,
    or the later one has its words from the earlier one (``ModelStore`` with ``update_interval`` 1).
    Memory blocks that give neither the old nor the new word then need no logic around them. A
    memory of ``depth`` weights a lane is made of blocks unless it is very short: they have
    registers at their outputs, and one address instead of hundreds. The more lanes, the longer it
    must be: with 128 lanes of 32 words, blocks are a sixteenth full, and a pipeline of 4 bits takes
    189 of them where a xck26 has 144.

    Parameters
    ----------
    config : PipelineConfig
        Gives ``clock.fast``; without it there are no attributes.
    depth : int
        Words; 0 leaves the primitive to synthesis.
    """
    if not config.clock.fast:
        return {}
    least = max(_BLOCK_DEPTH, _BLOCK_DEPTH * config.rows.lanes // 64)
    return {_MARK: 1} | ({"ram_style": "block"} if depth >= least else {})


def memory_of(config, *, shape, depth, weights=True):
    """Return a memory with :func:`attributes`, of words that are 0 at first. Without ``weights`` in
    its lanes the primitive is left to synthesis.
    """
    words = memory.MemoryData(shape=shape, depth=depth, init=[])
    return memory.Memory(words, attrs=attributes(config, depth=depth if weights else 0))


def with_undefined_collisions(rtl: str) -> str:
    """Return RTLIL in which the memories with :func:`attributes` are undefined where they may be.
    Both Amaranth and Yosys know of this, but the one cannot tell the other.
    """
    modules = re.split(r"(?=^module )", rtl, flags=re.MULTILINE)
    return "".join(map(_of_module, modules))


def _of_module(text):
    marked = {found[1] for found in _MEMORY.finditer(text) if f"\\{_MARK} " in found[0]}

    def changed(found):
        cell = found[0]
        name = re.search(r'parameter \\MEMID "\\(\\\S+)"', cell)
        if name is None or name[1] not in marked:
            return cell
        assert "TRANSPARENCY_MASK 1'0" in cell, f"{name[1]} must have one port that writes"
        return cell.replace("COLLISION_X_MASK 1'0", "COLLISION_X_MASK 1'1")

    return _READ.sub(changed, text)
