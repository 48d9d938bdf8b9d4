"""An MCP server of its own package, for tests in this process and, run as a module, over stdin and stdout."""

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.prompts.base import AssistantMessage, Message, UserMessage
from mcp_types import ToolAnnotations

SECRET = "hunter2"

server = MCPServer("desk", version="1")
calls: list[str] = []
"""The calls that the server received, in this process."""


@server.tool(annotations=ToolAnnotations(read_only_hint=True, open_world_hint=False))
def look_up(word: str) -> str:
    """Looks a word up."""
    calls.append(f"look_up {word}")
    return f"{word} means {SECRET}"


@server.tool(name="send-Mail")
def send_mail(to: str, copies: list[str] | None = None) -> dict[str, int]:
    """Sends a mail."""
    calls.append(f"send-Mail {to}")
    return {"sent": 1 + len(copies or [])}


@server.tool()
def fail() -> str:
    """Fails."""
    raise ValueError("the desk is closed")


@server.prompt()
def review(topic: str) -> list[Message]:
    """Asks for a review."""
    calls.append(f"review {topic}")
    return [UserMessage(f"Review {topic}, the password is {SECRET}."), AssistantMessage("Which part?")]


@server.resource("note://today", name="today", mime_type="text/plain")
def today() -> str:
    """What is on the desk."""
    calls.append("today")
    return f"Buy milk. {SECRET}"


if __name__ == "__main__":
    server.run("stdio")
