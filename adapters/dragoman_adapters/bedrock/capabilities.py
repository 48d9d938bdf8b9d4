"""What a model on Bedrock can do. Of Claude, Anthropic's own table says most; Bedrock's says what differs here."""

import re
import tomllib
from functools import cache
from importlib.resources import files
from urllib.parse import unquote

from dragoman.adapter.facts.capabilities import AdapterCapabilities, ModelTable

_DATA = tomllib.loads(files("dragoman_adapters.bedrock").joinpath("models.toml").read_text(encoding="utf-8"))
_MODELS = ModelTable(_DATA)
_ANTHROPIC_MODELS = ModelTable.of("dragoman_adapters.anthropic")

# us.anthropic.claude-sonnet-4-5-20250929-v1:0, perhaps behind "arn:aws:bedrock:...:inference-profile/".
_CLAUDE_ID = re.compile(r"(?:.*[./])?anthropic\.(claude-.+?)(?:-v\d+)?(?::[\dk]+)*")

LISTED_MODELS = _MODELS.listed


@cache
def capabilities(model: str) -> AdapterCapabilities:
    """The declarations for one model id, inference profile or ARN."""
    name = unquote(model)
    claude = _CLAUDE_ID.fullmatch(name)
    if claude is None:
        return _MODELS.capabilities(name)
    facts = _ANTHROPIC_MODELS.capabilities(claude[1]).model_dump(mode="json", exclude_unset=True)
    return ModelTable({"default": facts, "model": _DATA["model"]}).capabilities(name)
