from itertools import count, islice, repeat
from random import Random

import pytest
import torch

from tasks.agent.protocols import SearchR1
from tasks.params import Architecture, Phase, Pretraining
from tasks.qa import practice
from tasks.training import policies
from tasks.training.pretraining import packed, pretrain
from tasks.training.tokenizer import message


def written(seed: int, text: practice.Text):
    return practice.Practice(Random(seed), practice.spare_names(()), SearchR1(), message).documents(text)


def test_packed_batches_are_the_documents_one_after_the_other(tokenizer) -> None:
    batches = packed((f" Kasu {n}" for n in count()), tokenizer, 3, 4, 10)
    assert [tuple(batch.shape) for batch in batches] == [(4, 10)] * 3
    ids = torch.cat(batches).flatten().tolist()
    expected = [token for n in range(200) for token in (*tokenizer.encode(f" Kasu {n}"), tokenizer.eos_token_id)]
    assert ids == expected[:120]


def settings(**changes) -> Pretraining:
    values = {"phases": [], "batch_tokens": 256, "learning_rate": 3e-3, "muon_learning_rate": 0.02, "weight_decay": 0.1}
    return Pretraining.model_validate({**values, **changes})


ARCHITECTURE = Architecture(hidden_size=32, layers=1, heads=2, kv_heads=2, vocabulary=512, initializer_range=0.05)


def test_batches_of_both_shapes_are_learnt_from_in_order(tokenizer) -> None:
    model, _ = policies.from_scratch(ARCHITECTURE, tokenizer, 64, 0)
    short = packed(written(0, "repeats"), tokenizer, 30, 16, 16)
    long = packed(written(0, "reading"), tokenizer, 10, 4, 64)
    said: list[str] = []
    recorded: list[tuple[int, float]] = []
    seen: list[torch.Tensor] = []
    model.register_forward_pre_hook(lambda _, args, given: seen.append(given["input_ids"].clone()), with_kwargs=True)
    last = pretrain(model, [*short, *long], settings(), 0, said.append, lambda *pair: recorded.append(pair))
    assert len(seen) == 40 and all(torch.equal(one, batch) for one, batch in zip(seen, [*short, *long], strict=True))
    assert [step for step, _ in recorded] == list(range(4, 41, 4))
    first, end = recorded[0][1], recorded[6][1]
    assert 5 < first < 7 and end < first - 1  # ln(512) = 6.2 nats before anything is learnt
    assert last == recorded[-1][1]
    assert "step 40/40" in said[-1]


def test_training_twice_gives_equal_weights(tokenizer) -> None:
    def weights() -> list[bytes]:
        model, _ = policies.from_scratch(ARCHITECTURE, tokenizer, 64, 3)
        batches = packed(written(3, "repeats"), tokenizer, 6, 4, 16)
        pretrain(model, batches, settings(), 3, lambda text: None, lambda step, loss: None)
        return [p.detach().numpy().tobytes() for p in model.parameters()]

    assert weights() == weights()


@pytest.mark.parametrize("text", ["repeats", "reading"])
def test_every_phase_has_a_text(text) -> None:
    phase = Phase(text=text, steps=1, sequence_length=16)
    assert len(list(islice(written(0, phase.text), 3))) == 3
    assert not set(practice.TEXTS) ^ {"repeats", "reading"}


def test_documents_shorter_than_a_batch_are_drawn_until_it_is_full(tokenizer) -> None:
    (batch,) = packed(repeat("a"), tokenizer, 1, 2, 64)
    assert batch.shape == (2, 64)
