"""The tools: one file each, found by itself; see docs/add-a-tool.md."""

from tasks.agent.toolbox.base import Context, Passage, Result, Tool, register
from tasks.agent.toolbox.state import State

__all__ = ["Context", "Passage", "Result", "State", "Tool", "register"]
