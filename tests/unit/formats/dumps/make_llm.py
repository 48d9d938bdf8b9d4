"""Writes a log of simonw/llm: `python make_llm.py FILE.db`, with llm, new or old, and llm-echo installed."""

import json
import sys
from pathlib import Path

import llm
import sqlite_utils
from llm.migrations import migrate

PIXEL = b"\x89PNG\r\n\x1a\n"


def weather(city: str) -> str:
    """The weather in a city."""
    if city == "Ulm":
        raise ValueError("no such city")
    return "rain"


def main(path: str) -> None:
    Path(path).unlink(missing_ok=True)
    database = sqlite_utils.Database(path)
    database.conn.execute("pragma page_size = 512")  # keeps the many empty tables small
    migrate(database)
    model = llm.get_model("echo")
    conversation = model.conversation(tools=[weather])
    calls = [{"name": "weather", "arguments": {"city": city}} for city in ("Bern", "Ulm")]
    request = json.dumps({"prompt": "The weather?", "tool_calls": calls, "raw": "Let me look."})
    for response in conversation.chain(request, system="Be brief.").responses():
        response.text()
        response.log_to_db(database)
    attached = conversation.prompt(
        "And this?",
        attachments=[
            llm.Attachment(type="image/png", content=PIXEL),
            llm.Attachment(type="image/png", url="https://example.org/a.png"),
        ],
    )
    attached.text()
    attached.log_to_db(database)
    alone = model.prompt("Sum it up.", fragments=["A fragment that is used again."], system_fragments=["Be kind."])
    alone.text()
    alone.log_to_db(database)
    database.conn.execute("vacuum")
    database.conn.close()


if __name__ == "__main__":
    main(sys.argv[1])
