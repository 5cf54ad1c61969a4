"""The learning rate: so small that nothing changes, or so large that the policy breaks."""

from __future__ import annotations

import math
from statistics import fmean

from tasks.agent.rewards.groups import EPSILON
from tasks.diagnosis.finding import Finding, Look, Plot
from tasks.diagnosis.run_data import RunData, early, late
from tasks.diagnosis.statistics import change, median

SAME = 0.02  # share of greedy texts that may have changed when a policy counts as unchanged
QUESTIONS = 8  # of a validation, below which that is not said
UPDATES = 2  # steps between two validations, below which it is not said either
SIGNAL = 0.2  # share of the groups that pay right rollouts more than wrong ones, below which nothing could be learnt
FALL = 0.1  # of success, what counts as broken; a fall must be 3 standard errors as well
ERRORS = 3.0
ENTROPY = (0.1, 3.0)  # last entropy over the first: collapsed, blown up; a healthy tiny run stays within 0.8 and 1.2
GRADIENT = 10.0  # last norm of the gradient over the first
CLIPPED = 0.3  # share of the tokens whose ratio PPO clips; 0 to 0.1 is usual
KL = 0.1  # nats a token between the policies before and after a step; PPO codes stop at some 0.02 to 0.1
EXTREME = (
    2.0  # times the limit of entropy, gradient, clipped share and KL, from which on they count though success rises
)
SMALL = "raise rl.learning_rate, ten times at once: some 1e-6 for billions of parameters, 4e-5 for profile tiny"
LARGE = "lower rl.learning_rate ten times, and begin anew from the SFT model: a broken policy does not come back"


def learning_rate(data: RunData) -> Finding:
    """Whether the policy changed at all, and whether it broke."""
    look = Look("learning-rate", "The learning rate")
    _zero(look, data)
    _unchanged(look, data)
    fell = _fell(look, data)
    _series(look, data, fell)
    entropy, gradient = data.series("actor/entropy"), data.series("actor/grad_norm")
    lines = {name: points for name, points in (("entropy", entropy), ("norm of the gradient", gradient)) if points}
    look.plot = Plot("entropy and gradient", lines, share=False) if lines else None
    return look.finding()


def _zero(look: Look, data: RunData) -> None:
    rates = [value for _, value in data.series("actor/lr")]
    if rates and max(rates) <= 0:
        look.bad("verl's learning rate (actor/lr) is 0 in every step", SMALL)
    elif (wanted := data.param("rl.learning_rate")) is not None and wanted <= 0:
        look.bad(f"rl.learning_rate is {wanted:g}", SMALL)


def _unchanged(look: Look, data: RunData) -> None:
    """Greedy texts of the same questions, before and after: of those that were wrong, and of a kind that RL played.

    Where the policy was right, there is nothing to change; and of what RL never plays it need not learn anything.
    """
    frame = data.validations
    steps = [] if frame is None else sorted(int(step) for step in frame["step"].unique())
    updates = [step for step in data.trained if steps and steps[0] < step <= steps[-1]]
    if frame is None or data.rollouts is None or len(steps) < 2 or len(updates) < UPDATES:
        look.lacking("whether greedy texts change: there are no two validations with steps between them")
        return
    first, last = (frame[frame["step"] == step].set_index("question_id") for step in (steps[0], steps[-1]))
    open_ones = (first["success"] < 1) & first["data_source"].isin(data.rollouts["data_source"].unique())
    common = first.index[open_ones].intersection(last.index)
    if len(common) < QUESTIONS:
        text = f"{len(common)} of {len(first)} validation questions were wrong at first and of a kind that RL plays"
        look.missing(f"whether greedy texts change: only {text}")
        return
    changed = float((first.loc[common, "text"] != last.loc[common, "text"]).mean())
    # Groups of the same kinds where right rollouts earn more than wrong ones: these could have changed what was wrong.
    kinds = data.rollouts[data.rollouts["data_source"].isin(first.loc[common, "data_source"].unique())]
    earned = (
        kinds.assign(right=kinds["success"] >= 1).groupby(["step", "question_id", "right"])["reward"].mean().unstack()
    )
    earned = earned.reindex(columns=[False, True])
    signal = float((earned[True] > earned[False] + EPSILON).mean())
    text = f"{changed:.0%} of {len(common)} greedy texts that were wrong at step {steps[0]} differ at step {steps[-1]}"
    if changed <= SAME and signal < SIGNAL:
        look.lacking(f"{text}, but only {signal:.0%} of such questions' groups pay right rollouts more")
    else:
        look.judge(
            changed <= SAME,
            f"{text}, while {signal:.0%} of such questions' groups pay right rollouts more",
            SMALL,
        )


