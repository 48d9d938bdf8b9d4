"""Compatibility of message bodies against brute force: `python -m tests.laws.compatibility`.

Pairs of schemas are drawn at random. Of each yes, bodies are drawn that obey the producer's schema, and the consumer's
has to take them all; of each no, the witness has to be a body that only the producer's schema takes. A breach is shown,
and makes the command fail.
"""

import argparse
import random
import sys
from collections import Counter

from dragoman.formats import MessageBody, MessageBodyPart, MessageBodySchema, MessageBodySchemaPart, is_compatible

_NAMES = ("a", "b", "ab", "*", "**", ".", "/", "/*", "/**", "{a,b}", "{a,b/*}", "{,**}", "{/a,-b}")
_TYPES = ("*/*", "**", "text/*", "text/plain", "{text,image}/*", "*/{png,html}", "image/png", "a/*", "text/{*l,plain}")
_LETTERS = ("a", "b", ".", "-", "/", "a/", "/b")
_KINDS = ("text/plain", "text/html", "image/png", "a/b", "a/png", "text/l")

Draw = random.Random


def schema_part(draw: Draw) -> MessageBodySchemaPart:
    pattern = "/" + "".join(draw.choices(_NAMES, k=draw.randrange(5)))
    name = draw.choice((None, pattern, pattern))
    return MessageBodySchemaPart(name=name, content_type=draw.choice(_TYPES), required=draw.random() < 0.3)


def pair(draw: Draw) -> tuple[MessageBodySchema, MessageBodySchema]:
    """Two schemas, the second of which often holds parts of the first, so that a yes is not rare."""
    producer = [schema_part(draw) for _ in range(draw.randrange(4))]
    consumer = [schema_part(draw) for _ in range(draw.randrange(4))]
    if draw.random() < 0.7:
        consumer += draw.sample(producer, draw.randint(0, len(producer)))
    return MessageBodySchema(tuple(producer)), MessageBodySchema(tuple(consumer))


def parts(draw: Draw, count: int) -> list[MessageBodyPart]:
    """Parts with short names, no two alike, and some without."""
    made: dict[object, MessageBodyPart] = {}
    for number in range(count):
        name = "/" + "".join(draw.choices(_LETTERS, k=draw.randint(1, 5))).strip("/")
        fields = {"name": name} if draw.random() < 0.7 else {}
        try:
            part = MessageBodyPart(**fields, content_type=draw.choice(_KINDS), content="")
        except ValueError:
            continue  # no name
        made.setdefault(part.name or number, part)
    return list(made.values())


def bodies(draw: Draw, producer: MessageBodySchema, count: int) -> list[MessageBody]:
    """Bodies that obey the schema, as far as they can be found among random parts that it takes."""
    pool = [part for part in parts(draw, 60) if producer.takes(part)]
    drawn = (MessageBody(tuple(draw.sample(pool, draw.randint(0, min(len(pool), 4))))) for _ in range(count))
    return [body for body in drawn if not producer.check(body)]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.laws.compatibility", description=__doc__)
    parser.add_argument("--pairs", type=int, default=5_000)
    parser.add_argument("--bodies", type=int, default=40, help="drawn for each pair")
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    draw, told, breaches = Draw(chosen.seed), Counter[str](), list[str]()
    for _ in range(chosen.pairs):
        producer, consumer = pair(draw)
        verdict = is_compatible(producer, consumer)
        found = bodies(draw, producer, chosen.bodies)
        refuted = [body for body in found if consumer.check(body)]
        if verdict:
            told["yes"] += 1
            told["bodies that obeyed, of a yes"] += len(found)
            breaches += [f"yes, but {body.as_json()}: {producer.as_json()} {consumer.as_json()}" for body in refuted]
            continue
        told["no"] += 1
        told["a body that shows it was drawn too"] += bool(refuted)
        if verdict.witness is None:
            told["without a witness"] += 1
            if refuted:
                told["of those, one was drawn"] += 1
        elif producer.check(verdict.witness) or not consumer.check(verdict.witness):
            breaches.append(f"no witness: {verdict.witness.as_json()}: {producer.as_json()} {consumer.as_json()}")
    for what, count in told.items():
        print(f"{count:8,}  {what}")
    print(f"{len(breaches):8,}  breaches")
    print("\n".join(breaches[:10]))
    return 1 if breaches or not told["bodies that obeyed, of a yes"] else 0


if __name__ == "__main__":
    sys.exit(main())
