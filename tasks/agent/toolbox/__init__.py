"""What tools are and how they are run: in this process, or behind a server."""

from tasks.agent.toolbox.base import Context, Passage, Result, Tool, known_tools, register
from tasks.agent.toolbox.running import Limits, Toolbox, Tools
from tasks.agent.toolbox.state import State

__all__ = ["Context", "Limits", "Passage", "Result", "State", "Tool", "Toolbox", "Tools", "known_tools", "register"]
