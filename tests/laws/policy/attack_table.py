"""Runs one attack of ``attacks.json``: what a policy makes of a message, or a pipeline of what a plugin returns."""

import builtins
import json
import re
from pathlib import Path
from typing import Any

from dragoman.canonical.extensions.extensions import Extensions
from dragoman.canonical.message import Message, read_message
from dragoman.policy import (
    DataPolicy,
    ObjectSecurityProfile,
    Pipeline,
    Plugin,
    PluginResult,
    PolicyDeniedError,
    SecurityExtension,
    Step,
    Violation,
    hook,
)
from dragoman.policy.labels import labels_of
from dragoman.policy.plugins import AllowUris, DenyUris, Finder, Finding, Redaction, UntrustedData
from dragoman.policy.views import CalledTool
from tests.laws.policy.session_labels import LabelPlugin

Attack = dict[str, Any]

TABLE: dict[str, list[Attack]] = json.loads(Path(__file__).with_name("attacks.json").read_text(encoding="utf-8"))
KNOWN = Extensions(security=SecurityExtension(labels=frozenset({"KNOWN"})))


def run_message(attack: Attack) -> str:
    """Return the code of the denial; ``labelled:X`` for new labels, ``hidden`` if the word is gone, or ``passes``."""
    policy = attack["policy"]
    message = read_message({"id": "m", "role": attack["role"], "content": attack["content"]})
    calls = {name: CalledTool(*called) for name, called in attack.get("calls", {}).items()}
    try:
        done = Pipeline(_plugins(policy)).run(attack["hook"], message, _extensions(attack, policy), calls=calls)
    except PolicyDeniedError as denied:
        return denied.code
    if new := labels_of(done.extensions) - set(attack.get("labels", ())):
        return f"labelled:{','.join(sorted(new))}"
    written = done.message.model_dump_json()
    secret = policy.get("redact")
    return "hidden" if secret and not re.search(f"{secret}|aHVudGVyMg", written) else "passes"


def _plugins(policy: dict[str, Any]) -> list[Plugin]:
    if "deny_uris" in policy:
        return [DenyUris(*policy["deny_uris"])]
    if "allow_uris" in policy:
        return [AllowUris(*policy["allow_uris"])]
    if "redact" in policy:
        word = policy["redact"]
        return [
            Redaction([Finder(lambda text: [Finding(*each.span(), "word") for each in re.finditer(word, text)], 7)])
        ]
    if "untrusted" in policy:
        return [UntrustedData(**policy["untrusted"])]
    return [LabelPlugin()] if "plugins" in policy else []


def _extensions(attack: Attack, policy: dict[str, Any]) -> Extensions:
    security = SecurityExtension(
        labels=frozenset(attack.get("labels", ())),
        objects={name: ObjectSecurityProfile(permissions=each) for name, each in policy.get("objects", {}).items()},
        data={name: DataPolicy(apply_labels=each) for name, each in policy.get("data", {}).items()},
    )
    slots: dict[str, Any] = {"mcp": {"tool": attack["mcp"]}} if "mcp" in attack else {}
    return Extensions(security=security, **slots)


def run_plugin(attack: Attack) -> str:
    """Return the code of the denial, or ``passes`` if nothing changed. A plugin that changed something is a breach."""
    returns = dict(attack["returns"])
    changes = dict(returns.get("message", {}))
    message = Message(id="m", session_id="s", role=changes.pop("role_of_step", "user"), content=())

    def check(step: Step) -> Any:
        if "raises" in returns:
            raise getattr(builtins, returns["raises"])
        if "raw" in returns:
            return returns["raw"]
        if "violation" in returns:
            return Violation("no")
        if "message" in returns:
            return PluginResult(message=_force(step.message, changes))
        if "text" in returns:
            return _force(step.message, {"content": [{"type": "text", "text": returns["text"]}]})
        slots = returns.get("extensions") or {"security": {"labels": [*labels_of(step.extensions), *returns["labels"]]}}
        return Extensions.model_validate({**step.extensions.model_dump(exclude_none=True), **slots})

    settings = {name: attack[name] for name in ("mode", "capabilities", "on_error")}
    plugin = hook("evaluate", name="attacker", **settings)(check)
    try:
        done = Pipeline([plugin]).run("evaluate", message, KNOWN)
    except PolicyDeniedError as denied:
        return denied.code
    return "passes" if done.message is message and done.extensions is KNOWN else "breach"


def _force(message: Message, changes: dict[str, Any]) -> Message:
    fields = message.model_dump(mode="json")
    metadata = {**fields["metadata"], **changes.get("metadata", {})}
    return Message.model_validate({**fields, **changes, "metadata": metadata})
