"""Typed parameters: `params/defaults.yaml`, overlaid by the profile named in `params/profile.yaml`.

`python -m tasks.params` is the first stage of the DAG. It resolves both files into
`data/params/params.yaml`, whose sections the other stages depend on: an overlay may name as few
keys as it likes, and a change of one key re-runs just the stages that read its section.
Every key is checked before anything else runs; an unknown one is refused with the nearest valid key.
"""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from tasks.errors import InputError, exit_on_input_error
from tasks.files import write_text_aside

DEFAULTS = Path("params/defaults.yaml")
PROFILE = Path("params/profile.yaml")
RESOLVED = Path("data/params/params.yaml")


class Section(BaseModel):
    """A frozen group of parameters that refuses unknown keys and wrong types."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


Share = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=0)]
Positive = Annotated[int, Field(gt=0)]
Float = Annotated[float, Field(strict=False, allow_inf_nan=False, ge=0)]


class SplitCounts(Section):
    """A number for each split."""

    train: Positive
    validation: Positive
    test: Positive

    def by_split(self) -> dict[Literal["train", "validation", "test"], int]:
        """The numbers by the split's name."""
        return {"train": self.train, "validation": self.validation, "test": self.test}


class WorldSource(Section):
    """The generated world: see `tasks/qa/world.py`."""

    reader: Literal["world"]
    people: SplitCounts
    questions: SplitCounts
    kinds: dict[Literal["one-hop", "two-hop", "comparison"], Share]


class FileSource(Section):
    """A question file in one of the forms that `tasks/qa/` reads."""

    reader: Literal["jsonl", "hotpotqa"]
    name: str
    path: str
    split: Literal["train", "validation", "test"]
    limit: Positive | None = None
    licence: str = "unknown"


class Ingest(Section):
    data_dir: str
    sources: Annotated[list[Annotated[WorldSource | FileSource, Field(discriminator="reader")]], Field(min_length=1)]
    corpus: str | None
    validation_share: Share
    shuffle: bool


class Pretraining(Section):
    steps: Count
    batch_size: Positive
    learning_rate: Float
    sequence_length: Positive


class Architecture(Section):
    hidden_size: Positive
    layers: Positive
    heads: Positive
    kv_heads: Positive
    vocabulary: Annotated[int, Field(ge=320)]  # 256 bytes, the special tokens, the tags, some merges


class Policy(Section):
    source: str
    dtype: Literal["float32", "bfloat16"]
    architecture: Architecture
    pretraining: Pretraining


class Validate(Section):
    window: Positive
    max_share_gap: Share
    run_probability: Share
    min_rows: Positive


class Bm25(Section):
    k1: Float
    b: Float


class Faiss(Section):
    dimensions: Positive
    ngrams: Annotated[list[int], Field(min_length=2, max_length=2)]


class Index(Section):
    bm25: Bm25
    faiss: Faiss
    recall_questions: Positive


class Retrieval(Section):
    retriever: Literal["bm25", "faiss"]
    topk: Positive
    passage_words: Positive


class Episode(Section):
    protocol: Literal["search-r1"]
    prompt: str
    max_turns: Positive
    max_prompt_tokens: Positive
    max_response_tokens: Positive
    max_turn_tokens: Positive
    max_observation_tokens: Positive


class Demos(Section):
    questions: Positive
    validation: Positive
    think: bool


class Sft(Section):
    learning_rate: Float
    batch_size: Positive
    max_steps: Positive
    check_every: Positive
    check_questions: Positive
    check_samples: Annotated[int, Field(ge=4)]
    format_rate: Share
    success_rate: Share
    patience: Positive
    timeout_minutes: Positive
    overrides: list[str]


class SanityCheck(Section):
    episodes: Positive
    max_logprob_diff: Float


class Rl(Section):
    algorithm: Literal["grpo"]
    steps: Positive
    prompts: Positive
    samples: Annotated[int, Field(ge=2)]
    learning_rate: Float
    temperature: Float
    validate_every: Positive
    validation_questions: Positive
    micro_batch_size: Positive
    sanity: SanityCheck
    timeout_minutes: Positive
    overrides: list[str]


