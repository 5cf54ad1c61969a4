"""What spoils a healthy run: functions that plant a cause in a recorded run, with what has to be named."""

import json
import random
from collections.abc import Callable
from itertools import cycle

import pytest

SPOILS: list = []


def plants(cause: str, *more: str):
    """Marks a function that spoils a run; it may name causes that come with it."""

    def mark(spoil: Callable) -> Callable:
        SPOILS.append(pytest.param(spoil, {cause, *more}, id=f"{cause}-{spoil.__name__}"))
        return spoil

    return mark


def answer(one: dict, text: str, right: bool) -> None:
    """Give an episode another answer, and what that earns."""
    parts = json.loads(one["segments"])
    parts[-1]["text"] = f"<answer> {text} </answer>"
    one |= {
        "segments": json.dumps(parts),
        "text": "".join(part["text"] for part in parts),
        "answer": text,
        "success": float(right),
        "format_valid": True,
        "reward": 1.0 if right else 0.1,
        "stop_reason": "answer",
    }


def cut(one: dict, reason: str) -> None:
    """End an episode before its last turn."""
    parts = json.loads(one["segments"])[:-1] or json.loads(one["segments"])
    text = "".join(part["text"] for part in parts)
    one |= {"segments": json.dumps(parts), "text": text, "response_mask": mask(parts), "stop_reason": reason}
    one |= {"answer": None, "success": 0.0, "reward": 0.0, "format_valid": False}


def mask(parts: list[dict]) -> list[int]:
    return [int(part["kind"] == "generated") for part in parts for _ in range(part["tokens"])]


