"""Writes docs/reference/coverage.md: `python -m tests.conformance.coverage [--check] [provider ...]`.

SDKs that the tests do not install: `uv run --with mistralai --with cohere --with groq --with together
python -m tests.conformance.coverage mistral cohere groq together`. An SDK that is not installed keeps its row.
``--check`` writes nothing, and fails if something that an SDK sends is out of reach, or if an SDK cannot be compared:
the report of the newest SDKs.
"""

import logging
import sys
import warnings

from tests.conformance.coverage.evidence import compare
from tests.conformance.coverage.loopback import loopback
from tests.conformance.coverage.page import PAGE, Row, read_rows, write_page
from tests.conformance.coverage.replies import unread
from tests.conformance.coverage.resources import CLIENTS, own_requests, resource_requests
from tests.conformance.coverage.sdks import SDKS


def main(providers: list[str], *, check: bool) -> int:
    rows = read_rows()
    missing: list[str] = []
    resources: dict[str, dict[str, bool]] = {}
    with loopback() as server:
        for provider in providers or SDKS:
            sdk = SDKS[provider]
            if sdk.version is None:
                print(f"{provider}: {sdk.package} is not installed", file=sys.stderr)
                missing += [f"{provider}: {sdk.package} is not installed"] if check else []
                continue
            try:
                table, unknown = compare(sdk, server), unread(sdk)
            except Exception as error:  # an SDK whose modules have moved: the others are still compared
                if not check:
                    raise
                missing.append(f"{provider}: {sdk.package} {sdk.version} cannot be compared: {error!r}")
                continue
            replies = len(sdk.events()) + len(sdk.stop_reasons()) + len(sdk.reply_parts())
            rows[provider] = Row.of(sdk, table, replies - len(unknown), len(unknown))
            missing += [f"{provider} {name}" for name in sorted(table.names("absent") | unknown)]
        for provider, connect in () if check or providers else CLIENTS.items():
            own = own_requests(provider)
            found = resource_requests(connect(server.url), server)
            resources[provider] = {name: request in own for name, request in found.items()}
    if not check:
        PAGE.write_text(write_page(rows, resources or None), encoding="utf-8")
    print("\n".join(missing) or "everything that the SDKs send can be sent")
    return bool(missing)


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    words = sys.argv[1:]
    sys.exit(main([word for word in words if word != "--check"], check="--check" in words))
