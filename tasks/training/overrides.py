"""Settings in Hydra's override grammar."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

from tasks.errors import InputError


def hydra_overrides(settings: Mapping[str, object]) -> list[str]:
    """`key=value` for each setting; paths are quoted, since a clone's path may hold any character."""
    return [f"{key}={_quoted(value) if isinstance(value, Path) else value}" for key, value in settings.items()]


def run_folder(scratch: Path) -> list[str]:
    """The override that keeps Hydra's own files out of the workspace."""
    return hydra_overrides({"hydra.run.dir": scratch / "hydra"})


def check_overrides(section: str, config: str, overrides: Sequence[str]) -> None:
    """Compose verl's configuration with the user's own settings, before anything is started with them.

    Args:
        section: `rl` or `sft`, for the message.
        config: name of verl's configuration, in verl/trainer/config.
        overrides: the user's settings.

    Raises:
        InputError: a setting is malformed, or verl has no such key.
    """
    if not overrides:
        return
    from hydra import compose, initialize_config_dir
    from hydra.errors import HydraException

    spec = find_spec("verl")  # found, not imported: that takes seconds
    assert spec is not None
    assert spec.origin is not None
    folder = Path(spec.origin).parent / "trainer" / "config"
    try:
        with initialize_config_dir(str(folder), version_base=None):
            compose(config, overrides=list(overrides))
    except HydraException as error:
        reason = " ".join(str(error).split())
        raise InputError(reason, where=f"{section}.overrides", mend="take keys of verl's own configuration") from None


def _quoted(path: Path) -> str:
    escaped = str(path).replace("'", "\\'")
    return f"'{escaped}'"