def regroup(run, ids: list[str]) -> None:
    """Let the steps take the questions in another order."""
    per_step = len(ids) // len({one["step"] for one in run.episodes()})
    step = {question: number // per_step + 1 for number, question in enumerate(ids)}
    run.rollouts = [
        {**one, "step": step[one["question_id"]]} if one["split"] == "train" else one for one in run.rollouts
    ]


def by_hops(run) -> list[str]:
    questions = {one["question_id"]: one["hops"] for one in run.episodes()}
    return sorted(questions, key=lambda one: questions[one])


@plants("order")
def table_sorted(run) -> None:
    regroup(run, by_hops(run))
    seen = {one: n for n, one in enumerate(by_hops(run))}
    run.rows.sort(key=lambda row: (seen.get(row["extra_info"]["id"], len(seen)), row["extra_info"]["hops"]))


@plants("order")
def steps_sorted(run) -> None:
    regroup(run, by_hops(run))


@plants("order")
def next_table_sorted(run) -> None:
    # What the steps took was shuffled; the table that lies there now is not.
    run.rows.sort(key=lambda row: row["extra_info"]["hops"])


@plants("copied-answers")
def example_in_params(run) -> None:
    run.params["episode"]["example_answer"] = "Beijing"
    copy(run, 3)


@plants("copied-answers")
def example_in_prompt(run) -> None:
    run.params["episode"]["prompt"] = "Answer, for example <answer> Beijing </answer>. Question: {question}"
    copy(run, 3)


@plants("copied-answers")
def one_answer(run) -> None:
    copy(run, 1)


@plants("copied-answers")
def an_answer_from_nowhere(run) -> None:
    copy(run, 3)


def copy(run, every: int) -> None:
    for number, one in enumerate(run.episodes()):
        if number % every == 0:
            answer(one, "Beijing", right=False)


@plants("engine")
def check_failed(run) -> None:
    run.sanity |= {"passed": False, "max_logprob_diff": 0.4, "disagreements": 7}


@plants("engine")
def other_dtype(run) -> None:
    for step in run.steps[1:]:
        step["data"] |= {"training/rollout_probs_diff_mean": 2e-3, "rollout_corr/kl": 3e-4}


@plants("engine")
def single_tokens(run) -> None:
    for step in run.steps[1:]:
        step["data"]["training/rollout_probs_diff_max"] = 0.9


@plants("engine")
def perplexity(run) -> None:
    for step in run.steps[1:]:
        step["data"]["rollout_corr/log_ppl_abs_diff"] = 0.2


@plants("engine")
def impossible_probabilities(run) -> None:
    for one in run.episodes():
        one["response_logprobs"] = [0.3] * len(one["response_mask"])


@plants("engine")
def old_weights(run) -> None:
    for step in run.steps[1:]:
        step["data"]["training/rollout_probs_diff_mean"] = 1e-7 * 10 ** step["step"]


@plants("engine")
def cut_sampling(run) -> None:
    for one in run.episodes():
        one["sampling"] = json.dumps({"temperature": 0.6, "top_p": 0.9, "top_k": -1})


@plants("groups")
def all_right(run) -> None:
    for one in run.episodes():
        answer(one, one["golden_answers"][0], right=True)


@plants("groups")
def solved_before(run) -> None:
    run.rollouts = [one for one in run.rollouts if one["hops"] == 1]
    run.rows = [row for row in run.rows if row["extra_info"]["hops"] == 1]


@plants("groups")
def form_only(run) -> None:
    for number, one in enumerate(run.rollouts):
        answer(one, f"Nowhere {number % 17}", right=False)


@plants("groups")
def form_only_in_training(run) -> None:
    # All numbers of hops are alike in the rollouts, whatever the validations say.
    for number, one in enumerate(run.episodes()):
        answer(one, f"Nowhere {number % 17}", right=False)


@plants("hops")
def one_hop_solved(run) -> None:
    for number, one in enumerate(run.rollouts):
        if one["hops"] == 2:
            answer(one, f"Nowhere {number % 17}", right=False)


@plants("hops")
def unpaid_second_search(run) -> None:
    # Here and there, but never more than a tenth: the groups have signal, and it leads nowhere.
    for number, one in enumerate(run.rollouts):
        if one["hops"] == 2:
            answer(one, f"Nowhere {number % 17}", right=number % 15 == 0 and one["split"] == "train")


@plants("retrieval")
def other_passages(run) -> None:
    ids = [one["id"] for one in run.corpus]
    draw = random.Random(0)
    for number, one in enumerate(run.rollouts):
        one["passage_ids"] = json.dumps([draw.sample(ids, 3) for _ in json.loads(one["passage_ids"])])
        if one["success"]:
            answer(one, f"Nowhere {number % 17}", right=False)


@plants("retrieval")
def nothing_found(run) -> None:
    for number, one in enumerate(run.rollouts):
        one["passage_ids"] = json.dumps([[] for _ in json.loads(one["passage_ids"])])
        answer(one, f"Nowhere {number % 17}", right=False)


@plants("retrieval")
def nothing_noted(run) -> None:
    for number, one in enumerate(run.rollouts):
        one["passage_ids"] = "[]"
        answer(one, f"Nowhere {number % 17}", right=False)


@plants("retrieval")
def poor_index(run) -> None:
    run.index["lowest_oracle_at_3"] = 0.31


@plants("retrieval")
def foreign_index(run) -> None:
    for one in run.rollouts:
        one["passage_ids"] = json.dumps([[f"wiki-{key}" for key in ids] for ids in json.loads(one["passage_ids"])])


@plants("truncation")
def short_budget(run) -> None:
    for number, one in enumerate(run.episodes()):
        if number % 2:
            cut(one, "length")


@plants("truncation")
def no_room(run) -> None:
    # What two searches show just fills the response; the answer is cut to a token or two, and wrong.
    run.params["episode"]["max_response_tokens"] = 64
    for number, one in enumerate(run.rollouts):
        if one["searches"] > 1:
            parts = json.loads(one["segments"])
            parts[1:4] = [{**part, "tokens": tokens} for part, tokens in zip(parts[1:4], (28, 5, 23), strict=False)]
            one |= {"segments": json.dumps(parts), "response_mask": mask(parts)}
            one["response_logprobs"] = [0.0] * len(one["response_mask"])
            answer(one, f"Nowhere {number % 17}", right=False)


@plants("truncation")
def few_turns(run) -> None:
    run.params["episode"]["max_turns"] = 2
    for one in run.rollouts:
        if one["searches"] > 1:
            cut(one, "turns")


@plants("truncation")
def short_observations(run) -> None:
    run.params["episode"]["max_observation_tokens"] = 12
    for number, one in enumerate(run.rollouts):
        parts = json.loads(one["segments"])
        for part in parts:
            if part["kind"] == "observation":
                part |= {"text": "\n<information> Doc 1 (Title: X) </information>\n", "tokens": 12}
        one |= {"segments": json.dumps(parts), "response_mask": mask(parts)}
        one["response_logprobs"] = [0.0] * len(one["response_mask"])
        if one["success"]:
            answer(one, f"Nowhere {number % 17}", right=False)


@plants("learning-rate")
def too_small(run) -> None:
    before = {one["question_id"]: one for one in run.episodes("validation") if one["step"] == 0}
    for one in run.episodes("validation"):
        one |= {**before[one["question_id"]], "step": one["step"]}
    # The later steps are played by the same policy as the first: their questions, the answers of the first.
    rollouts, steps = run.episodes(), cycle((1, 2))
    for step in range(3, 7):
        played = [one for one in rollouts if one["step"] == next(steps)]
        for hops in (1, 2):
            pool = cycle([one for one in played if one["hops"] == hops])
            for one in (one for one in rollouts if one["step"] == step and one["hops"] == hops):
                one |= {name: next(pool)[name] if name == "success" else one[name] for name in ("success",)}
                answer(one, one["golden_answers"][0] if one["success"] else "unknown", right=bool(one["success"]))


@plants("learning-rate")
def zero(run) -> None:
    for step in run.steps[1:]:
        step["data"]["actor/lr"] = 0.0


@plants("learning-rate")
def zero_by_parameter(run) -> None:
    run.params["rl"]["learning_rate"] = 0.0


@plants("learning-rate")
def too_large_while_success_rises(run) -> None:
    for step in run.steps[1:]:
        step["data"]["actor/ppo_kl"] = 0.8


@plants("learning-rate")
def too_large(run) -> None:
    for step in run.steps[3:]:
        step["data"] |= {"actor/entropy": 2.5, "actor/grad_norm": 40.0}
    for number, one in enumerate(run.rollouts):
        if one["step"] >= 3:
            parts = [{"kind": "generated", "text": f"works works {number % 7} for", "tokens": 32, "mask": 1}]
            one |= {"segments": json.dumps(parts), "text": parts[0]["text"], "response_mask": [1] * 32}
            one |= {"queries": [], "searches": 0, "passage_ids": "[]", "calls": "[]", "answer": None, "success": 0.0}
            one |= {"reward": 0.0, "format_valid": False, "stop_reason": "length"}


@plants("learning-rate")
def collapsed(run) -> None:
    # As it stands in the metrics alone.
    for step in run.steps[3:]:
        step["data"] |= {"actor/entropy": 0.002, "critic/score/mean": 0.1}


@plants("mask")
def switched_off(run) -> None:
    run.params["rl"]["mask_observations"] = False


@plants("mask")
def observations_in_the_loss(run) -> None:
    for one in run.episodes():
        one["response_mask"] = [1] * len(one["response_mask"])


@plants("mask")
def demonstrations_in_the_loss(run) -> None:
    for demo in run.demos:
        for part in demo["segments"]:
            part["loss"] = True


@plants("format", "groups")
def no_warm_up(run) -> None:
    for number, one in enumerate(run.rollouts):
        parts = [{"kind": "generated", "text": f"Doc 2 is a city in {number % 7}", "tokens": 32, "mask": 1}]
        one |= {"segments": json.dumps(parts), "text": parts[0]["text"], "response_mask": [1] * 32}
        one |= {"queries": [], "searches": 0, "passage_ids": "[]", "calls": "[]", "answer": None, "success": 0.0}
        one |= {"reward": 0.0, "format_valid": False, "stop_reason": "length"}


@plants("format", "groups")
def random_queries(run) -> None:
    # It searches, for what nobody asked: the index is sound.
    no_warm_up(run)
    for number, one in enumerate(run.rollouts):
        one |= {"queries": [f"is a{number % 5}"], "searches": 1, "passage_ids": "[[]]"}
        one["calls"] = json.dumps([{"tool": "search", "arguments": "is a", "seconds": 0.1, "failure": None}])
        one["stop_reason"] = "invalid"


@plants("tools")
def failing_tool(run) -> None:
    for number, one in enumerate(run.episodes()):
        if number % 2:
            one["calls"] = json.dumps([{**call, "failure": "timeout"} for call in json.loads(one["calls"])])


@plants("reward")
def any_answer_is_paid(run) -> None:
    for one in run.rollouts:
        if one["answer"] is not None:
            one["reward"] = 1.0


@plants("reward")
def no_number(run) -> None:
    for one in run.episodes()[::5]:
        one["reward"] = float("nan")
