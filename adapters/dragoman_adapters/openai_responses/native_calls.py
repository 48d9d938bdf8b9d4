"""Calls of the tools that OpenAI defines and the program runs: shell, apply_patch, custom tools
(docs/server-tools.md#tools-that-the-program-runs).

If the request declared such a tool with a function, its calls are calls like any other. The item of a call goes back as
it came, and its result becomes the item that the API wants for it.
"""

import json
from collections.abc import Mapping
from typing import Any

from dragoman.canonical.blocks import ImageBlock, TextBlock, ToolResultBlock
from dragoman_adapters.openai_responses import encode_blocks

Item = dict[str, Any]


def declared_name(native: Mapping[str, Any], declared: Mapping[str, str]) -> str | None:
    """Return the name of the program's tool that an item calls; None if it calls none.

    ``declared`` are the names by type of item, or by type and name if tools share the type.
    """
    kind = str(native.get("type"))
    return declared.get(kind) or declared.get(f"{kind}:{native.get('name')}")


def read_input(native: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call."""
    match native["type"]:
        case "shell_call":
            return {name: value for name, value in native["action"].items() if value is not None}
        case "apply_patch_call":
            return {"operation": native["operation"]}
        case "computer_call":
            single = [native["action"]] if native.get("action") else []
            actions = native["actions"] if native.get("actions") is not None else single
            checks = native.get("pending_safety_checks")
            return {"actions": actions, **({"pending_safety_checks": checks} if checks else {})}
        case _:
            return {"input": native["input"]}


def result_item(call: Mapping[str, Any], call_id: str, result: ToolResultBlock) -> Item:
    """Return the item for the result of a call; ``call`` is the call's item."""
    text = "\n".join(block.text for block in result.content if isinstance(block, TextBlock))
    match call["type"]:
        case "shell_call":
            outputs = _shell_outputs(text, failed=result.is_error)
            item: Item = {"type": "shell_call_output", "call_id": call_id, "output": outputs}
            limit = (call.get("action") or {}).get("max_output_length")
            return item if limit is None else {**item, "max_output_length": limit}
        case "apply_patch_call":
            status = "failed" if result.is_error else "completed"
            return {"type": "apply_patch_call_output", "call_id": call_id, "status": status, "output": text}
        case _:
            return {"type": "custom_tool_call_output", "call_id": call_id, "output": text}


def _shell_outputs(text: str, *, failed: bool) -> list[dict[str, Any]]:
    """Return one output for each command, as the function reported them, or one for all."""
    try:
        reported = json.loads(text)
    except ValueError:
        reported = None
    if isinstance(reported, Mapping):
        reported = [reported]
    if failed or not (
        isinstance(reported, list)
        and reported
        and all(isinstance(each, Mapping) and {"stdout", "stderr"} & each.keys() for each in reported)
    ):
        stdout, stderr = ("", text) if failed else (text, "")
        reported = [{"stdout": stdout, "stderr": stderr, "exit_code": int(failed)}]
    outputs = []
    for each in reported:
        code = each.get("exit_code", 0)
        outcome = {"type": "timeout"} if code is None else {"type": "exit", "exit_code": code}
        texts = {name: str(each.get(name) or "") for name in ("stdout", "stderr")}
        outputs.append({**texts, "outcome": outcome})
    return outputs


_BLANK = (
    "data:image/png;base64,"
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
)
"""A picture of one pixel, for a result without a screenshot: the API takes no other."""


def computer_items(call: Item, call_id: str, result: ToolResultBlock) -> list[Item]:
    """Return the items for the result of a ``computer_call``: its screenshot, and its texts as the user's.

    The safety checks of a call that ran count as acknowledged: ``approve`` and the policy saw them in its input.
    """
    image = next((block for block in reversed(result.content) if isinstance(block, ImageBlock)), None)
    part = {"image_url": _BLANK} if image is None else encode_blocks.encode_block(image, "input", {})
    screenshot = {name: part[name] for name in ("image_url", "file_id") if part.get(name)}
    item: Item = {
        "type": "computer_call_output",
        "call_id": call_id,
        "output": {"type": "computer_screenshot", **screenshot},
    }
    if (checks := call.get("pending_safety_checks")) and not result.is_error:
        item["acknowledged_safety_checks"] = checks
    texts = [block.text for block in result.content if isinstance(block, TextBlock) and block.text]
    if not texts:
        return [item]
    return [item, {"role": "user", "content": "\n".join(("About the computer:", *texts))}]
