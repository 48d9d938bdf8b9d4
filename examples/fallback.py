"""Asks one model, and another if the first one cannot answer: an outage, a limit of the account, a wrong key.

It shows a `Router` and what it records: `python examples/fallback.py "Why is the sky blue?"`
"""

import os
import sys

from dragoman import Client, ProviderError, Router

MODEL = os.environ.get("MODEL", "anthropic:claude-haiku-4-5")
FALLBACK = os.environ.get("FALLBACK", "openai:gpt-6-luna")


def main() -> None:
    prompt = " ".join(sys.argv[1:]) or "Why is the sky blue? Answer in one sentence."
    with Client(router=Router(global_default=FALLBACK)) as client, client.session(MODEL) as session:
        try:
            reply = session.ask(prompt, max_output_tokens=200)
        except ProviderError as error:
            sys.exit(f"No model answered. The last error: {error}")
        for attempt in session.attempts:
            print(f"{attempt.model} failed: {type(attempt.error).__name__}", file=sys.stderr)
        print(reply.text)
        routing = reply.message.metadata.routing
        print(
            f"{reply.message.metadata.model}: {routing.reason if routing else 'as asked'}, {reply.cost}",
            file=sys.stderr,
        )


if __name__ == "__main__":
    main()
