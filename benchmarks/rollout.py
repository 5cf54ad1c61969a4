"""What the agent loop costs beside vLLM: against verl's own loop, with slow tools, and with the rollout log.

    python -m benchmarks.rollout [--rounds 15] [--trajectories 32] [--json FILE]

One run, one engine, the same prompts; what is compared takes turns, after a round that does not count. The policy
has random weights and profile tiny's size: the smaller the model, the more a loop's own time shows. Parts:

- loop: our agent loop with one turn against verl's SingleTurnAgentLoop, both over vLLM's AsyncLLM, at equal generated
  tokens. Ours also scores and logs each trajectory. `verl` has the engine look for the same stop strings and sample
  by a seed for each request, as ours does; `verl-bare` does neither: what these two cost is the engine's time
- tools: trajectories that call a tool three times, one call after the other, which takes 200 ms or none. vLLM really
  generates each turn; the tool calls are then put in its place, since random weights call no tool
- log: processor time of writing and gathering a step's trajectories, against the step: profile tiny's on 2 cores (128
  trajectories of about 160 tokens; its time is that in metrics/rl.json), and one of a GPU's size (512 of 4,096 tokens
  in 15 s)
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import tasks.quiet  # noqa: F401  OpenMP's threads sleep while they wait, as in a stage

DELAY = 0.2
TURN_TOKENS = 32
OTHERS = ("verl", "verl-bare")
LOG_STEPS = {"tiny": (128, 160, None), "gpu": (512, 4096, 15.0)}  # trajectories, tokens of each, seconds of a step


def make_model(folder: Path) -> None:
    """Save a policy of random weights and profile tiny's size, with a tokenizer of its own."""
    from tasks import params
    from tasks.agent.protocols import create
    from tasks.qa import world
    from tasks.training import policies
    from tasks.training.tokenizer import train_tokenizer

    policy = params.parse(params.resolve("tiny"), where="benchmark").policy
    made = world.generate(0, {"train": 200, "validation": 20, "test": 20}, {"train": 9, "validation": 9, "test": 9},
                          {"one-hop": 1.0})  # fmt: skip
    texts = [text for passage in made.passages for text in (passage.title, passage.text)]
    tokenizer = train_tokenizer(texts, policy.architecture.vocabulary, create("search-r1", ["wait"]).tokens)
    policies.save(policies.from_scratch(policy.architecture, tokenizer, 1024, 0), folder, "float32", [])


def log_costs(rounds: int) -> dict[str, dict[str, Any]]:
    """Processor seconds to log a step's trajectories (in the episodes' process) and to gather them (in the stage's)."""
    from tasks.agent.trajectory import CallRecord, Segment, Trajectory
    from tasks.training.rollouts import RolloutLog, append

    rng = random.Random(0)

    def trajectory(number: int, tokens: int) -> Trajectory:
        """Four turns and four observations, half of the tokens generated; four characters a token."""
        share = tokens // 8
        segments = []
        for _ in range(4):
            ids = [rng.randrange(150_000) for _ in range(share)]
            segments.append(Segment("generated", "word" * share, ids, [-rng.random() for _ in range(share)]))
            segments.append(Segment("observation", "wörd" * share, [rng.randrange(150_000) for _ in range(share)]))
        calls = [CallRecord("search", "Where?", 0.1)] * 4
        return Trajectory(str(number), "search", "made", "Who?", ["a"], 2, [1] * 64, segments, calls=calls,
                          reward_parts={"em": 1.0})  # fmt: skip

    found: dict[str, dict[str, Any]] = {}
    for name, (count, tokens, seconds) in LOG_STEPS.items():
        played = [trajectory(number, tokens) for number in range(count)]
        step = seconds or json.loads(Path("metrics/rl.json").read_text(encoding="utf-8"))["seconds_per_step"]
        costs: dict[str, list[float]] = {"append": [], "gather": []}
        for number in range(-1, rounds):
            with tempfile.TemporaryDirectory() as folder:
                log = RolloutLog(Path(folder))
                start = time.process_time()
                for one in played:
                    append(log.folder, one, step=1, split="train", sample=0)
                written = time.process_time()
                log.gather(1)
                log.figures(1)
                if number >= 0:
                    costs["append"].append(written - start)
                    costs["gather"].append(time.process_time() - written)
        found[name] = {"trajectories": count, "tokens": tokens, "step": step, **costs}
    return found


