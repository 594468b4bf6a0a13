"""Memory tests: every kind of buffer, from the host's side and through the pipeline's buses."""

import contextlib
import itertools
from typing import Any

import numpy as np

from bitstep.devices.driver import RegisterRun
from bitstep.doctor.content import (
    Difference,
    Digests,
    Image,
    chunks,
    compare,
    find_word,
    overlay,
    pattern,
    stuck,
)
from bitstep.doctor.jobs import (
    beat_jobs,
    difference,
    expected_of,
    read_bytes,
    still_job,
    training_jobs,
)
from bitstep.doctor.session import Session
from bitstep.pipeline.memory import place_rows
from bitstep.pipeline.parts.widths import ceil_div
from bitstep.pipeline.registers import PAGE_BYTES

SLOT = 64                   # bytes, the alignment of places in the large buffer
_REMEDY = ("run bitstep doctor again; if the same addresses or bits are wrong, the memory or the "
           "bitstream's way to it is: send this report")
_STALE = ("the flush of the host's caches has no effect: use the board's own SD image, and send "
          "this report")


def buffers(session: Session) -> None:
    """Write, flush and read back every kind of buffer that the driver allocates."""
    session.need_idle()
    for title, job in training_jobs(session.config).items():
        if title == "plain" or "hinge" in title:
            continue                # these have no buffer that the others do not have
        with contextlib.ExitStack() as stack:
            found = stack.enter_context(RegisterRun(session.device, [job])).buffers
            _host_test(session, found, f"buffers of a job ({title})")


def large(session: Session) -> None:
    """Write, flush and read back the largest buffer, then let the pipeline read and write it."""
    session.need_idle()
    config = session.config
    job = still_job(config, n_features=config.rows.lanes, n_rows=1,
                    model=np.ones(config.rows.lanes, np.int32))
    singles = beat_jobs(config)
    sizes: list[int] = []
    for other in (job, singles[0]):
        with RegisterRun(session.device, [other]) as run:
            sizes += [buffer.array.size for buffer in run.buffers.values()]
    with contextlib.ExitStack() as stack:       # the large one must leave room for these
        for size in sizes:
            stack.callback(session.device.allocate(size).free)
        size = session.largest(session.memory_bytes)
    with contextlib.ExitStack() as stack:
        buffer = session.device.allocate(size)
        stack.callback(buffer.free)
        images = _host_test(session, {"large buffer": buffer}, "large buffer")
        if not images:
            session.report.skip("pipeline's accesses to the large buffer",
                                "not done: the host's own are wrong already")
            return
        session.need_runs()
        with RegisterRun(session.device, [job]) as run:
            _copies(session, run, images[0], size)
        with RegisterRun(session.device, singles[:1]) as run:
            _rows(session, run, singles, buffer, size)


def words(session: Session) -> None:
    """Let the pipeline load a model of every pattern and write it again."""
    session.need_runs()
    config = session.config
    n_features = min(config.rows.capacity, 1024)
    values = pattern(0, 4 * n_features).view(np.int32).copy()
    edges = np.array([0, -1, 0x5555_5555, ~0x5555_5555, *(1 << bit for bit in range(31)), -1 << 31,
                      *(~(1 << bit) for bit in range(31))], np.int64).astype(np.int32)
    values[:min(len(edges), n_features)] = edges[:n_features]
    job = still_job(config, n_features=n_features, n_rows=1, model=values)
    result = session.device.train(job, timeout_s=session.timeout_s)
    title = "bits of a model's weights, loaded and written by the pipeline"
    wrong = np.flatnonzero(result.models[0] != values)
    first = int(wrong[0]) if len(wrong) else 0
    found = np.ascontiguousarray(result.models[0]).view(np.uint32)[wrong]
    bits = np.bitwise_or.reduce(values.view(np.uint32)[wrong] ^ found, initial=0)
    session.report.check(
        title, not len(wrong), f"{n_features:,} words with a one and a zero in each bit, and "
        "others", expected="the words that the host wrote, for a step of 0 changes nothing",
        wrong=f"{len(wrong)} of {n_features} words differ, word {first} is "
        f"0x{int(result.models[0][first]) & 0xFFFF_FFFF:08x} instead of "
        f"0x{int(values[first]) & 0xFFFF_FFFF:08x}"
        + stuck(int(bits), int(np.bitwise_or.reduce(found, initial=0)), 32), remedy=_REMEDY)


