"""Writes litellm.json, the facts of a second data set: `python -m tests.unit.adapters.facts.extract FILE RELEASE`.

FILE is ``litellm/model_prices_and_context_window_backup.json`` of the wheel of that release (MIT), which is not
installed here. Only the facts of the models that our adapters list are kept.
"""

import hashlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dragoman.adapter.registry import adapter_class, providers

FIXTURE = Path(__file__).with_name("litellm.json")

# Where LiteLLM's name of a model is not "<provider>/<model>".
PREFIXES = {
    "alibaba": ("dashscope/",),
    "anthropic": ("",),
    "bedrock": ("",),
    "cohere": ("", "cohere_chat/"),
    "google": ("gemini/",),
    "google-interactions": ("gemini/",),
    "google-openai": ("gemini/",),
    "google-vertex": ("vertex_ai/", ""),
    "openai": ("",),
    "openai-chat": ("",),
    "z-ai": ("zai/",),
}
FACTS = {
    "max_input_tokens": "window",
    "max_output_tokens": "output",
    "deprecation_date": "retires_on",
    "supports_vision": "images",
    "supports_pdf_input": "pdf",
    "supports_audio_input": "audio",
    "supports_video_input": "video",
    "supports_function_calling": "tools",
    "supports_reasoning": "thinking",
    "supports_prompt_caching": "caching",
    "supports_native_structured_output": "schema",
    "thinking_always_on": "always_thinks",
    "supports_forced_tool_use": "forced_tool_choice",
    "supports_minimal_reasoning_effort": "effort minimal",
    "supports_xhigh_reasoning_effort": "effort xhigh",
    "supports_max_reasoning_effort": "effort max",
}


def main() -> None:
    path, release = Path(sys.argv[1]), sys.argv[2]
    content = path.read_bytes()
    entries: dict[str, dict[str, Any]] = json.loads(content)
    origin = {
        "name": "litellm",
        "release": release,
        "file": path.name,
        "sha256": hashlib.sha256(content).hexdigest(),
        "licence": "MIT",
        "source": "https://github.com/BerriAI/litellm",
    }
    models = {model: facts for model, facts in _listed_facts(entries) if facts}
    FIXTURE.write_text(json.dumps({"origin": origin, "models": models}, indent=1) + "\n", encoding="utf-8")
    print(f"{len(models)} models")


def _listed_facts(entries: dict[str, dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    for provider in sorted(providers()):
        for model in adapter_class(provider).listed_models:
            names = (f"{prefix}{model}" for prefix in PREFIXES.get(provider, (f"{provider}/",)))
            entry = next((entries[name] for name in names if name in entries), {})
            yield f"{provider}:{model}", {ours: entry[theirs] for theirs, ours in FACTS.items() if theirs in entry}


if __name__ == "__main__":
    main()
