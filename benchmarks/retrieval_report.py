"""What `benchmarks.retrieval` makes of its measurements: medians, the goals, tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from statistics import median
from typing import Any

Figures = dict[str, dict[str, list[float]]]
SIZES, CLIENTS = (32, 1), (1, 16, 64)
_BUSY = CLIENTS[1:]  # enough clients to keep every worker busy


def figures(found: dict[str, Any], cores: int) -> dict[str, float]:
    """One measurement in units of a query and a core.

    Args:
        found: queries, wall, cpu, p50 and p99, in seconds; of a service also `front_cpu`, which is part of cpu, and
            `client_cpu`, which is not.
        cores: of the machine.
    """
    queries = found["queries"]
    result = {
        "queries_per_second": queries / found["wall"],
        # What the machine could do were nothing but this to run on it.
        "capacity": queries * cores / found["cpu"],
        "cpu_ms": 1000 * found["cpu"] / queries,
        "p50_ms": 1000 * found["p50"],
        "p99_ms": 1000 * found["p99"],
    }
    return result | {f"{key}_ms": 1000 * found[key] / queries for key in ("front_cpu", "client_cpu") if key in found}


def best(measured: Figures, prefix: str, key: str) -> str | None:
    """The name that begins so and has the highest median."""
    names = [name for name in measured if name.startswith(prefix)]
    return max(names, key=lambda name: median(measured[name][key]), default=None)


def _goal(
    goals: list[dict[str, Any]], name: str, values: Iterable[float | None], wanted: float, at_least: bool = True
) -> None:
    """Add a goal; of several values the worst counts. Without a value it was not measured, and is left out."""
    found = [value for value in values if value is not None]
    if found:
        value = min(found) if at_least else max(found)
        met = value >= wanted if at_least else value <= wanted
        goals.append({"goal": name, "value": value, "wanted": wanted, "at_least": at_least, "met": met})


def goals(result: dict[str, Any]) -> list[dict[str, Any]]:
    """The goals whose figures were measured: each with value, what is wanted, and whether it is met."""
    measured: Figures = result["figures"]
    found: list[dict[str, Any]] = []

    def value(name: str | None, key: str) -> float | None:
        return median(measured[name][key]) if name in measured else None

    def pair(name: str | None, other: str | None, key: str, make: Callable[[float, float], float]) -> float | None:
        one, two = value(name, key), value(other, key)
        return None if one is None or two is None else make(one, two)

    def ratio(one: float, two: float) -> float:
        return one / two

    for said, key in (("on the clock", "queries_per_second"), ("by processor time", "capacity")):
        ours, theirs = best(measured, "bm25.ours.", key), best(measured, "bm25.bm25s.", key)
        _goal(found, f"bm25 in process / bm25s' best back end, {said}", [pair(ours, theirs, key, ratio)], 0.95)
        limit = best(measured, "dense.encoder.", key)
        _goal(found, f"dense by HTTP, 32 queries a request / the encoder alone at its best batch, {said}",
              [pair(f"dense.http.{clients}x32", limit, key, ratio) for clients in _BUSY], 0.9)  # fmt: skip
    for kind in ("bm25", "dense", "hybrid"):
        shares = [pair(f"{kind}.http.{clients}x32", f"{kind}.ours.32", "capacity", ratio) for clients in _BUSY]
        _goal(found, f"{kind} by HTTP, 32 queries a request / in process, clients' processor time apart", shares, 0.8)
    for kind in ("bm25", "dense"):
        _goal(found, f"{kind} by HTTP, one query a request: processor time added, ms",
              [pair(f"{kind}.http.{clients}x1", f"{kind}.ours.1", "cpu_ms", lambda one, two: one - two)
               for clients in CLIENTS], 1.0, at_least=False)  # fmt: skip
    for kind in ("bm25", "dense"):
        tails = [
            (value(f"{kind}.http.64x{size}", "p99_ms"), value(f"{kind}.http.64x{size}", "p50_ms")) for size in SIZES
        ]
        spread = [one / two for one, two in tails if one is not None and two is not None]
        _goal(found, f"{kind} by HTTP, 64 clients: p99 / p50", spread, 5.0, at_least=False)
    resident = result["memory"].get("bm25 in process")
    _goal(found, "bm25 resident, a process that has searched, MiB",
          [resident["after"]["rss"]] if resident else [], 512.0, at_least=False)  # fmt: skip
    built = [one["seconds"] for one in result["build"]]
    _goal(found, "index build with bm25, s", [median(built)] if built else [], 15.0, at_least=False)
    return found


def _spread(values: list[float]) -> str:
    low, high = min(values), max(values)
    return f"{median(values):,.3g} ({low:,.3g} to {high:,.3g})" if median(values) < 1000 else (
        f"{median(values):,.0f} ({low:,.0f} to {high:,.0f})"
    )  # fmt: skip


def tables(result: dict[str, Any]) -> str:
    """The figures as tables: medians of the rounds, least and most."""
    lines = [
        "| | queries/s | processor ms a query | of it the front's | the clients' own | p50 ms | p99 ms |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, one in result["figures"].items():
        cells = [_spread(one[key]) if key in one else "" for key in _COLUMNS]
        lines.append(f"| {result['labels'][name]} | {' | '.join(cells)} |")
    lines += ["", "| memory, MiB | opened | after searches |", "| --- | --- | --- |"]
    for name, one in result["memory"].items():
        told = [
            ", ".join(f"{now[key]:,.0f} {said}" for key, said in _MEMORY.items() if key in now)
            for now in (one["opened"], one["after"])
        ]
        lines.append(f"| {name} | {told[0]} | {told[1]} |")
    if result["build"]:
        seconds = _spread([one["seconds"] for one in result["build"]])
        lines += [
            "",
            f"index build with bm25: {seconds} s, at most {max(one['peak'] for one in result['build']):,.0f} MiB",
        ]
    for line in result["notes"]:
        lines += ["", line]
    lines += ["", "| goal | measured | wanted | |", "| --- | --- | --- | --- |"]
    for goal in result["goals"]:
        wanted = f"{'>=' if goal['at_least'] else '<='} {goal['wanted']:g}"
        lines.append(
            f"| {goal['goal']} | {goal['value']:,.3g} | {wanted} | {'met' if goal['met'] else '**not met**'} |"
        )
    return "\n".join(lines)


_COLUMNS = ("queries_per_second", "cpu_ms", "front_cpu_ms", "client_cpu_ms", "p50_ms", "p99_ms")
_MEMORY = {
    "rss": "resident",
    "private": "private",
    "once": "with what is shared counted once",
    "processes": "processes",
}
