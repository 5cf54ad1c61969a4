"""`python -m tasks.agent.rewards`: print the table of docs/rewards.md."""

from tasks.agent.rewards.table import markdown

if __name__ == "__main__":
    print(markdown())
