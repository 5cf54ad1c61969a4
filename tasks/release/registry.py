"""The registry of released policies in MLflow: versions, their tags, and the alias `champion`.

A version holds no weights: its tags name the model's folder and DVC's hash of it, and DVC keeps the content.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tasks import tracking

MODEL = "forager-policy"
CHAMPION = "champion"
PREVIOUS = "previous"
SCORES = "scores.json"


@dataclass(frozen=True)
class Version:
    """A registered version; `run_id` is the release action's run, which holds its per-question scores."""

    number: int
    run_id: str
    created: float
    tags: dict[str, str]
    aliases: tuple[str, ...]


def _client() -> Any:
    return tracking.connect().MlflowClient()


def _version(found: Any) -> Version:
    return Version(
        number=int(found.version),
        run_id=found.run_id,
        created=found.creation_timestamp / 1000,
        tags=dict(found.tags),
        aliases=tuple(sorted(found.aliases)),
    )


def _missing(error: Any) -> bool:
    # A missing alias is an invalid parameter to MLflow, a missing model or version is not found.
    return error.error_code in ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE")


def by_alias(alias: str) -> Version | None:
    """The version that an alias points at, or None."""
    from mlflow.exceptions import MlflowException

    client = _client()
    try:
        # The answer by alias lacks the aliases themselves in some stores; the version's own has them.
        return _version(client.get_model_version(MODEL, client.get_model_version_by_alias(MODEL, alias).version))
    except MlflowException as error:
        if _missing(error):
            return None
        raise


def by_number(number: int) -> Version | None:
    """A version by its number, or None."""
    from mlflow.exceptions import MlflowException

    try:
        return _version(_client().get_model_version(MODEL, str(number)))
    except MlflowException as error:
        if _missing(error):
            return None
        raise


def by_hash(model_hash: str) -> Version | None:
    """The newest version of a model with this hash, or None."""
    found = _client().search_model_versions(f"name = '{MODEL}'")
    same = [_version(version) for version in found if version.tags.get("model.hash") == model_hash]
    return max(same, key=lambda version: version.number, default=None)


def register(run_id: str, tags: Mapping[str, str], params: Mapping[str, str]) -> Version:
    """Make a new version.

    Args:
        run_id: the release action's run.
        tags: of the version; `model.hash` and `model.path` among them.
        params: shown with the logged model in MLflow's UI.
    """
    from mlflow.exceptions import MlflowException

    mlflow, client = tracking.connect(), _client()
    try:
        client.get_registered_model(MODEL)
    except MlflowException as error:
        if not _missing(error):
            raise
        client.create_registered_model(MODEL, description="Policies that the release gate let through.")
    model = mlflow.create_external_model(name=MODEL, source_run_id=run_id, params=dict(params), tags=dict(tags))
    made = client.create_model_version(
        MODEL, source=model.model_uri, run_id=run_id, model_id=model.model_id, tags=dict(tags)
    )
    return _version(made)


def promote(version: Version) -> None:
    """Point `champion` at a version, and `previous` at the champion before it."""
    client, before = _client(), by_alias(CHAMPION)
    if before is not None and before.number != version.number:
        client.set_registered_model_alias(MODEL, PREVIOUS, str(before.number))
    client.set_registered_model_alias(MODEL, CHAMPION, str(version.number))


def keep_scores(run_id: str, scores: Mapping[str, float]) -> None:
    """Store per-question success, by question id, with the release action's run."""
    _client().log_text(run_id, json.dumps(dict(scores), indent=0, sort_keys=True), SCORES)


def scores_of(version: Version) -> dict[str, float] | None:
    """Per-question success of a version; None when it has none (made elsewhere, or its artifacts are gone)."""
    from mlflow.exceptions import MlflowException

    with tempfile.TemporaryDirectory() as folder:
        try:
            path = _client().download_artifacts(version.run_id, SCORES, folder)
        except (MlflowException, OSError):
            return None
        return json.loads(Path(path).read_text(encoding="utf-8"))
