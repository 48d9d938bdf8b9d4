"""Conversations a second of one core: `python -m tests.benchmarks.lines [--conversations 100000]`.

Rows of a chat data set, four messages each with a call and its result, are read line by line and written in each
format. The time is that of the processor; the peak is that of the process.
"""

import argparse
import contextlib
import json
import resource
import sys
import tempfile
import time
from pathlib import Path

from dragoman.cli.convert import _Run, _to_lines

FORMATS = ("hf", "cmf", "umf", "openai-chat", "anthropic")
_ROW = {
    "messages": [
        {"role": "user", "content": "What is the weather in Bern, and what should I wear for a walk?"},
        {"role": "assistant", "content": "", "tool_calls": [{"id": "call_1", "type": "function", "function": {
            "name": "weather", "arguments": {"city": "Bern", "unit": "celsius"}}}]},
        {"role": "tool", "tool_call_id": "call_1", "name": "weather", "content": '{"sky": "rain", "temperature": 9}'},
        {"role": "assistant", "content": "It rains at 9 degrees: take a coat, and shoes that keep the water out."}],
}  # fmt: skip


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.lines")
    parser.add_argument("--conversations", type=int, default=20_000)
    count: int = parser.parse_args(arguments).conversations
    line = json.dumps(_ROW) + "\n"
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "rows.jsonl")
        with source.open("w", encoding="utf-8") as file:
            for _ in range(count):
                file.write(line)
        print("| to | conversations a second and core | a million takes, minutes |\n| --- | --- | --- |")
        for name in FORMATS:
            start = time.process_time()
            with contextlib.redirect_stdout(None):
                _to_lines(_Run(source, Path(folder, f"{name}.jsonl"), None, name, None, None, False), [source])
            seconds = time.process_time() - start
            print(f"| {name} | {count / seconds:,.0f} | {seconds / count * 1e6 / 60:.1f} |")
    print(f"peak: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:,.0f} MiB")


if __name__ == "__main__":
    main(sys.argv[1:])
