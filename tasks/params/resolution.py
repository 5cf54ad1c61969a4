"""From files to checked parameters: the defaults, under presets, under profiles, under single settings.

The presets are those that the parameters name, the profiles those that a profile extends and itself.
An overlay may name as few keys as it likes: mappings merge key by key, lists and values replace.
Every key is checked before anything else runs; an unknown one is refused with the nearest valid key.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

import yaml
from pydantic import BaseModel, ValidationError

from tasks.errors import InputError
from tasks.params.algorithm import Algorithm
from tasks.params.judging import Preset
from tasks.params.models import Params
from tasks.sections import refusal

DEFAULTS = Path("params/defaults.yaml")
PROFILE = Path("params/profile.yaml")
PRESETS = Path("params/presets")
RESOLVED = Path("data/params/params.yaml")


def read_yaml(path: Path) -> dict[str, Any]:
    """A file's keys with their values; none where it is empty.

    Raises:
        InputError: there is no such file, or it is no mapping in YAML.
    """
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


def typed(content: dict[str, Any], where: str) -> Params:
    """Check a resolved mapping against the models alone, and nothing that it names.

    Raises:
        InputError: a key is unknown or missing, or a value has the wrong type or range.
    """
    try:
        return Params.model_validate(content)
    except ValidationError as error:
        raise refusal(error, Params, where=where) from None


def parse(content: dict[str, Any], where: str) -> Params:
    """Check a resolved mapping against the models, and what it names against what there is.

    Raises:
        InputError: a key is unknown or missing, a value has the wrong type or range, or no such thing exists.
    """
    from tasks.agent.environments import environment_params
    from tasks.contract import UPSTREAM
    from tasks.params.playing import check_playing
    from tasks.qa.sources import source_keys
    from tasks.qa.suite.catalogue import severities
    from tasks.release import gating, half_width
    from tasks.training.verl_schema import check_acting, check_verl

    params = typed(content, where)
    check_playing(params, environment_params(params.environment, where), where)
    for number, entry in enumerate(params.ingest.sources):
        source_keys(entry.model_dump(), f"ingest.sources.{number}", where)
    if isinstance(params.ingest.corpus, BaseModel):
        source_keys(params.ingest.corpus.model_dump(), "ingest.corpus", where)
    severities(params.validate_.severity)
    # Now, and not after hours of training.
    thresholds = [
        gating.parse(name, check.expression, check.severity, UPSTREAM["gate"])
        for name, check in params.gate.checks.items()
        if check is not None
    ]
    if params.rft.enabled and not any(threshold.judges("rft") for threshold in thresholds):
        raise InputError(
            "rft.enabled: the model of stage rft is released, and no check of severity error judges it",
            where=where,
            mend="add one to gate.checks: rft: {expression: evaluate.comparisons.rft-sft.em.low > 0, severity: error}",
        )
    check_verl("verl", params.verl, where)
    check_acting(params.verl, params.rl, where)
    check_verl("sft.verl", params.sft.verl, where)
    if params.gate.half_width is not None:
        half_width.require_possible(params.gate.half_width, params.evaluate.questions, params.evaluate.confidence)
    return params


def profile_name() -> str:
    """Name of the profile in force, from `params/profile.yaml`."""
    return _in_force()[0]


def settings_in_force() -> dict[str, Any]:
    """The single settings in force, from `params/profile.yaml`, as a nested mapping."""
    return _in_force()[1]


def _in_force() -> tuple[str, dict[str, Any]]:
    content = read_yaml(PROFILE)
    name, settings = content.pop("profile", None), content.pop("set", {})
    if not isinstance(name, str) or not isinstance(settings, dict) or content:
        raise InputError("must hold a line `profile: NAME`, and perhaps `set: {KEY: VALUE}`", where=str(PROFILE))
    return name, settings


def parse_settings(settings: Sequence[str]) -> dict[str, Any]:
    """`rl.algorithm=dapo` and the like, as a nested mapping; a value is YAML.

    Raises:
        InputError: one has no `=`, an empty key, or a value that is no YAML.
    """
    nested: dict[str, Any] = {}
    for setting in settings:
        key, found, text = setting.partition("=")
        names = key.strip().split(".")
        if not found or not all(names):
            raise InputError(f"{setting!r} is no setting", where="--set", mend="write KEY=VALUE: --set rl.steps=40")
        try:
            value = yaml.safe_load(text)
        except yaml.YAMLError:
            raise InputError(f"{text!r} is no YAML value", where=f"--set {key}") from None
        for name in reversed(names):
            value = {name: value}
        nested = overlay(nested, value)
    return nested


def profiles() -> list[str]:
    """Names of the overlays in params/."""
    return sorted(p.stem for p in Path("params").glob("*.yaml") if p not in (DEFAULTS, PROFILE))


def _layers(profile: str) -> list[tuple[Path, dict[str, Any]]]:
    """Files and contents of a profile and of those it extends, the lowest first, without the key `extends`.

    Raises:
        InputError: a profile is missing, or extends itself by way of others.
    """
    layers: list[tuple[Path, dict[str, Any]]] = []
    chain: list[str] = []
    name, wanted_by = profile, ""
    while name is not None:
        path = Path("params") / f"{name}.yaml"
        if name in chain:
            raise InputError(f"extends itself: {' > '.join([*chain, name])}", where=wanted_by)
        if name not in profiles():
            raise InputError(
                f"no profile {name!r}", where=wanted_by or str(path), mend=f"profiles are: {', '.join(profiles())}"
            )
        content = read_yaml(path)
        if "profile" in content:
            raise InputError("unknown key 'profile'", where=str(path), mend="the file's name is the profile's name")
        chain.append(name)
        name, wanted_by = content.pop("extends", None), f"{path}, extends"
        if name is not None and not isinstance(name, str):
            raise InputError(f"must be the name of one profile, got {name!r}", where=wanted_by)
        layers.insert(0, (path, content))
    return layers


def _presets(content: dict[str, Any]) -> Iterator[Path]:
    """Files of the presets that the parameters ask for: they lie over the defaults, and under every profile."""
    sections = {name: section for name, section in content.items() if isinstance(section, dict)}
    gate, algorithm = sections.get("gate", {}).get("preset"), sections.get("rl", {}).get("algorithm")
    # What is no name is refused with all other keys.
    if gate in get_args(Preset):
        yield PRESETS / f"{gate}.yaml"
    if algorithm in get_args(Algorithm):
        yield PRESETS / "algorithms" / f"{algorithm}.yaml"


def preset_of(algorithm: str) -> dict[str, Any]:
    """What a preset of `rl.algorithm` sets, as a nested mapping."""
    return read_yaml(PRESETS / "algorithms" / f"{algorithm}.yaml")


def resolve(profile: str, settings: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Overlay the defaults with a profile and those it extends, and check the result; returns plain, resolved values.

    Args:
        profile: a file of params/.
        settings: a nested mapping that lies over the profile.

    Raises:
        InputError: a profile is missing, or a value is wrong.
    """
    if not DEFAULTS.is_file():
        raise InputError("no params/defaults.yaml here", mend="run from the project's root folder")
    layers = _layers(profile)
    if settings:
        for key in ("profile", "extends"):
            if key in settings:
                raise InputError(f"{key} is no parameter", where="--set", mend="choose a profile: --profile NAME")
        layers.append((Path("--set"), dict(settings)))
    defaults = read_yaml(DEFAULTS)
    asked = defaults
    for _, top in layers:
        asked = overlay(asked, top)
    layers = [(path, read_yaml(path)) for path in _presets(asked)] + layers
    content = defaults
    for _, top in layers:
        content = overlay(content, top)
    content = {"profile": profile, **content}
    files = [str(path) for path, top in reversed(layers) if top]
    parse(content, where=" over ".join([*files, str(DEFAULTS)]))
    return content


def resolve_in_force() -> dict[str, Any]:
    """Resolve the profile in force, with its single settings."""
    return resolve(*_in_force())


def use_profile(profile: str, settings: Mapping[str, Any] | None = None) -> None:
    """Put a profile in force after checking it; params/profile.yaml is only touched when it changes."""
    resolve(profile, settings)
    wanted = yaml.safe_dump({"profile": profile, **({"set": dict(settings)} if settings else {})}, sort_keys=False)
    if not PROFILE.is_file() or PROFILE.read_text(encoding="utf-8") != wanted:
        PROFILE.write_text(wanted, encoding="utf-8")


def load() -> Params:
    """The resolved parameters, as the params stage wrote them."""
    if not RESOLVED.is_file():
        raise InputError(
            "the parameters are not resolved yet", where=str(RESOLVED), mend="run `dvc repro params` first"
        )
    return parse(read_yaml(RESOLVED), where=str(RESOLVED))