def _host_test(session, found: dict[str, Any], title) -> list[Image]:
    """Send two patterns through all of some buffers; return their content if every byte came
    back, else nothing.
    """
    overlaps = _overlap(found)
    problems = [overlaps] if overlaps else []
    for buffer in found.values():
        buffer.from_device()
    before = {name: Digests(buffer.array.__getitem__, buffer.array.size)
              for name, buffer in found.items()}
    images: dict[str, Image] = {}
    for inverted in (False, True):
        images = {name: Image(buffer, inverted=inverted) for name, buffer in found.items()}
        for image in images.values():
            image.fill()
        for buffer in found.values():
            buffer.to_device()
        for buffer in found.values():
            buffer.from_device()
        problems += [f"{name} {problem}" for name, image in images.items()
                     if (problem := _problem(image, before[name], list(images.values())))]
        if problems:
            break
        before = {name: Digests(image.read, image.buffer.array.size)
                  for name, image in images.items()}
    total = sum(buffer.array.size for buffer in found.values())
    places = ", ".join(f"{name} from 0x{buffer.address:x}" for name, buffer in found.items())
    stale = any("of before" in problem for problem in problems)
    session.report.check(
        title, not problems, f"{total:,} bytes written, flushed and read back by the host, each "
        f"bit as 0 and as 1 ({places})", wrong="; ".join(problems),
        expected=f"{total:,} bytes as the host wrote them ({places})",
        remedy=_STALE if stale else _REMEDY)
    return [] if problems else list(images.values())


def _overlap(found):
    taken = sorted((buffer.address, buffer.address + buffer.array.size, name)
                   for name, buffer in found.items())
    for (_, end, name), (start, _, other) in itertools.pairwise(taken):
        if start < end:
            return f"{other} begins at 0x{start:x}, inside of {name}, which ends at 0x{end:x}"
    return ""


def _problem(image, before, images):
    """Describe the differences of a buffer to the bytes written to it; empty if there are none."""
    buffer = image.buffer
    difference = compare(buffer, image, before)
    if not difference.count:
        return ""
    text = (f"has {difference.count:,} wrong bytes, first {difference} at "
            f"0x{buffer.address + difference.first:x}")
    if difference.as_before:
        return text + ": they are the content of before, so what the host wrote did not arrive"
    start = difference.first // 8 * 8
    if start + 8 <= buffer.array.size:
        place = find_word(buffer.array[start:start + 8].tobytes(), images)
        if place is not None:
            return (f"{text}: that is what belongs to 0x{place:x}, so two addresses reach the same "
                    "memory")
    return text + stuck(difference.bits, difference.ones, 64)


def _places(size, slot):
    """Return offsets that differ in one bit of the address each, and the last one."""
    offsets, place = [0], 2 * slot
    while place + 4 * slot <= size:
        offsets.append(place)
        place *= 2
    return [*offsets, size - 2 * slot]


