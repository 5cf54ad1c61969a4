"""vLLM for evaluation and for SFT's checks: many episodes at once, in lockstep.

All episodes that wait for a turn are sent to the engine as one batch, in the order of the questions. A
batch's make-up then depends on nothing but the data, so a greedy second run gives the same answers.
"""

from __future__ import annotations

import asyncio
import json
import os
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tasks.agent.episode import Generation, Setup, run_episode
from tasks.agent.trajectory import Trajectory
from tasks.params import Episode


class Engine:
    """One vLLM engine in this process.

    Args:
        model: folder of a model in Hugging Face's form.
        episode: budgets, which give the longest sequence.
        max_seqs: most sequences in a batch; pinned and recorded, since it can change greedy answers by float noise.
        seed: of sampling.
    """

    def __init__(self, model: Path, episode: Episode, *, max_seqs: int, seed: int) -> None:
        from tasks.training.machine import engine_environment, has_gpu

        os.environ.update(engine_environment())
        os.environ["VLLM_LOGGING_LEVEL"] = "ERROR"
        # In this process: no second start-up of Python, and the weights can be exchanged.
        os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
        gpu = has_gpu()
        import vllm

        if not gpu:
            import vllm._custom_ops

            import tasks.training.cpu_platform  # noqa: F401  vLLM asks for its version under another name

            # Packed weights could not be exchanged: see training/vllm_worker.py.
            vllm._custom_ops._supports_onednn = False
        from vllm import LLM

        self._seed = seed
        # vLLM's dtype "auto" would turn float32 weights into 16 bits.
        config = json.loads((model / "config.json").read_text(encoding="utf-8"))
        # transformers 5 has renamed the key.
        dtype = config.get("dtype") or config["torch_dtype"]
        engine = {"max_num_seqs": max_seqs, "enforce_eager": True, "dtype": dtype}
        self._engine = LLM(
            model=str(model),
            max_model_len=episode.max_prompt_tokens + episode.max_response_tokens,
            max_num_batched_tokens=max(2048, episode.max_prompt_tokens + episode.max_response_tokens),
            seed=seed,
            disable_log_stats=True,
            use_tqdm_on_load=False,
            enable_prefix_caching=False,
            # On a CPU a seeded request whose prompt is cut into chunks fails ("CPU Generator does not use
            # offset"): vllm 0.27.1, v1/worker/gpu_model_runner.py:3750.
            enable_chunked_prefill=gpu,
            gpu_memory_utilization=0.8 if gpu else 0.4,
            **engine,
        )
        # What greedy answers depend on beside the weights.
        self.settings = {**engine, "vllm": vllm.__version__, "device": _device(gpu)}
        self.tokenizer: Any = self._engine.get_tokenizer()

    def load_weights(self, model: Path) -> None:
        """Exchange the weights for those of another checkpoint of the same architecture and tokenizer."""
        self._engine.collective_rpc("reload_weights", kwargs={"weights_path": str(model)})

    def play(
        self,
        rows: Sequence[dict[str, Any]],
        *,
        setup: Setup,
        samples: int = 1,
        temperature: float = 0.0,
        batch: int | None = None,
    ) -> list[Trajectory]:
        """Play `samples` episodes of every row.

        A deadline would cut an episode for what others of its batch take, so the setup should have none.

        Args:
            rows: of the data contract.
            setup: everything else that episodes share.
            samples: episodes of a row; each has a seed of its own, by row and number.
            temperature: 0.0 is greedy.
            batch: most turns that the engine gets at once; None: all that wait.

        Returns:
            trajectories in the order of the rows, `samples` next to each other.
        """
        batcher = _Batcher(self._engine, len(rows) * samples, batch)

        async def one(slot: int, row: dict[str, Any], sample: int) -> Trajectory:
            turn = 0

            async def generate(prompt_ids: list[int], *, max_tokens: int, stop: list[str]) -> Generation:
                nonlocal turn
                seed = zlib.crc32(f"{self._seed}/{row['extra_info']['id']}/{sample}/{turn}".encode())
                turn += 1
                return await batcher.generate(
                    slot, prompt_ids, max_tokens=max_tokens, stop=stop, temperature=temperature, seed=seed
                )

            try:
                return await run_episode(row, generate=generate, setup=setup)
            finally:
                batcher.leave()

        async def play_all() -> list[Trajectory]:
            jobs = [(row, sample) for row in rows for sample in range(samples)]
            return await asyncio.gather(*(one(slot, row, sample) for slot, (row, sample) in enumerate(jobs)))

        trajectories = asyncio.run(play_all())
        for trajectory in trajectories:
            trajectory.sampling = {"temperature": temperature, "samples": samples, "batch": batch, **self.settings}
        return trajectories


# Ids so far, how to sample, and who waits.
_Turn = tuple[list[int], dict[str, Any], asyncio.Future[Generation]]


class _Batcher:
    """Collects the turns that all living episodes wait for and sends them sorted by slot, at most `most` at once."""

    def __init__(self, engine: Any, episodes: int, most: int | None) -> None:
        self._engine, self._living, self._most = engine, episodes, most
        self._waiting: dict[int, _Turn] = {}

    async def generate(self, slot: int, prompt_ids: list[int], **sampling: Any) -> Generation:
        future: asyncio.Future[Generation] = asyncio.get_running_loop().create_future()
        self._waiting[slot] = (prompt_ids, sampling, future)
        self._send_when_complete()
        return await future

    def leave(self) -> None:
        """An episode has ended: the others no longer wait for it."""
        self._living -= 1
        self._send_when_complete()

    def _send_when_complete(self) -> None:
        if not self._waiting or len(self._waiting) < self._living:
            return
        turns = [self._waiting[slot] for slot in sorted(self._waiting)]
        self._waiting.clear()
        most = self._most or len(turns)
        for first in range(0, len(turns), most):
            self._send(turns[first : first + most])

    def _send(self, turns: Sequence[_Turn]) -> None:
        from vllm import SamplingParams

        outputs = self._engine.generate(
            [{"prompt_token_ids": prompt_ids} for prompt_ids, _, _ in turns],
            [SamplingParams(include_stop_str_in_output=True, logprobs=0, **sampling) for _, sampling, _ in turns],
            use_tqdm=False,
        )
        for (_, _, future), output in zip(turns, outputs, strict=True):
            completion = output.outputs[0]
            ids = list(completion.token_ids)
            logprobs = [step[token].logprob for token, step in zip(ids, completion.logprobs, strict=True)]
            future.set_result(Generation(ids, logprobs))


def _device(gpu: bool) -> str:
    import torch

    return torch.cuda.get_device_name() if gpu else f"cpu, {torch.get_num_threads()} threads"
