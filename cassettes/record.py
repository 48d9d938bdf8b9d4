"""Records the demo's session from a running llama-server: `python cassettes/record.py http://127.0.0.1:8931`.

See README.md for how to build and start the server.
"""

import sys
from pathlib import Path

import vcr

from dragoman.cli import demo
from dragoman.session import Session
from dragoman.testing.cassettes import vcrpy

SERVER = "llama-server"


def main(origin: str) -> None:
    recorder = vcr.VCR(**vcrpy.config(), record_mode="all")
    vcrpy.register(recorder, server=SERVER)
    target = Path(__file__).parent / demo.CASSETTE
    target.parent.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)
    first, *others = demo.RECORDED_PARTS
    providers = {
        part.provider: {"api_key": "recorded", "base_url": origin + demo.BASE_PATHS[part.provider]}
        for part in demo.RECORDED_PARTS
    }
    with (
        recorder.use_cassette(str(target)),
        Session(first.model, tools=demo.TOOLS, providers=providers, new_id=demo.sequential_ids()) as session,
    ):
        for part in (first, *others):
            if session.model != part.model:
                session.swap(part.model)
            for _ in session.stream(part.prompt, max_output_tokens=128):
                pass
            reply = session.messages[-1]
            tool_names = [call.name for message in session.messages for call in message.tool_uses]
            print(f"{session.model}: {reply.text!r} after {len(tool_names)} calls: {', '.join(tool_names)}")


if __name__ == "__main__":
    main(sys.argv[1].rstrip("/"))