def _copies(session, run, image, size):
    """Let the pipeline copy models from place to place, and find them there and nowhere else."""
    buffer, n_bytes = image.buffer, run.layout.n_bytes
    slot = ceil_div(n_bytes, SLOT) * SLOT
    offsets = _places(size, slot)
    pairs = [*zip([*offsets[:-1], size - n_bytes], [offset + slot for offset in offsets[-2::-1]]
                  + [offsets[-1]], strict=True), (0, size - n_bytes)]
    known = np.zeros(run.layout.n_words, bool)          # the others have no feature
    known[run.layout.position] = known[run.layout.intercept] = True
    known = np.repeat(known, 4)
    run.write_pair("MODEL_OUT_STRIDE", 0)
    for source, target in pairs:
        run.write_pair("MODEL_IN_ADDRESS", buffer.address + source)
        run.write_pair("MODEL_OUT_ADDRESS", buffer.address + target)
        session.run_to_end(run, f"A copy from 0x{buffer.address + source:x} to "
                           f"0x{buffer.address + target:x}")
        image.write(target, image.read(slice(source, source + n_bytes)))
    buffer.from_device()
    difference, stray = _copied(image, [target for _, target in pairs], known)
    title = f"the pipeline copies models between {len(pairs)} pairs of places of the large buffer"
    if not difference.count:
        session.report.ok(title, f"read and written where they should be, from "
                          f"0x{buffer.address:x} to 0x{buffer.address + size - 1:x}, and nothing "
                          "else was written")
        return
    text = (f"{difference.count:,} wrong bytes, first {difference} at "
            f"0x{buffer.address + difference.first:x}")
    remedy = _REMEDY
    if stray is not None:
        text += (f"; at 0x{buffer.address + stray:x} is a place that no copy was for: an "
                 "address that the pipeline writes is wrong")
    elif difference.as_before:
        text += ("; the host sees what it wrote itself before: the pipeline wrote elsewhere, or "
                 "the host's caches still hold the old content (from_device does not invalidate)")
        remedy = _STALE.replace("flush", "flush or invalidation")
    session.report.fail(title, expected="the copied words in their places, all else as it was",
                        found=text, remedy=remedy)


def _copied(image, targets, known):
    """Return the difference of a buffer to its content after copies, and the offset of the first
    wrong byte that no copy was for, or None.

    Parameters
    ----------
    image : Image
    targets : list of int
    known : ndarray of bool
        Bytes of a copy that must be right.
    """
    difference, stray = Difference(), None
    for part in chunks(image.buffer.array.size):
        expected, found = image.read(part), image.buffer.array[part].copy()
        wrong = found != expected
        if not wrong.any():
            continue
        ignored, copied = np.zeros(len(found), bool), np.zeros(len(found), bool)
        for target in targets:
            overlay(ignored, part, target, ~known)
            overlay(copied, part, target, np.ones(len(known), bool))
        places = np.flatnonzero(wrong & ~ignored)
        if not len(places):
            continue
        difference.add(part, expected, found, places)
        difference.as_before &= bool((found[places] == image.base(part)[places]).all())
        beside = places[~copied[places]]
        if stray is None and len(beside):
            stray = part.start + int(beside[0])
    return difference, stray


def _rows(session, run, singles, buffer, size):
    """Let the pipeline read one row at each of many places, of each slice if it has several."""
    config, row_bytes = session.config, read_bytes(session.config)
    stride, slice_size = 0, size
    if config.row_ports > 1:
        stride = slice_size = size // config.row_ports // PAGE_BYTES * PAGE_BYTES
        if not stride:
            session.report.skip("rows in the large buffer", f"its {size:,} bytes are fewer than a "
                                f"page of {PAGE_BYTES:,} for each of {config.row_ports} ports")
            return
    offsets = [*_places(slice_size, SLOT)[:len(singles) - 1], slice_size - row_bytes]
    for offset, job in zip(offsets, singles, strict=False):
        place_rows(buffer.array[offset:], [job.rows[0].reshape(-1)[:row_bytes]], config, stride)
    buffer.to_device()
    wrong = []
    run.write("PORT_STRIDE", stride // PAGE_BYTES)
    for offset, job in zip(offsets, singles, strict=False):
        run.write_pair("ROWS_ADDRESS", buffer.address + offset)
        session.run_to_end(run, f"A run with its row at 0x{buffer.address + offset:x}")
        if text := difference(session.config, expected_of(job), run.result()):
            wrong.append(f"0x{buffer.address + offset:x}: {text}")
    session.report.check(
        f"the pipeline reads rows at {len(offsets)} places of the large buffer", not wrong,
        "each gives the golden model's model, so every bit of a beat arrives",
        wrong=f"{len(wrong)} of {len(offsets)} are wrong; at {'; '.join(wrong[:1])}",
        expected="models of the golden model for each row", remedy="if all lanes or all places are "
        f"wrong, what the host writes may not reach the memory (flush); else {_REMEDY}")

