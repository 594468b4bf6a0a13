"""Compilation units of Verilator's C++, and how each is compiled."""

from pathlib import Path

# Code that runs every cycle, and code that runs once. All lanes do the same, so vectors for this
# very machine halve the time. They are for loops alone: of neighbours in a structure GCC 12 stores
# 64 bytes as if they were aligned where only 32 are, which ends the program.
FAST, SLOW = ("-O2", "-march=native", "-fvect-cost-model=dynamic",
              "-fno-tree-slp-vectorize"), ("-O0",)

UNIT_BYTES = 800_000        # of C++ in a unit, but for a file that is longer


def compilation_units(folder: Path, main: Path) -> list[tuple[Path, tuple[str, ...]]]:
    """Write units that include Verilator's files and the library's own one.

    Short files share a unit, since the headers alone take more than a second. Long ones are apart,
    so that a wide top keeps all cores busy.

    Parameters
    ----------
    folder : Path
        Holds Verilator's files; units are written there.
    main : Path
        File with the interface of the library.

    Returns
    -------
    list of (Path, tuple of str)
        Each unit and its flags, the longest first.
    """
    files = sorted([*folder.glob("*.cpp"), main], key=lambda path: -path.stat().st_size)
    units = []
    for flags in (FAST, SLOW):
        shared: list[tuple[int, list[Path]]] = []       # bytes and files of each unit
        for path in files:
            if ("Slow" in path.stem) != (flags is SLOW):
                continue
            size = path.stat().st_size
            place = next((number for number, (total, _) in enumerate(shared)
                          if total + size <= UNIT_BYTES), len(shared))
            total, members = shared[place] if place < len(shared) else (0, [])
            shared[place:place + 1] = [(total + size, [*members, path])]
        for number, (total, members) in enumerate(shared):
            unit = folder / f"{'slow' if flags is SLOW else 'fast'}_{number}.cpp"
            unit.write_text("".join(f'#include "{path}"\n' for path in members))
            units.append((total, unit, flags))
    return [(unit, flags) for _, unit, flags in sorted(units, key=lambda one: -one[0])]
