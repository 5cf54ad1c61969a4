"""Serves tools to episodes over HTTP: `python -m tasks.tool_server --help`; see docs/tool-server.md."""

from tasks.agent.toolbox.command import run

if __name__ == "__main__":
    run()
