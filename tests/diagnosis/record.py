"""Cuts a finished short run of profile tiny down to what the tests of the diagnosis spoil.

    python tests/diagnosis/record.py WORKSPACE

`recorded/` was made from a run of `{extends: tiny, rl: {steps: 6, validate_every: 3, validation_questions: 64}}`.
"""

import json
import shutil
import sys
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from tasks.diagnosis.loading import COLUMNS

OUT = Path(__file__).parent / "recorded"
GROUPS, SAMPLES, VALIDATED, ROWS, DEMOS = 10, 6, 40, 600, 60
METRICS = (
    "actor/entropy", "actor/grad_norm", "actor/lr", "actor/pg_clipfrac", "actor/ppo_kl", "critic/score/mean",
    "rollout_corr/kl", "training/rollout_actor_probs_pearson_corr", "training/rollout_probs_diff_max",
    "training/rollout_probs_diff_mean",
)  # fmt: skip


def main(workspace: Path) -> None:
    data = workspace / "data"
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir()
    for source in ("params/params.yaml", "rl/sanity.json", "rl/selected.json"):
        shutil.copy(data / source, OUT)
    steps = [json.loads(line) for line in (data / "rl/steps.jsonl").read_text().splitlines()]
    kept = [{"step": s["step"], "data": {k: v for k, v in s["data"].items() if k in METRICS}} for s in steps]
    (OUT / "steps.jsonl").write_text("".join(json.dumps(step) + "\n" for step in kept))
    figures = json.loads((data / "index/figures.json").read_text())
    (OUT / "index.json").write_text(json.dumps({k: v for k, v in figures.items() if not isinstance(v, dict)}, indent=1))

    rows = pq.read_table(data / "demos/rl_train.parquet", columns=["data_source", "extra_info"]).to_pylist()
    place = {row["extra_info"]["id"]: number for number, row in enumerate(rows)}
    frame = pd.concat([pd.read_parquet(path) for path in sorted((data / "rl/rollouts").glob("*.parquet"))])[
        list(COLUMNS)
    ]
    parts, left_out = [], set()
    for (split, _), part in frame.groupby(["split", "step"]):
        ids = sorted(part["question_id"].unique(), key=lambda one: place.get(one, 0))
        chosen = ids[: GROUPS if split == "train" else VALIDATED]
        left_out |= set(ids) - set(chosen) if split == "train" else set()
        parts.append(part[part["question_id"].isin(chosen) & (part["sample"] < SAMPLES)])
    pq.write_table(
        pa.Table.from_pandas(pd.concat(parts), preserve_index=False), OUT / "rollouts.parquet", compression="zstd"
    )

    left = [row for row in rows if row["extra_info"]["id"] not in left_out][:ROWS]
    pq.write_table(pa.Table.from_pylist(left), OUT / "rows.parquet", compression="zstd")
    demos = pq.read_table(data / "demos/train.parquet", columns=["chosen", "segments"]).slice(0, DEMOS)
    pq.write_table(demos, OUT / "demos.parquet", compression="zstd")
    seen = {one for part in parts for text in part["passage_ids"] for ids in json.loads(text) for one in ids}
    wanted = seen | {one for row in left for one in row["extra_info"]["gold_passage_ids"]}
    corpus = [one for one in pq.read_table(data / "ingest/corpus.parquet").to_pylist() if one["id"] in wanted]
    titles = [{"id": one["id"], "title": one["title"]} for one in corpus]
    pq.write_table(pa.Table.from_pylist(titles), OUT / "corpus.parquet", compression="zstd")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
