"""Demonstrations: whole episodes in text that SFT imitates, made from training questions or brought by the user."""

from tasks.agent.demonstrations.form import SCHEMA, Demonstration, Drop, Segment, table
from tasks.agent.demonstrations.making import Collection, collect, demonstrate

__all__ = ["SCHEMA", "Collection", "Demonstration", "Drop", "Segment", "collect", "demonstrate", "table"]
