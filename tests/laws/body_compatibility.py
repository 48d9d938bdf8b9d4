"""Compatibility of message bodies against brute force: `python -m tests.laws.body_compatibility`.

Pairs of schemas are drawn at random. For each compatible pair, bodies are drawn that obey the producer's schema, and
the consumer's has to accept them all; for each other pair, the counterexample has to be a body that only the producer's
schema accepts. A breach is printed, and makes the command fail.
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

SchemaGenerator = random.Random


def schema_part(generator: SchemaGenerator) -> MessageBodySchemaPart:
    pattern = "/" + "".join(generator.choices(_NAMES, k=generator.randrange(5)))
    name = generator.choice((None, pattern, pattern))
    return MessageBodySchemaPart(name=name, content_type=generator.choice(_TYPES), required=generator.random() < 0.3)


def pair(generator: SchemaGenerator) -> tuple[MessageBodySchema, MessageBodySchema]:
    """Two schemas, the second of which often holds parts of the first, so that compatible pairs are not rare."""
    producer = [schema_part(generator) for _ in range(generator.randrange(4))]
    consumer = [schema_part(generator) for _ in range(generator.randrange(4))]
    if generator.random() < 0.7:
        consumer += generator.sample(producer, generator.randint(0, len(producer)))
    return MessageBodySchema(tuple(producer)), MessageBodySchema(tuple(consumer))


def parts(generator: SchemaGenerator, count: int) -> list[MessageBodyPart]:
    """Parts with short names, all different, and some without."""
    made: dict[object, MessageBodyPart] = {}
    for number in range(count):
        name = "/" + "".join(generator.choices(_LETTERS, k=generator.randint(1, 5))).strip("/")
        fields = {"name": name} if generator.random() < 0.7 else {}
        try:
            part = MessageBodyPart(**fields, content_type=generator.choice(_KINDS), content="")
        except ValueError:
            continue  # no name
        made.setdefault(part.name or number, part)
    return list(made.values())


def bodies(generator: SchemaGenerator, producer: MessageBodySchema, count: int) -> list[MessageBody]:
    """Bodies that obey the schema, as far as they can be found among random parts that it accepts."""
    pool = [part for part in parts(generator, 60) if producer.accepts(part)]
    drawn = (MessageBody(tuple(generator.sample(pool, generator.randint(0, min(len(pool), 4))))) for _ in range(count))
    return [body for body in drawn if not producer.check(body)]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.laws.body_compatibility", description=__doc__)
    parser.add_argument("--pairs", type=int, default=5_000)
    parser.add_argument("--bodies", type=int, default=40, help="drawn for each pair")
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    generator, verdicts, breaches = SchemaGenerator(chosen.seed), Counter[str](), list[str]()
    for _ in range(chosen.pairs):
        producer, consumer = pair(generator)
        verdict = is_compatible(producer, consumer)
        found = bodies(generator, producer, chosen.bodies)
        refuted = [body for body in found if consumer.check(body)]
        if verdict:
            verdicts["yes"] += 1
            verdicts["bodies that obeyed, of a yes"] += len(found)
            breaches += [f"yes, but {body.as_json()}: {producer.as_json()} {consumer.as_json()}" for body in refuted]
            continue
        verdicts["no"] += 1
        verdicts["a body that shows it was drawn too"] += bool(refuted)
        if verdict.counterexample is None:
            verdicts["without a witness"] += 1
            if refuted:
                verdicts["of those, one was drawn"] += 1
        elif producer.check(verdict.counterexample) or not consumer.check(verdict.counterexample):
            breaches.append(
                f"no witness: {verdict.counterexample.as_json()}: {producer.as_json()} {consumer.as_json()}"
            )
    for what, count in verdicts.items():
        print(f"{count:8,}  {what}")
    print(f"{len(breaches):8,}  breaches")
    print("\n".join(breaches[:10]))
    return 1 if breaches or not verdicts["bodies that obeyed, of a yes"] else 0


if __name__ == "__main__":
    sys.exit(main())
