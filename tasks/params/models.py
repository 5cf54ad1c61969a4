"""The sections of the parameters as pydantic models; params/defaults.yaml says what each key means."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from tasks.params.algorithm import Rl
from tasks.params.idle import settings_that_cannot_act
from tasks.params.judging import Evaluate, Gate
from tasks.params.searching import Index, Retrieval
from tasks.sections import Count, Float, Positive, Section, Share


class Entry(BaseModel):
    """A source of questions or passages: its other keys belong to the reader's own model."""

    model_config = ConfigDict(extra="allow", frozen=True, strict=True)
    reader: str


class Proportion(Section):
    """How many training rows a source, or a number of hops, may have.

    `weight` is its share relative to the others'; `cap` is the most rows that are kept.
    """

    weight: Annotated[float, Field(gt=0, strict=False, allow_inf_nan=False)] | None = None
    cap: Positive | None = None


class Mixture(Section):
    sources: dict[str, Proportion]
    hops: dict[Annotated[int, Field(ge=1)], Proportion]

    @model_validator(mode="after")
    def _weights_of_one_kind(self) -> Mixture:
        if all(any(one.weight is not None for one in of.values()) for of in (self.sources, self.hops)):
            raise ValueError(
                "weights are for sources or for hops, since each would spoil the other's; caps go with both"
            )
        return self


class Ingest(Section):
    data_dir: str
    sources: Annotated[list[Entry], Field(min_length=1)]
    corpus: str | Entry | None
    max_faulty: Share
    max_dropped: Share
    drop_near_duplicates: bool
    separate: Literal["question", "passage"]
    validation_share: Share
    test_share: Share
    mixture: Mixture
    shuffle: bool


class Phase(Section):
    """One phase of pre-training: which text of `tasks/qa/practice.py`, for how long, in rows of which length."""

    text: Literal["repeats", "reading"]
    steps: Positive
    sequence_length: Annotated[int, Field(ge=2)]


class Pretraining(Section):
    phases: list[Phase]
    batch_tokens: Positive
    learning_rate: Float
    muon_learning_rate: Float
    weight_decay: Float


class Architecture(Section):
    hidden_size: Positive
    layers: Positive
    heads: Positive
    kv_heads: Positive
    vocabulary: Annotated[int, Field(ge=320)]  # 256 bytes, the special tokens, the tags, some merges
    initializer_range: Float


class Policy(Section):
    source: str
    dtype: Literal["float32", "bfloat16"]
    architecture: Architecture
    pretraining: Pretraining


class Validate(Section):
    false_alarm: Annotated[float, Field(gt=0, lt=1)]
    min_rows: Positive
    severity: dict[str, Literal["error", "warning"]]


class Messages(Section):
    """A prompt of two messages."""

    system: str
    user: str


class Episode(Section):
    protocol: str
    prompt: str | Messages
    example_answer: str | None
    max_turns: Positive
    max_prompt_tokens: Positive
    max_response_tokens: Positive
    max_turn_tokens: Positive
    max_observation_tokens: Positive
    max_parallel_calls: Positive
    max_repeats: Positive
    force_answer: bool
    correct_invalid: bool
    tool_seconds: Annotated[float, Field(gt=0, strict=False, allow_inf_nan=False)]
    interaction: str | None
    max_user_turns: Count


class Tools(Section):
    names: Annotated[list[str], Field(min_length=1)]
    server: str | None
    worker: Literal["process", "thread", "ray"]
    workers: Annotated[int, Field(gt=0, le=256)]


class Demos(Section):
    questions: Positive
    validation: Positive
    queries: Annotated[list[Literal["titles", "answer", "keywords"]], Field(min_length=1)]
    hop_weights: dict[Annotated[int, Field(ge=1)], Annotated[float, Field(gt=0, strict=False, allow_inf_nan=False)]]
    rl_share: Share
    rl_questions: str | None
    files: list[str]
    max_faulty: Share
    think: bool
    give_up: Share


class Sft(Section):
    learning_rate: Float
    batch_size: Positive
    max_steps: Count
    check_every: Positive
    check_questions: Positive
    check_samples: Annotated[int, Field(ge=4)]
    format_rate: Share
    success_rate: Share
    patience: Positive
    timeout_minutes: Positive
    verl: dict[str, Any]


class Rft(Section):
    enabled: bool
    start: Literal["rl", "sft"]
    per_question: Positive
    learning_rate: Float
    batch_size: Positive
    epochs: Positive
    validation: Positive
    timeout_minutes: Positive


class Select(Section):
    theta: Annotated[float, Field(ge=-1, le=1, strict=False)]
    share: Annotated[float, Field(gt=0, le=1)] | None


class Merge(Section):
    max_logit_diff: Float
    prompts: Positive


class Environment(BaseModel):
    """Name of the environment; its other keys belong to the environment's own model."""

    model_config = ConfigDict(extra="allow", frozen=True, strict=True)
    name: str


class Playing(Section):
    """What episodes are played by: four sections of the parameters."""

    environment: Environment
    retrieval: Retrieval
    episode: Episode
    tools: Tools

    @classmethod
    def of(cls, params: Any) -> Playing:
        """The sections of parameters that have them all."""
        return cls(**{name: getattr(params, name) for name in cls.model_fields})


class Params(Section):
    """All parameters of a run; one section a stage, and six shared ones."""

    profile: str
    seed: Annotated[int, Field(ge=0, lt=2**32)]
    environment: Environment
    retrieval: Retrieval
    episode: Episode
    tools: Tools
    ingest: Ingest
    policy: Policy
    validate_: Validate = Field(alias="validate")
    index: Index
    demos: Demos
    sft: Sft
    rl: Rl
    verl: dict[str, Any]
    select: Select
    merge: Merge
    rft: Rft
    evaluate: Evaluate
    gate: Gate

    def _phases_fit(self) -> None:
        budget = self.episode.max_prompt_tokens + self.episode.max_response_tokens
        tokens = self.policy.pretraining.batch_tokens
        for number, phase in enumerate(self.policy.pretraining.phases):
            key = f"policy.pretraining.phases.{number}.sequence_length: {phase.sequence_length}"
            if phase.sequence_length > budget:
                raise ValueError(f"{key} is longer than an episode's prompt and response, {budget}")
            if tokens % phase.sequence_length:
                raise ValueError(f"{key} does not divide policy.pretraining.batch_tokens, {tokens}")

    @model_validator(mode="after")
    def _fits(self) -> Params:
        if self.rl.steps < self.rl.validate_every:
            raise ValueError("rl.validate_every: larger than rl.steps, so no checkpoint would ever be measured")
        shape = self.policy.architecture
        if shape.hidden_size % (2 * shape.heads) or shape.heads % shape.kv_heads:
            raise ValueError("policy.architecture: heads must divide hidden_size evenly, and kv_heads the heads")
        if self.policy.source == "scratch":
            self._phases_fit()
        for fault in settings_that_cannot_act(self.rl):
            raise ValueError(fault)
        if 0 < self.sft.max_steps < self.sft.check_every:
            raise ValueError("sft.check_every: larger than sft.max_steps, so no checkpoint would ever be checked")
        if self.sft.max_steps and self.demos.validation < self.sft.batch_size:
            # verl's SFT trainer drops a last batch that isn't full.
            raise ValueError("demos.validation: smaller than sft.batch_size, so there would be no evaluation loss")
        if self.rft.enabled and self.rft.validation < self.rft.batch_size:
            raise ValueError("rft.validation: smaller than rft.batch_size, so there would be no evaluation loss")
        return self