def _spread(values: list[float], unit: str, scale: float = 1.0) -> str:
    return f"{scale * median(values):.3g} {unit} ({scale * min(values):.3g} to {scale * max(values):.3g})"


def _ratio(ours: list[float], theirs: list[float]) -> str:
    """What our loop takes in units of another's: by the medians, by pairs of rounds, and by the quickest rounds."""
    pairs = median(one / other for one, other in zip(ours, theirs, strict=True))
    return (
        f"ratio {median(ours) / median(theirs):.3f} of the medians, {pairs:.3f} the median of pairs, "
        f"{min(ours) / min(theirs):.3f} of the least"
    )


def table(result: dict[str, Any]) -> str:
    """The figures as text: medians, least and most, and the shares that count."""
    loops, spent, tools = result["loops"]["seconds"], result["loops"]["processor"], result["tools"]
    added = [slow - fast for slow, fast in zip(tools["with"], tools["without"], strict=True)]
    serial = median(tools["serial"])
    lines = [
        "median (least to most)",
        f"loop   forager {_spread(loops['forager'], 's')}",
        *(f"       {name} {_spread(loops[name], 's')}: {_ratio(loops['forager'], loops[name])}" for name in OTHERS),
        f"       processor time beside the engine's: forager {_spread(spent['forager'], 's')}",
        *(f"       {name} {_spread(spent[name], 's')}: {_ratio(spent['forager'], spent[name])}" for name in OTHERS),
        f"tools  {_spread(tools['with'], 's')} at {1000 * DELAY:.0f} ms a call, {_spread(tools['without'], 's')} at 0",
        f"       added {_spread(added, 's')}: {median(added) / serial:.3f} x the longest serial latency of a "
        f"trajectory, {serial:.3f} s",
    ]
    for name, cost in result["log"].items():
        step = cost["step"]
        lines += [
            f"log    {name}: {cost['trajectories']} trajectories of {cost['tokens']} tokens, a step of {step:.1f} s",
            f"       written in {_spread(cost['append'], 'ms', 1000)}: {median(cost['append']) / step:.3%} of the step",
            f"       gathered, by the stage beside it, in {_spread(cost['gather'], 'ms', 1000)}: "
            f"{median(cost['gather']) / step:.3%}",
        ]
    return "\n".join(lines)


def main() -> None:
    """Make a model, run every part, print a table."""
    from tasks.processes import run_supervised
    from tasks.training.machine import engine_environment

    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    parser = argparse.ArgumentParser(prog="python -m benchmarks.rollout", description=main.__doc__)
    parser.add_argument("--rounds", type=int, default=15, help="counted rounds of everything (default 15)")
    parser.add_argument("--trajectories", type=int, default=32, help="side by side (default 32)")
    parser.add_argument("--tokens", type=int, default=128, help="generated by a trajectory of `loop` (default 128)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write every measured value to FILE")
    options = parser.parse_args()
    wanted = {"trajectories": options.trajectories, "rounds": options.rounds, "tokens": options.tokens,
              "turn_tokens": TURN_TOKENS, "delay": DELAY}  # fmt: skip
    with tempfile.TemporaryDirectory() as name:
        make_model(Path(name, "model"))
        command = [sys.executable, "-m", "benchmarks.rollout_loops", name, json.dumps(wanted)]
        environment = engine_environment(Path(name, "cache"))
        # Ends the engine's own processes as well, however this one ends.
        run_supervised(command, log=Path(name, "log"), timeout=3600, environment=environment)
        result = json.loads(Path(name, "loops-result.json").read_text(encoding="utf-8"))
    result = {"options": wanted, **result, "log": log_costs(options.rounds)}
    print(table(result), flush=True)
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
