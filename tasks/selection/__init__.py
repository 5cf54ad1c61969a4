"""Which training questions of an RL run have taught most: learning-impact selection."""
