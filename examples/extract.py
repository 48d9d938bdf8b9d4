"""Turns letters into rows of a table: one typed answer for each, checked, and asked again if it is not valid.

It shows typed answers: `MODEL=openai:gpt-6-luna python examples/extract.py < letters.txt > orders.csv`
"""

import csv
import os
import sys
from typing import Literal

from pydantic import BaseModel, Field

from dragoman import Client
from dragoman.errors import OutputError

MODEL = os.environ.get("MODEL", "anthropic:claude-haiku-4-5")


class Order(BaseModel):
    item: str = Field(description="What is ordered, in one or two words.", max_length=30)
    quantity: int = Field(ge=1, le=1000)
    urgency: Literal["low", "normal", "high"]


def main() -> None:
    rows = csv.DictWriter(sys.stdout, [*Order.model_fields, "cost", "problem"], lineterminator="\n")
    rows.writeheader()
    with Client() as client:
        for letter in filter(None, map(str.strip, sys.stdin)):
            try:
                reply = client.ask(MODEL, letter, system="Extract the order.", output=Order, max_output_tokens=100)
            except OutputError as error:  # still not valid after a second attempt: keep the row, and say why
                rows.writerow({"problem": str(error)})
            else:
                rows.writerow({**reply.output.model_dump(), "cost": reply.cost.usd})


if __name__ == "__main__":
    main()
