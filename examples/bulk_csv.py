"""Asks a model about each row of a CSV file, within a budget. Stop it when you like: the next run sends what is left.

It shows bulk runs: `MODEL=anthropic:claude-haiku-4-5 python examples/bulk_csv.py reviews.csv judged.csv`
"""

import os
import sys
from typing import Literal

from pydantic import BaseModel

from dragoman.bulk import bulk

MODEL = os.environ.get("MODEL", "anthropic:claude-haiku-4-5")


class Judgement(BaseModel):
    sentiment: Literal["good", "bad", "mixed"]


def main(source: str, target: str) -> None:
    report = bulk(
        source,  # a file with the column "review"; others are kept
        MODEL,
        template="Judge this review of a product:\n\n{review}",
        output=Judgement,  # its fields become columns, such as "answer_sentiment"
        max_output_tokens=50,
        to=target,
        budget="5.00",  # US dollars
    )
    with report:
        print(report)
        if not report.finished:
            sys.exit(f"Stopped: {report.stopped}. Run it again to continue.")


if __name__ == "__main__":
    main(*sys.argv[1:3])
