"""The final message form of ACP as data: a role and parts, some with citation or trajectory metadata.

Fields of later versions are kept. A part may have neither content nor URL if its metadata hold everything.
Source: docs/reference/message-body.md#acp.
"""

from datetime import datetime
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, ConfigDict, Field, StrictInt, field_validator, model_validator
from pydantic_core import PydanticCustomError

from dragoman.canonical.blocks import FrozenModel
from dragoman.canonical.guard import JsonObject, Text
from dragoman.formats.body.parts import Part, is_base64, is_url, type_fault


class CitationMetadata(FrozenModel):
    """The source of a part. The span counts characters over all texts of the message."""

    model_config = ConfigDict(extra="allow")

    kind: Literal["citation"] = "citation"
    start_index: StrictInt | None = None
    end_index: StrictInt | None = None
    url: Text | None = None
    title: Text | None = None
    description: Text | None = None


class TrajectoryMetadata(FrozenModel):
    """A step on the way to the answer: a thought, or a tool call."""

    model_config = ConfigDict(extra="allow")

    kind: Literal["trajectory"] = "trajectory"
    message: Text | None = None
    tool_name: Text | None = None
    tool_input: JsonObject | None = None
    tool_output: JsonObject | None = None


AcpMetadata = Annotated[CitationMetadata | TrajectoryMetadata, Field(discriminator="kind")]


def _default_type(content_type: Any) -> Any:
    return "text/plain" if content_type is None else content_type


class AcpPart(Part):
    """A part with a name is an artifact. Any text may be a name."""

    model_config = ConfigDict(extra="allow")

    content_type: Annotated[Text, BeforeValidator(_default_type)] = "text/plain"
    metadata: AcpMetadata | None = None

    @field_validator("content_type")
    @classmethod
    def _check_type(cls, content_type: str) -> str:
        if (fault := type_fault(content_type)) is not None:
            raise PydanticCustomError("content_type", "{fault}", {"fault": fault})
        return content_type

    @field_validator("content_url")
    @classmethod
    def _check_url(cls, url: str | None) -> str | None:
        if url is not None and not is_url(url):
            raise PydanticCustomError(
                "content_url", "a content URL must be absolute, such as https://example.org/a.png"
            )
        return url

    @model_validator(mode="after")
    def _check_one_content(self) -> Self:
        if self.content is not None and self.content_url is not None:
            raise PydanticCustomError("one_content", "a part can have content or a content_url, not both")
        if self.content is not None and self.is_base64 and not is_base64(self.content):
            raise PydanticCustomError("base64", "the content is not valid base64")
        return self


class AcpMessage(FrozenModel):
    model_config = ConfigDict(extra="allow")

    role: Annotated[str, Field(pattern=r"^(user|agent(/[a-zA-Z0-9_\-]+)?)\z")]
    parts: tuple[AcpPart, ...]
    created_at: datetime | None = None
    completed_at: datetime | None = None
