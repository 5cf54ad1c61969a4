"""From what the sources bring to the rows of three splits: checked, without duplicates, split, mixed and ordered.

It works on columns and on row numbers of the table in `tasks/qa/table.py`, never on questions as objects.
Everything that is drawn is drawn by the seed, so equal parameters and files give equal rows in equal order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from tasks.errors import InputError
from tasks.params import Ingest, Proportion
from tasks.qa import near
from tasks.qa.records import SPLITS, Split
from tasks.qa.splitting import NONE, PRECEDENCE, draw_held_out, drop_shared, passage_groups, seeds
from tasks.qa.table import keys, rows_of

_COLUMNS = ["question", "golden_answers", "gold_passage_ids"]


def check(table: pa.Table, passage_ids: pa.Array) -> None:
    """Refuse questions whose id comes twice or whose gold passages do not exist.

    Raises:
        InputError: names the question, the passage and where the question came from.
    """
    ids = table["id"].combine_chunks().dictionary_encode()
    if len(ids.dictionary) < len(ids):
        codes = ids.indices.to_numpy()
        row = int(np.flatnonzero(pd.Series(codes).duplicated())[0])
        first = int(np.flatnonzero(codes == codes[row])[0])
        raise InputError(
            f"question id {_cell(table, 'id', row)!r} comes twice",
            where=_cell(table, "origin", row),
            mend=f"first at {_cell(table, 'origin', first)}; ids that are made (`columns: {{id: null}}`) begin with "
            "the source's name: give each file its own",
        )
    golds = table["gold_passage_ids"].combine_chunks()
    lost = np.flatnonzero(~pc.is_in(golds.flatten(), value_set=passage_ids).to_numpy(zero_copy_only=False))
    if len(lost):
        row = pc.list_parent_indices(golds)[int(lost[0])].as_py()
        raise InputError(
            f"question {_cell(table, 'id', row)!r}: its gold passage {golds.flatten()[int(lost[0])].as_py()!r} "
            "is not in the corpus",
            where=_cell(table, "origin", row),
            mend="see ingest.corpus",
        )


def _cell(table: pa.Table, column: str, row: int) -> str:
    return str(table[column][row].as_py())


@dataclass
class Mixed:
    """Rows of each split, and why others are in none.

    Attributes:
        splits: row numbers in their order.
        dropped: number of rows by reason.
    """

    splits: dict[Split, np.ndarray]
    dropped: Counter[str] = field(default_factory=Counter)


def mix(table: pa.Table, settings: Ingest, seed: int) -> Mixed:
    """Mix all questions into splits.

    Args:
        table: questions, columns as in `tasks.qa.table.SCHEMA`.
        settings: the parameters' section `ingest`.
        seed: of every draw and of the order.
    """
    split = np.array([PRECEDENCE.index(name) for name in table["split"].to_pylist()], np.int8)
    dropped: Counter[str] = Counter()
    split[_repeated(keys(table), split, dropped)] = NONE
    if settings.drop_near_duplicates:
        _drop_near_duplicates(table, split, dropped)
    groups = passage_groups(table) if settings.separate == "passage" else np.arange(len(split))
    draw_held_out(table, split, groups, settings, seed)
    if settings.drop_near_duplicates:
        _drop_near_held_out(table, split, dropped)
    if settings.separate == "passage":
        drop_shared(table, split, dropped)
    strata = _strata(table)
    _apply_mixture(strata, split, settings, seed, dropped)
    splits: dict[Split, np.ndarray] = {}
    for name in SPLITS:
        rows = np.flatnonzero(split == PRECEDENCE.index(name))
        if settings.shuffle:
            rows = rows[interleaved(strata["code"].to_numpy()[rows], np.random.default_rng(seeds(seed, "order", name)))]
        splits[name] = rows
    return Mixed(splits, +dropped)


def _repeated(question_keys: np.ndarray, split: np.ndarray, dropped: Counter[str]) -> np.ndarray:
    """Rows whose question an earlier row has, or a row of a split that comes first in `PRECEDENCE`."""
    order = np.argsort(split, kind="stable")
    groups = pd.DataFrame(question_keys[order]).groupby([0, 1], sort=False).ngroup().to_numpy()
    again = pd.Series(groups).duplicated().to_numpy()
    first_split = split[order][np.unique(groups, return_index=True)[1]][groups]
    for of, of_first in zip(split[order][again], first_split[again], strict=True):
        dropped["duplicate" if of == of_first else f"{PRECEDENCE[of]}_in_{_held(of_first, of)}"] += 1
    return order[again]


def _held(first: int, of: int) -> str:
    return "held_out" if PRECEDENCE[of] == "train" else PRECEDENCE[first]


def _texts(table: pa.Table, rows: np.ndarray) -> near.Texts:
    return near.Texts(*(_values(table.select([name]), rows) for name in _COLUMNS))


def _values(column: pa.Table, rows: np.ndarray) -> Iterator[Any]:
    return (value for part in rows_of(column, rows) for value in part[0].to_pylist())


def _drop_near_duplicates(table: pa.Table, split: np.ndarray, dropped: Counter[str]) -> None:
    """Take out rows that are near to an earlier one of their split."""
    for number in range(len(PRECEDENCE)):
        rows = np.flatnonzero(split == number)
        again = [rows[pair.row] for pair in near.duplicates(_texts(table, rows))]
        split[again] = NONE
        dropped["near_duplicate"] += len(again)


def _drop_near_held_out(table: pa.Table, split: np.ndarray, dropped: Counter[str]) -> None:
    """Take out rows that are near to one in a split that comes first in `PRECEDENCE`."""
    for number in range(1, len(PRECEDENCE)):
        mine, held = np.flatnonzero(split == number), np.flatnonzero((split >= 0) & (split < number))
        pairs = near.held_out_pairs(_texts(table, mine), _texts(table, held))
        leaked = [mine[pair.row] for pair in pairs if pair.form == "near"]
        split[leaked] = NONE
        dropped["near_held_out"] += len(leaked)


def _strata(table: pa.Table) -> pd.DataFrame:
    """Source, hops and a code of (data_source, hops) for every row."""
    frame = table.select(["source", "data_source", "hops"]).to_pandas(strings_to_categorical=True)
    frame["code"] = frame.groupby(["data_source", "hops"], observed=True, sort=True).ngroup()
    return frame


def _apply_mixture(strata: pd.DataFrame, split: np.ndarray, settings: Ingest, seed: int, dropped: Counter[str]) -> None:
    """Keep as many training rows of every source and number of hops as weights and caps allow."""
    train = PRECEDENCE.index("train")
    for column, proportions in (("source", settings.mixture.sources), ("hops", settings.mixture.hops)):
        if not proportions:
            continue
        rows = np.flatnonzero(split == train)
        labels = strata[column].to_numpy()[rows]
        names, counts = np.unique(labels.astype(str), return_counts=True)
        found = dict(zip(names.tolist(), counts.tolist(), strict=True))
        unknown = [str(name) for name in proportions if str(name) not in found]
        if unknown:
            raise InputError(
                f"no training question of {column} {unknown[0]!r}",
                where=f"ingest.mixture.{'sources' if column == 'source' else 'hops'}",
                mend=f"there are: {', '.join(found)}",
            )
        wanted = allotment(found, {str(name): of for name, of in proportions.items()})
        for name, count in wanted.items():
            mine = rows[labels.astype(str) == name]
            rng = np.random.default_rng(seeds(seed, "mixture", column, name))
            order = interleaved(strata["code"].to_numpy()[mine], rng)
            split[mine[order[count:]]] = NONE
            dropped["mixture"] += len(mine) - count


def allotment(found: Mapping[str, int], proportions: Mapping[str, Proportion]) -> dict[str, int]:
    """How many rows of each label are kept: first its cap, then as many as the weights allow without repeating a row.

    Weights are relative to each other; a label without one keeps all that its cap leaves. With the weights w and the
    rows n that there are, label i keeps floor(w_i * min_j(n_j / w_j)).
    """
    kept = {}
    for name, count in found.items():
        cap = proportions[name].cap if name in proportions else None
        kept[name] = count if cap is None else min(count, cap)
    weights = {name: of.weight for name, of in proportions.items() if of.weight is not None}
    if weights:
        unit = min(kept[name] / weight for name, weight in weights.items())
        kept |= {name: int(weight * unit + 1e-9) for name, weight in weights.items()}
    return kept


def interleaved(labels: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """An order in which every label is spread evenly, and each label's own rows are shuffled.

    The k-th of a label's n rows, k from 0, gets the place (k + u) / n with u uniform in [0, 1); rows stand by
    ascending place. So every stretch of the table holds nearly each label's share.
    """
    order = rng.permutation(len(labels))
    counts = np.bincount(labels) if len(labels) else np.zeros(0, int)
    rank = pd.Series(labels[order]).groupby(labels[order]).cumcount().to_numpy()
    places = (rank + rng.random(len(order))) / counts[labels[order]]
    return order[np.argsort(places, kind="stable")]
