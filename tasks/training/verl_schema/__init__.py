"""verl's own keys, checked against verl's own schema before anything starts: params' sections `verl` and `sft.verl`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tasks.errors import InputError
from tasks.params import Rl
from tasks.training.verl_schema import idle


def check_verl(section: str, settings: Mapping[str, Any], where: str | None) -> None:
    """Check a section of verl's own keys; nothing of verl is imported, and nothing composed for an empty section.

    Args:
        section: `verl` or `sft.verl`.
        settings: its content, nested or dotted or both.
        where: the files that it stands in.

    Raises:
        InputError: verl 0.9.1 has no such key, or takes no such value; a key of ours sets it; the stage relies on it.
    """
    if not settings:
        return
    # Composing verl's configuration takes about a second, which most resolutions can do without.
    from tasks.training.verl_schema.check import faults

    for fault, mend in faults(section, settings):
        raise InputError(fault, where=where, mend=mend)


def check_acting(settings: Mapping[str, Any], rl: Rl, where: str | None) -> None:
    """Check that what the section `verl` sets can act beside the section `rl`.

    Raises:
        InputError: a key would do nothing.
    """
    for key, why in idle.faults(settings, rl):
        raise InputError(f"verl.{key}: cannot act: {why}", where=where, mend="leave it out")
