"""Names, paths and capabilities of models."""

import pytest

from dragoman import AdapterOptions, Message
from dragoman.credentials.target import TargetFinder
from dragoman_adapters.bedrock.adapter import BedrockAdapter
from tests.unit.adapters.bedrock.wire import CLAUDE, NOVA, VERSION

ARN = "arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/abc"
PATHS = [
    (NOVA, "us.amazon.nova-2-lite-v1%3A0"),
    ("us.amazon.nova-2-lite-v1%3A0", "us.amazon.nova-2-lite-v1%3A0"),
    (ARN, "arn%3Aaws%3Abedrock%3Aus-east-1%3A123456789012%3Aapplication-inference-profile%2Fabc"),
]


@pytest.mark.parametrize(("model", "quoted"), PATHS)
def test_model_names_are_quoted_in_the_path(model: str, quoted: str) -> None:
    """ARNs hold colons and slashes."""
    for extra, stream, operation in (
        ({}, False, "converse"),
        ({}, True, "converse-stream"),
        (VERSION, False, "invoke"),
        (VERSION, True, "invoke-with-response-stream"),
    ):
        options = AdapterOptions(stream=stream, extra={"bedrock": extra})
        wire = BedrockAdapter(model).to_wire([Message.user("Hi")], [], options)
        assert (wire.path, wire.stream) == (f"/model/{quoted}/{operation}", stream)
        assert (wire.headers.get("accept") == "application/vnd.amazon.eventstream") is stream


def test_the_region_is_part_of_the_address() -> None:
    """The key is an API key of Bedrock's, sent as a bearer token."""
    environ = {"AWS_REGION": "eu-central-1", "AWS_BEARER_TOKEN_BEDROCK": "bedrock-api-key-x"}
    target = TargetFinder(environ=environ).target(BedrockAdapter(CLAUDE))
    assert target.base_url == "https://bedrock-runtime.eu-central-1.amazonaws.com"
    assert target.key is not None
    assert target.key.reveal() == "bedrock-api-key-x"


FAMILIES = [
    ("anthropic.claude-3-haiku-20240307-v1:0", "none"),
    ("us.anthropic.claude-3-7-sonnet-20250219-v1:0", "budget"),
    (CLAUDE, "budget"),
    ("anthropic.claude-sonnet-4-5-20250929-v1:0:1000k", "budget"),
    ("global.anthropic.claude-opus-4-8", "adaptive"),
    (f"arn:aws:bedrock:us-east-1:1:inference-profile/{CLAUDE}", "budget"),
    ("anthropic.claude-instant-v1", "none"),
]


@pytest.mark.parametrize(("model", "way"), FAMILIES)
def test_claude_has_anthropics_facts(model: str, way: str) -> None:
    """The facts are found by the Anthropic name inside the id."""
    assert BedrockAdapter(model).capabilities.wire["thinking"] == way


def test_every_listed_model_has_facts() -> None:
    """Limits included."""
    for name in BedrockAdapter.listed_models:
        abilities = BedrockAdapter(name).capabilities
        assert abilities.max_context_tokens > abilities.max_output_tokens > 0
        assert not abilities.supports_media_urls
