"""Tools that providers define and trained their models for, and that the program runs (docs/server-tools.md)."""

from typing import Any, ClassVar, Literal

from dragoman.canonical.guard import JsonObject, Text
from dragoman.canonical.tools.base import ClientTool
from dragoman.canonical.tools.definition import SideEffects

_TEXT: JsonObject = {"type": "string"}
_PATH_EDITS: JsonObject = {
    "path": _TEXT,
    "view_range": {"type": "array", "items": {"type": "integer"}},
    "file_text": _TEXT,
    "old_str": _TEXT,
    "new_str": _TEXT,
    "insert_line": {"type": "integer"},
    "insert_text": _TEXT,
}


def _schema(required: list[str], **properties: JsonObject) -> JsonObject:
    return {"type": "object", "properties": properties, "required": required}


def _commands(*names: str) -> JsonObject:
    return {"type": "string", "enum": list(names)}


class Bash(ClientTool):
    """A shell with a session: ``function(command, restart)``, with one of them."""

    WORD: ClassVar[str] = "bash"

    name: Text = "bash"
    description: Text = "Run a command in a shell that stays open, or restart the shell."
    input_schema: JsonObject = _schema([], command=_TEXT, restart={"type": "boolean"})


class TextEditor(ClientTool):
    """View and edit files: ``function(command, path, ...)``."""

    WORD: ClassVar[str] = "text_editor"

    name: Text = "str_replace_based_edit_tool"
    side_effects: SideEffects = SideEffects.WRITE
    description: Text = "View and edit text files."
    input_schema: JsonObject = _schema(
        ["command", "path"], command=_commands("view", "create", "str_replace", "insert"), **_PATH_EDITS
    )
    max_characters: int | None = None
    """The most characters of a file that the model sees at once, for providers with such a setting."""


class Memory(ClientTool):
    """Files that outlive the conversation, under ``/memories``: ``function(command, ...)``."""

    WORD: ClassVar[str] = "memory"

    name: Text = "memory"
    side_effects: SideEffects = SideEffects.WRITE
    description: Text = "Store and look up what is worth remembering, as files under /memories."
    input_schema: JsonObject = _schema(
        ["command"],
        command=_commands("view", "create", "str_replace", "insert", "delete", "rename"),
        **_PATH_EDITS,
        old_path=_TEXT,
        new_path=_TEXT,
    )


class ComputerUse(ClientTool):
    """A screen, a mouse and a keyboard. The function gets the provider's own actions as arguments, and returns a
    screenshot as an image block (docs/server-tools.md#computers)."""

    WORD: ClassVar[str] = "computer_use"
    RESTRICTING: ClassVar[frozenset[str]] = frozenset({"exclude"})

    name: Text = "computer"
    environment: Literal["browser", "desktop", "mobile"] | None = None
    """What the screen shows; None leaves it to the provider."""
    display: tuple[int, int] | None = None
    """The width and height of the screen, in pixels."""
    exclude: tuple[Text, ...] = ()
    """Actions that the model may not take."""


class Shell(ClientTool):
    """Shell commands: ``function(commands, timeout_ms)`` returns a text, or for each command an object with ``stdout``,
    ``stderr`` and ``exit_code``."""

    WORD: ClassVar[str] = "shell"

    name: Text = "shell"
    description: Text = "Run shell commands, one after another."
    input_schema: JsonObject = _schema(
        ["commands"],
        commands={"type": "array", "items": _TEXT},
        timeout_ms={"type": "integer"},
        max_output_length={"type": "integer"},
    )


class ApplyPatch(ClientTool):
    """Create, update and delete files by diffs: ``function(operation)``; an exception reports a failure."""

    WORD: ClassVar[str] = "apply_patch"

    name: Text = "apply_patch"
    side_effects: SideEffects = SideEffects.WRITE
    description: Text = "Create, update or delete a file; a diff holds the new content or the changes."
    input_schema: JsonObject = _schema(
        ["operation"],
        operation={
            "type": "object",
            "properties": {
                "type": _commands("create_file", "update_file", "delete_file"),
                "path": _TEXT,
                "diff": _TEXT,
            },
            "required": ["type", "path"],
        },
    )


class CustomTool(ClientTool):
    """A tool whose input is a text: ``function(input)``. A grammar restricts the text."""

    WORD: ClassVar[str] = "custom"
    RESTRICTING: ClassVar[frozenset[str]] = frozenset({"grammar"})

    input_schema: JsonObject = _schema(["input"], input=_TEXT)
    grammar: Text | None = None
    """The grammar that every input follows, in ``syntax``; None allows any text."""
    syntax: Literal["lark", "regex"] = "lark"
    """The language of the grammar."""

    def settings(self) -> dict[str, Any]:
        shared = {"name": self.name, **({"description": self.description} if self.description else {})}
        return shared if self.grammar is None else shared | super().settings()
