"""A chat in the terminal whose model can read your files. Close it, and the next run goes on where it stopped.

It shows a tool, a stream and a store: `MODEL=anthropic:claude-haiku-4-5 python examples/chat.py`
"""

import os
from pathlib import Path

from dragoman import Client, DragomanError, Session, Store, tool
from dragoman.errors import SessionNotFoundError

MODEL = os.environ.get("MODEL", "anthropic:claude-haiku-4-5")
STORE = os.environ.get("STORE", "sqlite:///chat.db")
FOLDER = Path.cwd()


@tool(side_effects="read")
def read_file(path: str) -> str:
    """Read a text file of the current folder.

    Args:
        path: The file's path, relative to the folder.
    """
    file = (FOLDER / path).resolve()
    if not file.is_relative_to(FOLDER):
        raise PermissionError(f"{path} is outside of the folder")
    return file.read_text(encoding="utf-8")


def open_session(client: Client) -> Session:
    try:
        return client.resume("sess_chat", tools=[read_file])
    except SessionNotFoundError:
        return client.session(MODEL, session_id="sess_chat", system="Answer briefly.", tools=[read_file])


def main() -> None:
    with Store(STORE) as store, Client(store=store) as client, open_session(client) as session:
        print(f"{session.model}, messages so far: {len(session.messages)}. An empty line ends the chat.")
        while prompt := input("> ").strip():
            try:
                with session.stream(prompt, max_output_tokens=500) as stream:
                    for text in stream.text_deltas():
                        print(text, end="", flush=True)
            except DragomanError as error:  # the history is as it was before; ask again
                print(f"\n{error}")
            else:
                print(f"\n({stream.reply.cost})")
        print(f"{session.cost} in all")


if __name__ == "__main__":
    main()
