"""Punishment for length, in tokens that the policy generated: never in words, never in what it was shown."""

from __future__ import annotations


def soft_overlong(tokens: int, max_tokens: int, cache_tokens: int) -> float:
    """Soft overlong punishment, in [-1, 0].

    0 up to Lmax - Lcache, then ((Lmax - Lcache) - |y|) / Lcache, and -1 beyond Lmax.

    |y| counts GENERATED tokens, so a policy is not punished for what a tool shows it. verl's own counts all tokens of
    the response that attention sees, observations as well (experimental/reward_loop/reward_manager/dapo.py:57 and 111;
    workers/reward_manager/dapo.py:82 and 124), and has no floor at -1: it relies on responses being cut at Lmax.

    Source: DAPO (Yu et al. 2025), equation 13.

    Args:
        tokens: |y|.
        max_tokens: Lmax.
        cache_tokens: Lcache, in (0, Lmax].
    """
    allowed = max_tokens - cache_tokens
    if tokens <= allowed:
        return 0.0
    return (allowed - tokens) / cache_tokens if tokens <= max_tokens else -1.0


def length_score(tokens: int, max_tokens: int, cache_tokens: int) -> float:
    """1 + `soft_overlong` of the same limits, in [0, 1]: 1 while short enough, falling to 0 at Lmax."""
    return 1.0 + soft_overlong(tokens, max_tokens, cache_tokens)
