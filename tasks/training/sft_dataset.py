"""Rows for verl's SFT trainer: only what the policy is to write, or has written, carries loss."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pandas as pd
import torch
from torch.utils.data import Dataset
from verl.utils.dataset.multiturn_sft_dataset import MultiTurnSFTDataset, convert_nested_value_to_list_recursive

from tasks.agent.chat import Chat


def demonstration_ids(
    tokenizer: Any,
    prompt: Sequence[dict[str, str]],
    segments: Sequence[dict[str, Any]],
    schemas: Sequence[dict[str, Any]] = (),
) -> tuple[list[int], list[int]]:
    """Token ids and loss mask of a demonstration, both of shape (n,).

    Segments are encoded one by one, as an episode's turns and observations are, and never across a border.
    Prompt and observations have mask 0; generated segments and the end token have mask 1.

    Args:
        tokenizer: the policy's.
        prompt: chat messages.
        segments: `text` and `loss` of each.
        schemas: the tools, where the protocol gives them to the chat template.
    """
    ids = Chat(tokenizer, schemas).prompt_ids(prompt)
    mask = [0] * len(ids)
    for segment in segments:
        part = tokenizer.encode(segment["text"], add_special_tokens=False)
        ids += part
        mask += [int(segment["loss"])] * len(part)
    return [*ids, tokenizer.eos_token_id], [*mask, 1]


class DemonstrationDataset(MultiTurnSFTDataset):
    """Rows of data/demos in the form that verl 0.9.1's SFT collator takes.

    verl's own class masks by chat message, and a Search-R1 episode is one message with observations inside.
    """

    def _read_files_and_process(self) -> None:
        super()._read_files_and_process()
        self._segments = self.dataframe["segments"].apply(convert_nested_value_to_list_recursive).tolist()
        # verl's own column; as JSON, since parquet would give every tool the arguments of all.
        self._schemas = json.loads(self.tools[0]) if self.tools else []

    def __getitem__(self, item: int) -> dict[str, torch.Tensor]:
        ids, mask = demonstration_ids(self.tokenizer, self.messages[item][:-1], self._segments[item], self._schemas)
        if len(ids) > self.max_length:
            raise ValueError(f"demonstration {item} has {len(ids)} tokens, more than {self.max_length}")
        return {
            "input_ids": torch.tensor(ids),
            "position_ids": torch.arange(len(ids)),
            "loss_mask": torch.tensor(mask),
        }


class TrajectoryDataset(Dataset[dict[str, torch.Tensor]]):
    """RL's own trajectories as the log has them: token ids and mask are taken over, so that no token is another one.

    Args:
        parquet_files: one file of the columns `prompt_ids`, `response_ids` and `response_mask`.
        settings: what verl's trainer hands on besides (trainer/sft_trainer.py, create_sft_dataset): the tokenizer and
            the like, of which ids need none.
    """

    def __init__(self, parquet_files: str, **settings: Any) -> None:
        columns = ["prompt_ids", "response_ids", "response_mask"]
        self._rows = pd.read_parquet(parquet_files, columns=columns).to_dict("records")

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, item: int) -> dict[str, torch.Tensor]:
        row = self._rows[item]
        ids = [*row["prompt_ids"], *row["response_ids"]]
        return {
            "input_ids": torch.tensor(ids),
            "position_ids": torch.arange(len(ids)),
            "loss_mask": torch.tensor([0] * len(row["prompt_ids"]) + [int(one) for one in row["response_mask"]]),
        }
