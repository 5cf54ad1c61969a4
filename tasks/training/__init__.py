"""Training: the initial policy, verl's configuration and launch, step metrics, merging."""
