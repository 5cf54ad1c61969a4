"""Splits that a source does not bring, drawn from its training questions, and questions kept apart by their subjects.

A split is an array with a number for every row of the table: its place in `PRECEDENCE`, or `NONE`.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tasks.params import Ingest
from tasks.qa.records import Split

# What measures wins over what learns: of equal questions the one in the first of these splits is kept.
PRECEDENCE: tuple[Split, ...] = ("test", "validation", "train")
NONE = -1
# What a question is about: a title is the name of an entity.
_NAMES = ("gold_passage_ids", "supporting_titles")


def seeds(seed: int, *purpose: str) -> list[int]:
    """Seeds for a numpy generator, of its own for every purpose."""
    return [seed, *(int.from_bytes(word.encode()) for word in purpose)]


def _named(table: pa.Table, column: str) -> tuple[np.ndarray, np.ndarray]:
    """Row and code of everything that a column of lists names, each of shape (names,)."""
    lists = table[column].combine_chunks()
    codes = lists.flatten().dictionary_encode().indices.to_numpy(zero_copy_only=False)
    return pc.list_parent_indices(lists).to_numpy(), codes


def unnamed(table: pa.Table) -> int:
    """Rows that name neither a gold passage nor a title, which nothing connects to others."""
    rows = np.ones(table.num_rows, bool)
    for column in _NAMES:
        rows[_named(table, column)[0]] = False
    return int(rows.sum())


def passage_groups(table: pa.Table) -> np.ndarray:
    """A group for every row: rows of one group are connected by gold passages or titles that they share."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    count = size = table.num_rows
    links = []
    for column in _NAMES:
        rows, codes = _named(table, column)
        links.append((rows, size + codes))
        size += int(codes.max(initial=-1)) + 1
    ends = [np.concatenate(parts) for parts in zip(*links, strict=True)]
    graph = coo_array((np.ones(len(ends[0]), bool), tuple(ends)), shape=(size, size))
    return connected_components(graph, directed=False)[1][:count]


def draw_held_out(table: pa.Table, split: np.ndarray, groups: np.ndarray, settings: Ingest, seed: int) -> None:
    """Draw the splits that a source does not bring from its training rows, whole groups at a time.

    A group of rows from several sources goes as a whole, but for rows of a source that brings the split itself.
    """
    sources = table["source"].to_pandas().to_numpy()
    train = PRECEDENCE.index("train")
    for name, share in (("test", settings.test_share), ("validation", settings.validation_share)):
        number = PRECEDENCE.index(name)
        drawing = [one for one in dict.fromkeys(sources) if not ((sources == one) & (split == number)).any()]
        open_rows = np.isin(sources, drawing) & (split == train)
        for source in drawing:
            of_source = sources == source
            rows = np.flatnonzero(of_source & open_rows & (split == train))
            have = int((of_source & (split == number)).sum())
            rng = np.random.default_rng(seeds(seed, name, source))
            chosen = rows[_draw(groups[rows], round(share * (len(rows) + have)) - have, rng)]
            split[open_rows & np.isin(groups, groups[chosen])] = number


def _draw(groups: np.ndarray, wanted: int, rng: np.random.Generator) -> np.ndarray:
    """Positions of about `wanted` rows, whole groups in a random order; one that would be too much is passed over."""
    codes, counts = np.unique(groups, return_inverse=True, return_counts=True)[1:]
    order = rng.permutation(len(counts))
    chosen = np.zeros(len(counts), bool)
    left = wanted
    for group in order:
        if left <= 0:
            break
        if counts[group] <= left:
            chosen[group] = True
            left -= counts[group]
    return np.flatnonzero(chosen[codes])


def drop_shared(table: pa.Table, split: np.ndarray, dropped: Counter[str]) -> None:
    """Take out rows with a gold passage or title of a row in a split that comes first in `PRECEDENCE`."""
    for column in _NAMES:
        rows, codes = _named(table, column)
        taken = np.zeros(int(codes.max(initial=-1)) + 1, bool)
        for number in range(len(PRECEDENCE)):
            shared = np.unique(rows[(split[rows] == number) & taken[codes]])
            split[shared] = NONE
            dropped["gold_passage_held_out"] += len(shared)
            taken[codes[split[rows] == number]] = True
