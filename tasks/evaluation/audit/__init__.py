"""The audit: high-reward trajectories, flagged where they look like reward hacking, for a person to judge."""
