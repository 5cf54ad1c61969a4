"""Which training questions become demonstrations: a weighted draw by seed that keeps a share of every kind for RL.

It works on columns and row numbers; only rows that are drawn are read as objects, a part at a time.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tasks.errors import InputError
from tasks.qa.comparing import question_key

_AT_ONCE = 4096  # rows that are objects at a time
_ROWS = 8192  # at most, of a row group that is written
_COLUMNS = ["data_source", "prompt", "extra_info"]


def read_info(path: Path, *names: str) -> Iterator[pa.StructArray]:
    """Batches of `extra_info` with just these of its fields."""
    for batch in pq.ParquetFile(path).iter_batches(columns=[f"extra_info.{name}" for name in names]):
        yield batch.column("extra_info")


@dataclass(frozen=True)
class Questions:
    """The questions of a file of rows; rows whose questions have one key (`tasks/qa/comparing.py`) ask the same.

    Attributes:
        path: the file, parquet.
        of_row: number of each row's question, shape (rows,).
        first_row: the first row of each question, shape (questions,).
        hops: hops of each question, shape (questions,).
        numbers: number of a question by its key.
    """

    path: Path
    of_row: np.ndarray
    first_row: np.ndarray
    hops: np.ndarray
    numbers: dict[bytes, int]

    @classmethod
    def read(cls, path: Path) -> Questions:
        """Read just the columns that tell questions apart."""
        numbers: dict[bytes, int] = {}
        of_row, hops = [], []
        for info in read_info(path, "question", "hops"):
            keys = map(question_key, info.field("question").to_pylist())
            of_row.append(np.array([numbers.setdefault(key, len(numbers)) for key in keys], np.int64))
            hops.append(info.field("hops").to_numpy())
        rows = np.concatenate(of_row) if of_row else np.empty(0, np.int64)
        first = np.unique(rows, return_index=True)[1]
        of_first = np.concatenate(hops)[first] if hops else np.empty(0, np.int64)
        return cls(path, rows, first, of_first, numbers)

    def first_row_of(self, question: str) -> int:
        """The first row that asks a question of the file."""
        return int(self.first_row[self.numbers[question_key(question)]])

    def order(self, weights: Mapping[int, float], seed: int) -> np.ndarray:
        """Numbers of all questions in the order of a weighted draw without replacement, shape (questions,).

        A question's key is an exponential variable of rate `weight`; ascending keys are such a draw.
        Source: Efraimidis and Spirakis, "Weighted random sampling with a reservoir" (2006).

        Args:
            weights: weight of a question by its hops; 1 where they are not named.
            seed: of the draw.

        Raises:
            InputError: no question has hops that are named.
        """
        known, codes = np.unique(self.hops, return_inverse=True)
        unknown = sorted(set(weights) - set(known.tolist()))
        if unknown:
            raise InputError(
                f"no training question has {unknown[0]} hops",
                where="demos.hop_weights",
                mend=f"there are: {', '.join(map(str, known.tolist()))}",
            )
        weight = np.array([weights.get(hops, 1.0) for hops in known.tolist()])[codes]
        return np.argsort(np.random.default_rng(seed).exponential(size=len(codes)) / weight, kind="stable")

    def take(self, numbers: np.ndarray) -> list[dict[str, Any]]:
        """The first rows of the numbered questions in this order, with the columns that a demonstration is made of."""
        wanted = self.first_row[numbers]
        order = np.argsort(wanted)
        ascending = wanted[order]
        file = pq.ParquetFile(self.path)
        parts, start = [], 0
        for group in range(file.num_row_groups):
            end = start + file.metadata.row_group(group).num_rows
            low, high = np.searchsorted(ascending, [start, end])
            if low < high:
                parts.append(file.read_row_group(group, _COLUMNS).take(pa.array(ascending[low:high] - start)))
            start = end
        return pa.concat_tables(parts).take(pa.array(np.argsort(order))).to_pylist()

    def write_left(self, used: set[int], path: Path) -> Counter[int]:
        """Write the rows that ask none of the used questions, in their order.

        Returns:
            the number of rows written by hops.
        """
        kept = ~np.isin(self.of_row, list(used))
        file = pq.ParquetFile(self.path)
        start = 0
        with pq.ParquetWriter(path, file.schema_arrow, compression="zstd") as writer:
            for batch in file.iter_batches(_ROWS):
                mask = kept[start : start + len(batch)]
                start += len(batch)
                writer.write_batch(batch.filter(pa.array(mask)))
        return Counter(self.hops[self.of_row[kept]].tolist())


class Ration:
    """How many questions of every number of hops may still become demonstrations.

    Of n questions at least ceil(share * n) stay for RL.

    Attributes:
        used: numbers of the questions that demonstrations show.
    """

    def __init__(self, questions: Questions, rl_share: float) -> None:
        self._questions, self._share = questions, rl_share
        self.used: set[int] = set()
        self._counts = Counter(questions.hops.tolist())
        # The subtraction takes back what a product such as 0.07 * 100 is too large by.
        self._most = {hops: count - math.ceil(rl_share * count - 1e-9) for hops, count in self._counts.items()}
        self._left = dict(self._most)

    def use(self, question: str, where: str) -> int | None:
        """Count a demonstration of a question.

        Args:
            question: its text.
            where: file and line, or id, to be named in an error.

        Returns:
            its hops, None where no training row asks it.

        Raises:
            InputError: more questions of its hops are used than RL's share leaves.
        """
        number = self._questions.numbers.get(question_key(question))
        if number is None:
            return None
        hops = int(self._questions.hops[number])
        if not self._left[hops]:
            raise InputError(
                f"one demonstration too many: demos.rl_share {self._share:g} lets {self._most[hops]} of the "
                f"{self._counts[hops]} training questions of {hops} hops have one",
                where=where,
                mend="name fewer of them, or lower demos.rl_share",
            )
        self._left[hops] -= 1
        self.used.add(number)
        return hops

    def rows(self, order: np.ndarray) -> Iterator[dict[str, Any]]:
        """Rows of the questions in this order, less those that are used, or over the ration, when it is their turn.

        Args:
            order: numbers of questions, each once.
        """
        while len(order := order[self._may(order)]):
            part, order = order[:_AT_ONCE], order[_AT_ONCE:]
            hops = self._questions.hops[part].tolist()
            for of_row, row in zip(hops, self._questions.take(part), strict=True):
                if self._left[of_row]:
                    yield row

    def _may(self, numbers: np.ndarray) -> np.ndarray:
        open_hops = [hops for hops, left in self._left.items() if left]
        return np.isin(self._questions.hops[numbers], open_hops) & ~np.isin(numbers, list(self.used))
