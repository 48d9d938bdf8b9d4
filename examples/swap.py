"""Starts a conversation with one model, looks at what another one would get, and continues there.

It shows `preview` and `swap`: `MODEL=anthropic:claude-opus-5-5 NEXT=openai:gpt-6.1-sol python examples/swap.py`
"""

import os
import sys

from dragoman import Client, SwapRefusedError, tool

MODEL = os.environ.get("MODEL", "anthropic:claude-opus-5-5")
NEXT = os.environ.get("NEXT", "openai:gpt-6.1-sol")


@tool(side_effects="none")
def distance(to: str) -> str:
    """The distance from Zurich to a town, in kilometres.

    Args:
        to: The town.
    """
    return {"Bern": "95", "Basel": "74"}.get(to, "unknown")


def main() -> None:
    with Client() as client, client.session(MODEL, tools=[distance]) as session:
        print(session.ask("Is Bern or Basel closer to Zurich?", max_output_tokens=300))

        preview = session.preview(NEXT)  # sends nothing
        print(f"\n{preview}\n")
        for loss in preview.losses:
            print(f"- {loss.kind}: {loss.reason}")
        try:
            session.swap(NEXT)
        except SwapRefusedError as refused:
            sys.exit("; ".join(refused.reasons))

        print(session.ask("And which one is larger?", max_output_tokens=300))
        print(f"\n{session.usage.total_tokens} tokens, {session.cost}")


if __name__ == "__main__":
    main()