class Merge(Section):
    max_logit_diff: Float
    prompts: Positive


class Evaluate(Section):
    questions: Positive
    confidence: Annotated[float, Field(gt=0, lt=1)]
    bootstrap: Positive
    examples: Positive


class Check(Section):
    expression: str
    severity: Literal["error", "warning"]


class Gate(Section):
    checks: dict[str, Check]


class Environment(BaseModel):
    """Name of the environment; its other keys belong to the environment's own model."""

    model_config = ConfigDict(extra="allow", frozen=True, strict=True)
    name: str


class Params(Section):
    """All parameters of a run; one section a stage, and five shared ones."""

    profile: str
    seed: Annotated[int, Field(ge=0, lt=2**32)]
    environment: Environment
    retrieval: Retrieval
    episode: Episode
    ingest: Ingest
    policy: Policy
    validate_: Validate = Field(alias="validate")
    index: Index
    demos: Demos
    sft: Sft
    rl: Rl
    merge: Merge
    evaluate: Evaluate
    gate: Gate

    @model_validator(mode="after")
    def _fits(self) -> Params:
        if self.rl.steps < self.rl.validate_every:
            raise ValueError("rl.validate_every: larger than rl.steps, so no checkpoint would ever be measured")
        if "{question}" not in self.episode.prompt:
            raise ValueError("episode.prompt: must hold {question}, or the policy would never see one")
        shape = self.policy.architecture
        if shape.hidden_size % (2 * shape.heads) or shape.heads % shape.kv_heads:
            raise ValueError("policy.architecture: heads must divide hidden_size evenly, and kv_heads the heads")
        if self.policy.pretraining.sequence_length > self.episode.max_prompt_tokens + self.episode.max_response_tokens:
            raise ValueError("policy.pretraining.sequence_length: longer than an episode's prompt and response")
        rollouts = self.rl.prompts * self.rl.samples
        if rollouts % min(self.rl.micro_batch_size, rollouts):
            raise ValueError(f"rl.micro_batch_size: must divide rl.prompts x rl.samples = {rollouts}")
        if self.sft.max_steps < self.sft.check_every:
            raise ValueError("sft.check_every: larger than sft.max_steps, so no checkpoint would ever be checked")
        if self.demos.validation < self.sft.batch_size:
            # verl's SFT trainer drops a last batch that isn't full.
            raise ValueError("demos.validation: smaller than sft.batch_size, so there would be no evaluation loss")
        return self


