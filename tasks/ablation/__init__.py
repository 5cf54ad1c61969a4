"""Ablations: the same data and seeds, one switch apart. What an arm is: tasks/params/arms.py; docs/ablations.md."""
