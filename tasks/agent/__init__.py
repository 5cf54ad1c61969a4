"""The agent: protocol, episode, rewards, trajectories, environments. Pure Python but for verl_loop.py."""