def _read_yaml(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise InputError("no such file", where=str(path), mend="see the README's section on profiles")
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        raise InputError(f"not UTF-8: {error.reason} at byte {error.start}", where=str(path)) from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or "not YAML"
        raise InputError(f"not valid YAML: {problem}", where=f"{path}{line}") from None
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise InputError("the top level must be keys with values", where=str(path))
    return content


def overlay(base: dict[str, Any], top: dict[str, Any]) -> dict[str, Any]:
    """Merge two nested mappings: `top` wins, mappings merge key by key, lists and values replace."""
    merged = dict(base)
    for key, value in top.items():
        below = merged.get(key)
        merged[key] = overlay(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return merged


def _valid_keys(model: Any, path: tuple[Any, ...], content: Any) -> list[str]:
    """Keys that are valid beside the unknown key at `path`."""
    for part in path[:-1]:
        if isinstance(content, dict):
            content = content.get(part)
        elif isinstance(content, list) and isinstance(part, int):
            content = content[part]
    fields = _fields_at(model, path[:-1])
    return fields or (list(content) if isinstance(content, dict) else [])


def _fields_at(model: Any, path: tuple[Any, ...]) -> list[str]:
    for part in path:
        field = next((f for n, f in model.model_fields.items() if part in (n, f.alias)), None)
        if field is None or not (isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel)):
            return []
        model = field.annotation
    return [field.alias or name for name, field in model.model_fields.items()]


def _refuse(error: ValidationError, content: dict[str, Any], where: str) -> InputError:
    first = error.errors()[0]
    # Pydantic puts a discriminator's tag into the path of a union's member: no key of ours.
    path = tuple(
        part for part in first["loc"] if not (part in ("world", "jsonl", "hotpotqa") and "sources" in first["loc"])
    )
    key = ".".join(map(str, path))
    others = f" (and {len(error.errors()) - 1} more)" if len(error.errors()) > 1 else ""
    if first["type"] == "extra_forbidden":
        near = difflib.get_close_matches(str(path[-1]), _valid_keys(Params, path, content), n=1, cutoff=0.4)
        hint = f"did you mean {near[0]!r}?" if near else "see params/defaults.yaml for every key"
        return InputError(f"unknown key {key!r}{others}", where=where, mend=hint)
    if first["type"] == "missing":
        return InputError(
            f"key {key!r} is missing{others}", where=where, mend="params/defaults.yaml must hold every key"
        )
    got = first.get("input")
    shown = f", got {got!r}" if isinstance(got, str | int | float | bool) or got is None else ""
    message = first["msg"].removeprefix("Value error, ")
    if not key:
        return InputError(f"{message}{others}", where=where)
    return InputError(f"{key}: {message}{shown}{others}", where=where)


def parse(content: dict[str, Any], where: str) -> Params:
    """Check a resolved mapping against the models.

    Raises:
        InputError: a key is unknown or missing, or a value has the wrong type or range.
    """
    from tasks.agent.environments import environment_params
    from tasks.release import gating

    try:
        params = Params.model_validate(content)
    except ValidationError as error:
        raise _refuse(error, content, where) from None
    environment_params(params.environment, where)
    sections = [field.alias or name for name, field in Params.model_fields.items()]
    for name, check in params.gate.checks.items():
        gating.parse(name, check.expression, check.severity, sections)  # now, and not after hours of training
    return params


def profile_name() -> str:
    """Name of the profile in force, from `params/profile.yaml`."""
    name = _read_yaml(PROFILE).get("profile")
    if not isinstance(name, str):
        raise InputError("must hold one line `profile: NAME`", where=str(PROFILE))
    return name


def profiles() -> list[str]:
    """Names of the overlays in params/."""
    return sorted(p.stem for p in Path("params").glob("*.yaml") if p not in (DEFAULTS, PROFILE))


def resolve(profile: str) -> dict[str, Any]:
    """Overlay the defaults with one profile and check the result; returns plain, resolved values.

    Raises:
        InputError: the profile is missing, or a value is wrong.
    """
    path = Path("params") / f"{profile}.yaml"
    if not DEFAULTS.is_file():
        raise InputError("no params/defaults.yaml here", mend="run from the project's root folder")
    if profile not in profiles():
        raise InputError(f"no profile {profile!r}", where=str(path), mend=f"profiles are: {', '.join(profiles())}")
    top = _read_yaml(path)
    if "profile" in top:
        raise InputError("unknown key 'profile'", where=str(path), mend="the file's name is the profile's name")
    content = {"profile": profile, **overlay(_read_yaml(DEFAULTS), top)}
    parse(content, where=f"{path} over {DEFAULTS}" if top else str(DEFAULTS))
    return content


def use_profile(profile: str) -> None:
    """Put a profile in force after checking it; params/profile.yaml is only touched when it changes."""
    resolve(profile)
    wanted = f"profile: {profile}\n"
    if not PROFILE.is_file() or PROFILE.read_text(encoding="utf-8") != wanted:
        PROFILE.write_text(wanted, encoding="utf-8")


def load() -> Params:
    """The resolved parameters, as the params stage wrote them."""
    if not RESOLVED.is_file():
        raise InputError(
            "the parameters are not resolved yet", where=str(RESOLVED), mend="run `dvc repro params` first"
        )
    return parse(_read_yaml(RESOLVED), where=str(RESOLVED))


def main() -> None:
    """Stage `params`: resolve the profile in force into data/params/params.yaml."""
    with exit_on_input_error("params"):
        content = resolve(profile_name())
        write_text_aside(RESOLVED, yaml.safe_dump(content, sort_keys=False, allow_unicode=True))
        print(f"params: profile {content['profile']}, {len(content)} sections -> {RESOLVED}")


if __name__ == "__main__":
    main()
