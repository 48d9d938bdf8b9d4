"""The program of the README, with the core alone: tools, a swap, a stream, the cost, and a session that is stored."""

import sys

import dragoman
from dragoman import Budget, Client, Session, tool

ADDRESS = sys.argv[1]


@tool(side_effects="read")
def read_file(path: str) -> str:
    """Read a text file.

    Args:
        path: The file's path.
    """
    return f"The content of {path}."


providers = {"anthropic": {"base_url": ADDRESS, "api_key": "sk-ant-test-0123456789"}}
with Session("anthropic:claude-haiku-4-5", tools=[read_file], providers=providers) as session:
    reply = session.ask("Summarize README.md")
    assert reply.message.usage is not None
    assert session.preview("openai:gpt-6.1-sol").fits
    session.swap("anthropic:claude-opus-5-5")
    with session.stream("And the licence?") as stream:
        text = "".join(stream.text_deltas())
    assert session.cost.usd > 0
    stored = session.dump()

loaded = Session.load(stored, providers=providers)
assert loaded.messages == session.messages
with Client(providers=providers, budgets=[Budget(usd="1.00")]) as client:
    assert client.ask("anthropic:claude-haiku-4-5", "Hello").output
assert text
sys.stdout.write(str(dragoman.__file__))
