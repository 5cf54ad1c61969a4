"""Log-probabilities of choices against transformers' own, token by token."""

import math
from pathlib import Path

import pytest
import torch

from tasks.errors import InputError
from tasks.evaluation.ability import Choices, figures, measure
from tasks.evaluation.ability.scoring import Encoded, _cut, encode, likelihoods

WORDS = ["Where was Karo born?", "Karo was born in", " Velin", "Doc 1 (Title: Karo)", "café ☃", "\n", " ", "a  b"]


def pair_of_the_harness(tokenizer, context: str, continuation: str) -> tuple[list[int], list[int]]:
    """lm-evaluation-harness's `_encode_pair`, in words of our own."""
    bare = context.rstrip()
    continuation, context = context[len(bare) :] + continuation, bare
    first, whole = tokenizer(context)["input_ids"], tokenizer(context + continuation)["input_ids"]
    return whole[: len(first)], whole[len(first) :]


@pytest.mark.parametrize("context", [one for one in WORDS if one.strip()])
@pytest.mark.parametrize("continuation", [" Velin", " born in Karo.", "\n", " ☃é", " a"])
def test_the_split_never_changes_tokens(tokenizer, context: str, continuation: str) -> None:
    found = encode(tokenizer, context, continuation)
    assert found.ids == tokenizer(context + continuation)["input_ids"]
    before, after = pair_of_the_harness(tokenizer, context, continuation)
    if before == tokenizer(context)["input_ids"]:
        assert (found.ids[: found.start], found.ids[found.start :]) == (before, after)
    # What is left of the split is text of the context alone.
    assert context.startswith(tokenizer.decode(found.ids[: found.start]))


def test_a_token_over_the_split_counts_for_the_choice(tokenizer) -> None:
    whole = tokenizer("Where was")["input_ids"]
    found = encode(tokenizer, "Whe", "re was")
    assert found.ids == whole
    covered = tokenizer.decode(found.ids[: found.start])
    assert "Whe".startswith(covered) and found.start < len(whole)
    assert encode(tokenizer, "Karo ", "was").start == encode(tokenizer, "Karo", " was").start


@pytest.fixture(scope="module")
def asked() -> list[Choices]:
    return [
        Choices("Question: Where was Karo born?\nAnswer:", ("Velin", "in a city of Dorna", "Dunel."), 1, "line 1"),
        Choices("Karo", ("works for Velin.", "is"), 0, "line 2"),
    ]


def test_a_likelihood_is_the_sum_over_the_choices_tokens(make_model, tokenizer, asked) -> None:
    from transformers import AutoModelForCausalLM

    folder = make_model(seed=3)
    model = AutoModelForCausalLM.from_pretrained(folder).eval()
    for one, sums in zip(asked, likelihoods(folder, asked), strict=True):
        for text, found in zip(one.continuations, sums, strict=True):
            split = encode(tokenizer, one.context, text)
            with torch.inference_mode():
                logprobs = torch.log_softmax(model(torch.tensor([split.ids])).logits[0].float(), dim=-1)
            expected = sum(float(logprobs[place - 1, split.ids[place]]) for place in range(split.start, len(split.ids)))
            assert found == pytest.approx(expected, abs=1e-4) and found < 0


def test_a_verdict_depends_on_no_other_question(make_model, asked) -> None:
    folder = make_model(seed=3)
    assert likelihoods(folder, asked[::-1])[::-1] == likelihoods(folder, asked)


def test_a_long_context_loses_its_beginning_and_a_long_choice_is_refused(make_model) -> None:
    folder = make_model(seed=3)  # of 256 positions
    end = " Velin is a city." * 100
    long, longer = (Choices(f"{start}{end}", ("Karo", "Dunel"), 0, "line 1") for start in ("Who?", "Where was it?"))
    first, second = likelihoods(folder, [long, longer])
    assert first == second and all(map(math.isfinite, first))
    with pytest.raises(
        InputError, match=r"line 7: a choice of \d+ tokens, and the model's context has 256; shorten it"
    ):
        likelihoods(folder, [Choices("Who?", (end, "Karo"), 0, "line 7")])


@pytest.mark.parametrize("start", [0, 2])
def test_a_context_or_a_choice_without_a_token_of_its_own_is_refused(start: int) -> None:
    """Of a first token no model says how likely it is, and a choice of no token would be certain."""
    with pytest.raises(InputError, match="line 7: the model has no token that stands for the context alone, or none"):
        _cut(Encoded([5, 6], start), 256, "line 7")


def test_the_likeliest_choice_counts_with_and_without_its_length() -> None:
    one = Choices("c", ("four", "longer by far"), 1, "x")  # 4 and 13 characters
    scores = [[-4.0, -6.5]]
    assert figures.correct([one], scores).tolist() == [0.0]
    assert figures.correct([one], scores, norm=True).tolist() == [1.0]
    assert figures.correct([one], [[-2.0, -2.0]]).tolist() == [0.0]  # the first of equals


def test_figures_of_two_models(monkeypatch: pytest.MonkeyPatch) -> None:
    # Of 10 questions the earlier model has 8 right and the later one 6: 3 lost and 1 won.
    before, after = [1] * 8 + [0] * 2, [1] * 5 + [0] * 3 + [1, 0]
    right = {Path("b"): before, Path("r"): after}
    monkeypatch.setattr(figures, "likelihoods", lambda folder, asked: [[0.0, one * 2 - 1.0] for one in right[folder]])
    said: list[str] = []
    folders = {"base": Path("b"), "sft": Path("s"), "rl": Path("r")}
    found = measure(folders, [Choices("c", ("x", "y"), 1, "l")] * 10, confidence=0.95, say=said.append)
    assert (found["n"], list(found["models"])) == (10, ["base", "rl"])
    assert found["drop"] == pytest.approx(0.2)
    assert found["drop_low"] < 0.2 < found["drop_high"]
    # Bonett and Price: (3 + 1) / 12 - (1 + 1) / 12 +- 1.96 sqrt((6 / 12 - (2 / 12)^2) / 12).
    assert found["drop_high"] == pytest.approx(2 / 12 + 1.959964 * math.sqrt((0.5 - 1 / 36) / 12))
    assert found["models"]["rl"]["accuracy"]["mean"] == pytest.approx(0.6)
    # Wilson, 8 of 10.
    assert found["models"]["base"]["accuracy"]["low"] == pytest.approx(0.4902, abs=1e-4)
    assert said[0] == "ability: base: 0.800 of 10 multiple-choice questions right"
