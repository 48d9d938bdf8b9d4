"""The options table of a wire: the fields that hold our options, for encoding and decoding alike."""

from collections.abc import Collection, Mapping
from typing import Any

from dragoman.adapter.json_path import Path, assign_path, lookup_path
from dragoman.adapter.requests import option_support
from dragoman.adapter.requests.request_builder import ABSENT_OPTION, RequestBuilder


class OptionTable:
    """Maps each option that is one field of the wire to the path of that field.

    A path is None if the wire has no such field. ``absent`` is the reason of the loss if an option has no field.
    """

    def __init__(self, paths: Mapping[str, Path | None], *, absent: str = ABSENT_OPTION) -> None:
        self.absent = absent
        self._paths = dict(paths)

    def encode(
        self,
        request: RequestBuilder,
        body: dict[str, Any],
        names: Collection[str] | None = None,
        *,
        reasoning: bool = False,
    ) -> None:
        """Write the named options into the body, or all of the table, except those that were taken before.

        ``reasoning``: whether the model may reason. What the model or the wire does not support is recorded as a loss.
        """
        for name in request.used.take_set(self._paths if names is None else names):
            path = self._paths[name]
            if path is None:
                request.record_option_loss(name, self.absent)
            elif (value := option_support.supported_value(request, name, reasoning=reasoning)) is not None:
                assign_path(body, path, value)

    def decode(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return the options of a body as arguments of `AdapterOptions`."""
        values = {name: lookup_path(body, path) for name, path in self._paths.items() if path is not None}
        if "stop_sequences" in values:
            stop = values["stop_sequences"]
            values["stop_sequences"] = (stop,) if isinstance(stop, str) else tuple(stop or ())
        return values
