"""Engine disagreement: vLLM samples with other probabilities than the trainer computes for the same tokens."""

from __future__ import annotations

import json
import math

import numpy as np

from tasks.diagnosis.finding import Finding, Look, Plot
from tasks.diagnosis.run_data import RunData
from tasks.diagnosis.statistics import median

# Of the mean difference of a token's probability. 16 bits: verl's FAQ calls up to 0.005 normal. float32 differs by some
# 1e-7 (docs/tiny.md); a thousand times that is no rounding any more, but another dtype or other weights.
MEAN_DIFFERENCE = {"float32": 1e-4, "bfloat16": 5e-3}
# Of the largest one; float32: as of the mean. In 16 bits single tokens differ by .5 and more in runs that learn.
MOST_DIFFERENCE = 1e-2
KL = 0.05  # nats a token, median of the steps: what the gate's own example allows
PEARSON = 0.95  # between the probabilities of engine and trainer; verl reports 0.99 and more for engines that agree
POSITIVE = 1e-3  # nats above 0, which no log-probability is but for rounding
GROWTH = 10.0  # of the difference from the first to the last steps: the engine does not get the new weights
CHECK = "run `python -m tasks.rl --check-engine`: its report names the first token that differs and what to rule out"
DIFFERENT = (
    "give engine and trainer the same dtype (policy.dtype; take any dtype out of section verl), the same weights, "
    "temperature 1 or verl's own scaling of log-probabilities, and neither top_p nor top_k"
)
STALE = "the difference grows with the steps: the engine keeps old weights; look at update_weights in verl.log"
SAMPLING = "sample as is trained: temperature of rl.temperature, no top_p, no top_k (see section verl)"
KLS = {
    "rollout_corr/kl": "KL of engine and trainer",
    "rollout_corr/k3_kl": "KL of engine and trainer, never negative form (k3)",
    "rollout_corr/log_ppl_abs_diff": "log-perplexities of the rollouts, engine against trainer",
}
MEAN_METRIC = "training/rollout_probs_diff_mean"


def engine(data: RunData) -> Finding:
    """The check before the first step, verl's comparison in every step, and how rollouts were sampled."""
    look = Look("engine", "Engine disagreement")
    _sanity(look, data)
    _steps(look, data)
    _sampling(look, data)
    return look.finding()


def _sanity(look: Look, data: RunData) -> None:
    if data.sanity is None or not data.sanity.get("episodes"):
        look.lacking(f"the check before the first step: {data.why('sanity')}")
        return
    check, allowed = data.sanity, float(data.param("rl.sanity.max_logprob_diff", 1e-3))
    difference = float(check["max_logprob_diff"])
    text = (
        f"before the first step, {check['tokens']} greedy tokens: log-probabilities of vLLM and transformers differ by "
        f"up to {difference:.2g} nats (tolerance {allowed:g}), {check['disagreements']} tokens are no first choice"
    )
    usual = float(MEAN_DIFFERENCE["float32"] * 10) if data.param("policy.dtype") == "float32" else allowed
    # A tolerance that was raised until the check passes is no agreement.
    bad = not check["passed"] or not difference <= min(allowed, max(usual, 1e-3)) or check["disagreements"] > 0
    look.judge(bad, text, CHECK)


def _steps(look: Look, data: RunData) -> None:
    means = data.series(MEAN_METRIC)
    if not means:
        look.lacking(f"verl's comparison in training: {data.why('steps')}")
        return
    if not data.param("rl.mask_observations", True):
        look.lacking(
            "verl's comparison in training: observations are trained on, of which the engine has no probability"
        )
        return
    look.plot = Plot("mean difference of a token's probability, engine against trainer", {"mean": means}, share=False)
    dtype = data.param("policy.dtype", "bfloat16")
    limit = MEAN_DIFFERENCE.get(dtype, MEAN_DIFFERENCE["bfloat16"])
    values = [value for _, value in means]
    mean = math.nan if any(math.isnan(value) for value in values) else median(values)
    first, last = median(values[:2]), median(values[-2:])
    look.judge(
        not max(mean, last) <= limit,
        f"probabilities of tokens differ by {mean:.2g} in the mean (median of the steps; last steps {last:.2g}); "
        f"{limit:g} is what {dtype} explains",
        STALE if last > GROWTH * first and len(values) >= 4 and last > limit else DIFFERENT,
    )
    largest = [value for _, value in data.series("training/rollout_probs_diff_max")]
    if largest and dtype == "float32":
        most = median(largest)
        text = f"the probability of one token differs by {most:.2g} (median of the steps; allowed {MOST_DIFFERENCE})"
        look.judge(not most <= MOST_DIFFERENCE, text, DIFFERENT)
    for metric, name in KLS.items():
        if values := [abs(value) for _, value in data.series(metric)]:
            text = f"{name}: {median(values):.2g} nats a token (median; allowed {KL})"
            look.judge(not median(values) <= KL, text, DIFFERENT)
    pearson = data.series("training/rollout_actor_probs_pearson_corr")
    if pearson:
        lowest = min(value for _, value in pearson)
        look.judge(
            not lowest >= PEARSON, f"correlation of the probabilities: {lowest:.4f} at the lowest step", DIFFERENT
        )


def _sampling(look: Look, data: RunData) -> None:
    if data.rollouts is None or data.rollouts.empty or "sampling" not in data.rollouts:
        look.lacking(f"how rollouts were sampled: {data.why('rollouts')}")
        return
    wanted = data.param("rl.temperature")
    for text in data.rollouts["sampling"].unique():
        settings = json.loads(text)
        said = ", ".join(f"{key} {value}" for key, value in settings.items())
        warm = settings.get("temperature", wanted)
        other = wanted is not None and not math.isclose(warm, wanted)
        cut = settings.get("top_p", 1) < 1 or settings.get("top_k", -1) > 0
        look.judge(
            other or cut,
            f"rollouts were sampled with {said}" + (f"; trained at temperature {wanted}" if other else ""),
            SAMPLING,
        )
    broken = sum(
        bool((~(np.asarray(logprobs)[: len(masks)] <= POSITIVE) & (np.asarray(masks)[: len(logprobs)] > 0)).any())
        for logprobs, masks in zip(data.rollouts["response_logprobs"], data.rollouts["response_mask"], strict=True)
    )
    if broken:
        look.bad(f"{broken} rollouts have log-probabilities above 0, or that are no numbers", CHECK)
