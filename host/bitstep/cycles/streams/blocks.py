"""Blocks of memory that a run reads, in order, with the cycles between their offers."""

from collections.abc import Iterator

from bitstep.cycles.shape import Shape


def row_blocks(shape: Shape) -> Iterator[tuple[int, int, int]]:
    """Yield the blocks of rows of codes or numbers, an epoch's copy each."""
    for epoch in range(shape.epochs):
        yield 2 if epoch else 1, epoch % shape.copies * shape.row_beats, shape.row_beats


def aux_blocks(shape: Shape) -> Iterator[tuple[int, int, int]]:
    """Yield the blocks of the first model, the coefficients and constants, the codebooks,
    and every epoch's entry of the table and labels.
    """
    wait = 1
    for wanted, words in ((shape.warm, shape.model_words),
                          (shape.correction_period, shape.coefficient_words)):
        if wanted:
            yield wait, 0, shape.models * words
            wait = 0
        wait += 1
    if shape.codebook_words:
        yield wait, 0, shape.codebook_words
        wait = 1
    for epoch in range(shape.epochs):
        yield (1 if epoch else wait), 2 * shape.models * epoch, 2 * shape.models
        yield 2, 0, shape.label_words