def _fell(look: Look, data: RunData) -> bool:
    """Whether success or reward did not rise at all; a fall of success is told, in rollouts and validations."""
    # Of all that was played; verl's is of the groups that a filter kept, and all that older runs have logged.
    rewards = [value for _, value in data.series("episode/score") or data.series("critic/score/mean")]
    middle = len(rewards) // 2
    flat = len(rewards) > 1 and fmean(rewards[middle:]) <= fmean(rewards[:middle])
    if data.rollouts is None or len(data.trained) < 2:
        look.lacking("whether success falls: there are rollouts of fewer than two steps")
        return flat
    moved, errors = change(early(data.rollouts, data.trained), late(data.rollouts, data.trained), "success")
    if math.isnan(moved):
        look.lacking("whether success falls: no source has groups in both halves of the run")
        return flat
    text = f"success of the rollouts at the same mix of sources: {moved:+.2f} from the first to the second half"
    look.judge(moved <= -FALL and errors <= -ERRORS, text, LARGE, _broken(data) if moved <= -FALL else ())
    _validations(look, data)
    return flat or moved <= 0


def _validations(look: Look, data: RunData) -> None:
    """From the best validation to the last; the questions are the same, so it is a paired comparison."""
    from scipy.stats import binomtest

    if data.validations is None or data.validations["step"].nunique() < 2:
        return
    table = data.validations.pivot_table(index="question_id", columns="step", values="success").dropna()
    means = table.mean()
    best, last = means.idxmax(), means.index[-1]
    lost, won = int((table[last] < table[best]).sum()), int((table[last] > table[best]).sum())
    probability = binomtest(lost, lost + won, alternative="greater").pvalue if lost + won else 1.0
    look.judge(
        means[best] - means[last] > FALL and probability < 0.001,
        f"validation: success {means[best]:.2f} at its best (step {best}), {means[last]:.2f} in the end (step {last})",
        LARGE,
    )


def _series(look: Look, data: RunData, fell: bool) -> None:
    """What breaks a policy leaves marks in verl's metrics; they count where success did not rise, or are extreme."""
    entropy = [value for _, value in data.series("actor/entropy")]
    if not entropy:
        look.missing(f"entropy and gradients: {data.why('steps')}")
        return
    norms = [value for _, value in data.series("actor/grad_norm")]
    if any(not math.isfinite(value) for value in (*entropy, *norms)):
        look.bad("entropy or gradient is no finite number in some step", LARGE)
        return
    if len(entropy) < 3:
        look.missing("trends of entropy and gradient: there are fewer than three steps")
        return
    first, last = median(entropy[:2]), median(entropy[-2:])
    ratio = last / first if first else math.inf
    low, high = ENTROPY
    look.judge(
        (fell and not low <= ratio <= high) or ratio > EXTREME * high,
        f"entropy {first:.3g} at first, {last:.3g} in the end",
        LARGE,
    )
    if norms:
        before, after = median(norms[:2]), median(norms[-2:])
        grown = after > GRADIENT * (1.0 if fell else EXTREME) * before > 0
        look.judge(grown, f"norm of the gradient {before:.3g} at first, {after:.3g} in the end", LARGE)
    for metric, limit, name in (
        ("actor/pg_clipfrac", CLIPPED, "share of clipped tokens"),
        ("actor/ppo_kl", KL, "KL of a step"),
    ):
        if values := [abs(value) for _, value in data.series(metric)]:
            much = median(values) > (limit if fell else EXTREME * limit)
            look.judge(much, f"{name}: {median(values):.2g} (median; {limit:g} is much)", LARGE)


def _broken(data: RunData) -> list[tuple[str, str]]:
    frame = late(data.rollouts, data.trained)
    wrong = frame[frame["success"] < 1].drop_duplicates("question_id").tail(2)
    return [(f"step {row.step}: {row.question}", row.text) for row in wrong.itertuples()]
