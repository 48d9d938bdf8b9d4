"""Whether the content of a history is on the wire: all of it is there, or a loss names it."""

import base64
import json
from collections.abc import Iterator, Sequence
from typing import Any

from dragoman import Loss, Message, ToolDefinition
from dragoman.canonical.blocks import (
    MEDIA_BLOCKS,
    AudioBlock,
    ContentBlock,
    DocumentBlock,
    ImageBlock,
    ProviderBlock,
    RedactedThinkingBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    VideoBlock,
)
from dragoman.server_tools import ServerTool

_SERVER_TOOLS = {
    "web_search": {"google_search", "googleSearch", "browser_search", "nova_grounding", "openrouter:web_search",
                   "web_search_options", "web_search_preview", "web_search_preview_2025_03_11",
                   "web_search_2025_08_26"},
    "web_fetch": {"url_context", "urlContext", "web_search", "visit_website", "openrouter:web_fetch"},
    "code_execution": {"codeExecution", "code_interpreter", "nova_code_interpreter", "openrouter:bash"},
    "file_search": {"fileSearch", "vertexRagStore"},
    "tool_search": {"tool_search_tool_bm25", "tool_search_tool_regex"},
    "image_generation": {"openrouter:image_generation"},
    "computer_use": {"computerUse", "computer_use", "computer_toolset_20260801"},
}  # fmt: skip
"""What providers call a tool that has another name elsewhere."""

Media = ImageBlock | AudioBlock | VideoBlock | DocumentBlock


def unreported_losses(
    messages: Sequence[Message],
    tools: Sequence[ToolDefinition],
    body: dict[str, Any],
    losses: Sequence[Loss],
    *,
    foreign: bool,
) -> Iterator[str]:
    """Each block, and each tool, that is neither on the wire nor named by a loss."""
    # Google marks the answer of a failed tool by a name only.
    answers = list(_answers(body))
    marked = any(answer.keys() == {"error"} for answer in answers) or _has_error_flag(body)
    failed = ["tool_result"] if marked else []
    # Its answers are objects, which elsewhere are texts of them.
    written = [json.dumps(each, separators=(",", ":"), ensure_ascii=False) for each in (*answers, *_values(answers))]
    sent_text = "\0".join([*_strings(body), *failed, *written, *_own_texts(body)])
    calls = list(_calls(body))
    reported = {(loss.message_id, loss.block_index) for loss in losses}
    for message in messages:
        for index, block in enumerate(message.content):
            if (message.id, index) in reported or (message.id, -1) in reported:
                continue
            what = _missing(block, sent_text, calls, foreign=foreign)
            if what:
                yield f"{message.role} {message.id} block {index}: {what}"
    # A server's tools may be offered under its name only, outside the list of tools.
    offered = set(_strings([body.get("tools"), body.get("mcp_servers"), body.get("toolConfig")]))
    # Google's own tools are fields of their own.
    offered |= {name for entry in body.get("tools") or () for name in entry}
    offered |= {*_strings(body.get("compound_custom")), *(body.keys() & {"web_search_options"})}
    lost = " ".join(loss.reason for loss in losses if loss.kind == "tools")
    for tool in tools:
        own_names = _SERVER_TOOLS.get(tool.WORD, set()) if isinstance(tool, ServerTool) else set()
        always_runs = tool.name == "web_search" and str(body.get("model")).startswith("sonar")
        if not (always_runs or {tool.name, *own_names} & offered or tool.name in lost):
            yield f"the tool {tool.name} is neither offered nor named as lost"


def _missing(block: ContentBlock, sent_text: str, calls: list[tuple[str, Any]], *, foreign: bool) -> str | None:
    match block:
        case TextBlock():
            if block.text.strip() and block.text not in sent_text:
                return f"the text {block.text[:60]!r}"
            if foreign and not all(cited.url and cited.url in sent_text for cited in block.citations):
                return "the citations"
        case ThinkingBlock() if block.text in sent_text and (block.text or not block.signature):
            return None
        case ThinkingBlock() | RedactedThinkingBlock() | ProviderBlock() if foreign:
            return f"the {block.type}"
        case ToolUseBlock():
            if (block.name, block.raw_input or block.input) not in calls:
                return f"the call of {block.name}"
        case ToolResultBlock(is_error=True) if "tool_result" not in sent_text:
            return "that the tool failed"  # of the others, only one has a flag for it, on blocks of that name
        case ToolResultBlock():
            return next(
                (what for part in block.content if (what := _missing(part, sent_text, calls, foreign=foreign))), None
            )
        case _ if isinstance(block, MEDIA_BLOCKS) and not any(form in sent_text for form in _encodings(block)):
            return f"the {block.type}"
    return None


def _encodings(block: Media) -> Iterator[str]:
    """A medium unchanged, in the URL-safe base64 of Google's own clients, and text as it is."""
    data = block.source.data
    yield data
    yield data.translate(str.maketrans("+/", "-_")).rstrip("=")
    if isinstance(block, DocumentBlock) and block.source.kind == "base64" and block.media_type != "application/pdf":
        try:
            yield base64.b64decode(data + "==").decode(errors="replace")
        except ValueError:
            return


def _answers(body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Answers of tools on Google's wire."""
    for content in body.get("contents") or ():
        for part in content["parts"]:
            answer = part.get("functionResponse") or part.get("function_response")
            if answer and isinstance(answer.get("response"), dict):
                yield answer["response"]


def _values(answers: Sequence[dict[str, Any]]) -> Iterator[Any]:
    """The only value, if its name means a plain answer."""
    for answer in answers:
        if len(answer) == 1:
            yield from answer.values()


def _has_error_flag(value: Any) -> bool:
    """Whether an answer has a status that says that the tool failed, as on Bedrock's wire, or a flag for it."""
    if isinstance(value, dict):
        answer = value.get("toolResult")
        failed = isinstance(answer, dict) and answer.get("status") == "error"
        failed = failed or (value.get("type") in ("result", "function_result") and value.get("is_error") is True)
        return failed or any(map(_has_error_flag, value.values()))
    return isinstance(value, list) and any(map(_has_error_flag, value))


def _own_texts(value: Any) -> Iterator[str]:
    """The texts that Bedrock and Cohere write as objects: JSON that a tool answered, documents in pieces."""
    if isinstance(value, dict):
        for name, inner in value.items():
            if name in ("json", "data") and isinstance(inner, dict):
                yield json.dumps(inner, separators=(",", ":"), ensure_ascii=False)
            elif name == "content" and isinstance(inner, list):
                yield "\n".join(part["text"] for part in inner if isinstance(part.get("text"), str))
            yield from _own_texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _own_texts(inner)


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _strings(inner)


def _calls(value: Any) -> Iterator[tuple[str, Any]]:
    """Every call on any wire: an object with a name and an input, or with arguments as an object or as text."""
    if isinstance(value, dict):
        name = value.get("name")
        if isinstance(name, str):
            if isinstance(value.get("input"), dict):
                yield name, value["input"]
            elif isinstance(value.get("args"), dict):
                yield name, value["args"]
            elif "arguments" in value:
                yield name, _input(value["arguments"])
        for inner in value.values():
            yield from _calls(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _calls(inner)


def _input(arguments: Any) -> Any:
    """Arguments as an object; text that is not an object is kept as text."""
    try:
        return json.loads(arguments) if isinstance(arguments, str) else arguments
    except ValueError:
        return arguments
