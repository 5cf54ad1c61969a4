"""Splits that a source does not bring, drawn from its training questions, and questions kept apart by gold passage.

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


def seeds(seed: int, *purpose: str) -> list[int]:
    """Seeds for a numpy generator, of its own for every purpose."""
    return [seed, *(int.from_bytes(word.encode()) for word in purpose)]


def passage_groups(table: pa.Table) -> np.ndarray:
    """A group for every row: rows of one group are connected by shared gold passages."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    golds = table["gold_passage_ids"].combine_chunks()
    rows = pc.list_parent_indices(golds).to_numpy()
    passages = golds.flatten().dictionary_encode().indices.to_numpy(zero_copy_only=False)
    count = table.num_rows
    size = count + (int(passages.max()) + 1 if len(passages) else 0)
    links = coo_array((np.ones(len(rows), bool), (rows, count + passages)), shape=(size, size))
    return connected_components(links, directed=False)[1][:count]


def draw_held_out(table: pa.Table, split: np.ndarray, groups: np.ndarray, settings: Ingest, seed: int) -> None:
    """Draw the splits that a source does not bring from its training rows, whole groups at a time."""
    sources = table["source"].to_pandas()
    train = PRECEDENCE.index("train")
    for source in dict.fromkeys(sources):
        of_source = (sources == source).to_numpy()
        for name, share in (("test", settings.test_share), ("validation", settings.validation_share)):
            number = PRECEDENCE.index(name)
            if (of_source & (split == number)).any():
                continue
            rows = np.flatnonzero(of_source & (split == train))
            rng = np.random.default_rng(seeds(seed, name, source))
            split[rows[_draw(groups[rows], round(share * len(rows)), rng)]] = number


def _draw(groups: np.ndarray, wanted: int, rng: np.random.Generator) -> np.ndarray:
    """Positions of about `wanted` rows, whole groups in a random order; one that would be too much is passed over."""
    codes, counts = np.unique(groups, return_inverse=True, return_counts=True)[1:]
    order = rng.permutation(len(counts))
    chosen = np.zeros(len(counts), bool)
    left = wanted
    for group in order:
        if counts[group] <= left:
            chosen[group] = True
            left -= counts[group]
        if not left:
            break
    return np.flatnonzero(chosen[codes])


def drop_shared(table: pa.Table, split: np.ndarray, dropped: Counter[str]) -> None:
    """Take out rows with a gold passage of a row in a split that comes first in `PRECEDENCE`."""
    golds = table["gold_passage_ids"].combine_chunks()
    parents = pc.list_parent_indices(golds).to_numpy()
    passages = golds.flatten().dictionary_encode().indices.to_numpy(zero_copy_only=False)
    taken = np.zeros(int(passages.max()) + 1 if len(passages) else 0, bool)
    for number in range(len(PRECEDENCE)):
        mine = split[parents] == number
        shared = np.unique(parents[mine & taken[passages]])
        split[shared] = NONE
        dropped["gold_passage_held_out"] += len(shared)
        taken[passages[split[parents] == number]] = True
