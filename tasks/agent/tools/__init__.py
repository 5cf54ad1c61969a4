"""The tools: one file each, found by itself; see docs/add-a-tool.md."""

from tasks.agent.toolbox.base import Context, Passage, Result, State, Tool, register

__all__ = ["Context", "Passage", "Result", "State", "Tool", "register"]
