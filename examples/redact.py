"""Keeps personal data and secrets from the model, and stops a tool that would send something away.

It shows a policy of two plugins: `pip install 'dragoman[redaction]' && python examples/redact.py`
"""

import os

from dragoman import Client, Pipeline, PolicyDeniedError, tool
from dragoman.policy import Step, Violation, hook
from dragoman.policy.plugins import Redaction

MODEL = os.environ.get("MODEL", "anthropic:claude-haiku-4-5")
PROMPT = "Write a short, kind answer to ann.lee@example.org, whose card is 4111 1111 1111 1111."


@tool(side_effects="network")
def send_mail(to: str, text: str) -> str:
    """Send a mail."""
    return f"sent to {to}"


@hook("cmf.tool_pre_invoke")
def nothing_leaves(step: Step) -> Violation | None:
    """A plugin of your own is a function: what it returns is the reason to stop."""
    if any(view.name == "send_mail" for view in step.views()):
        return Violation("a person sends mails here", code="no_mail")
    return None


def main() -> None:
    policy = Pipeline([Redaction(), nothing_leaves], denied_calls="answer")  # the model reads why, and goes on
    with Client(policy=policy) as client, client.session(MODEL, tools=[send_mail]) as session:
        try:
            reply = session.ask(PROMPT, max_output_tokens=200)
        except PolicyDeniedError as denied:
            print(f"Denied by {denied.plugin}: {denied.reason}")
        else:
            print("The model read:", session.messages[0].text)
            print("It answered:", reply.text)


if __name__ == "__main__":
    main()
