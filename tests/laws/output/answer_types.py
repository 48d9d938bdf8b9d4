"""Types that an answer may have, each with a value, and JSON in which a model may write it."""

import datetime as dt
import enum
import ipaddress
import uuid
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, Optional, Union

import pydantic
from pydantic import BaseModel, ConfigDict, Field, RootModel, StringConstraints
from pydantic.dataclasses import dataclass as checked_dataclass
from typing_extensions import TypedDict


class Empty(BaseModel):
    pass


class City(BaseModel):
    """A city."""

    name: str = Field(description="Its name", min_length=1, max_length=90)
    population: int = Field(gt=0, le=50_000_000)


class Closed(BaseModel):
    model_config = ConfigDict(extra="forbid")
    a: int


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    a: int


class Strict(BaseModel):
    model_config = ConfigDict(strict=True)
    day: dt.date
    pair: tuple[int, int]


class Optionals(BaseModel):
    a: int | None = None
    b: str | None
    c: list[int] = Field(default_factory=list)
    d: float = 0.5


class Aliased(BaseModel):
    postal_code: str = Field(alias="postalCode", pattern=r"^\d{4}$")


class Tree(BaseModel):
    label: str
    children: list["Tree"] = []


class Country(BaseModel):
    capital: City
    cities: list[City]
    by_name: dict[str, City] = {}


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int = 9


class Dog(BaseModel):
    kind: Literal["dog"]
    good: bool = True


class Zoo(BaseModel):
    animals: list[Annotated[Cat | Dog, Field(discriminator="kind")]]


class Bounded(BaseModel):
    items: Annotated[list[Annotated[int, Field(ge=0, multiple_of=2)]], Field(min_length=2, max_length=4)]
    share: float = Field(ge=0, lt=1)


class Money(BaseModel):
    amount: Decimal
    currency: Literal["CHF", "EUR"] = "CHF"


class Times(BaseModel):
    at: dt.datetime
    day: dt.date
    hour: dt.time
    lasts: dt.timedelta


class Addresses(BaseModel):
    url: pydantic.HttpUrl
    host: ipaddress.IPv4Address
    id: uuid.UUID


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Paint(BaseModel):
    colour: Colour = Field(description="Its colour")
    coats: Level = Level.LOW


class Names(RootModel[list[str]]):
    pass


class Scores(RootModel[dict[str, int]]):
    pass


@dataclass
class River:
    name: str
    length_km: float
    tags: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Frozen:
    a: int


@checked_dataclass
class Checked:
    a: Annotated[int, Field(ge=1)]


class Movie(TypedDict):
    title: str
    year: NotRequired[int]


class Partial(TypedDict, total=False):
    a: int
    b: str


class Point(NamedTuple):
    x: int
    y: int = 0


class Line(NamedTuple):
    start: Point
    end: Point


class Nested(BaseModel):
    line: Line
    movies: list[Movie]
    river: River | None = None


class Generic(BaseModel):
    value: dict[str, list[tuple[int, str]]]


NOON = dt.datetime(2026, 11, 22, 12, tzinfo=dt.UTC)
_ID = uuid.UUID(int=7)

ANSWER_TYPES: list[tuple[Any, str, Any]] = [
    (Empty, "{}", Empty()),
    (City, '{"name": "Bern", "population": 137000}', City(name="Bern", population=137_000)),
    (Closed, '{"a": 1}', Closed(a=1)),
    (Open, '{"a": 1}', Open(a=1)),
    (Strict, '{"day": "2026-11-22", "pair": [1, 2]}', Strict(day=NOON.date(), pair=(1, 2))),
    (Optionals, '{"a": null, "b": null, "c": [1], "d": 2}', Optionals(a=None, b=None, c=[1], d=2.0)),
    (Aliased, '{"postalCode": "3000"}', Aliased(postalCode="3000")),
    (Tree, '{"label": "a", "children": [{"label": "b", "children": []}]}', Tree(label="a", children=[Tree(label="b")])),
    (
        Country,
        '{"capital": {"name": "B", "population": 1}, "cities": [], "by_name": {}}',
        Country(capital=City(name="B", population=1), cities=[]),
    ),
    (Zoo, '{"animals": [{"kind": "dog", "good": false}]}', Zoo(animals=[Dog(kind="dog", good=False)])),
    (Bounded, '{"items": [2, 4], "share": 0.5}', Bounded(items=[2, 4], share=0.5)),
    (Money, '{"amount": "1.50", "currency": "EUR"}', Money(amount=Decimal("1.50"), currency="EUR")),
    (
        Times,
        '{"at": "2026-11-22T12:00:00Z", "day": "2026-11-22", "hour": "12:00:00Z", "lasts": "PT1H"}',
        Times(at=NOON, day=NOON.date(), hour=NOON.timetz(), lasts=dt.timedelta(hours=1)),
    ),
    (
        Addresses,
        f'{{"url": "https://example.org/", "host": "127.0.0.1", "id": "{_ID}"}}',
        Addresses(url=pydantic.HttpUrl("https://example.org/"), host=ipaddress.IPv4Address("127.0.0.1"), id=_ID),
    ),
    (Paint, '{"colour": "red", "coats": 2}', Paint(colour=Colour.RED, coats=Level.HIGH)),
    (Names, '{"answer": ["a"]}', Names(["a"])),
    (Scores, '{"a": 1}', Scores({"a": 1})),
    (River, '{"name": "Aare", "length_km": 288, "tags": ["blue"]}', River("Aare", 288.0, ["blue"])),
    (Frozen, '{"a": 1}', Frozen(a=1)),
    (Checked, '{"a": 1}', Checked(1)),
    (Movie, '{"title": "M", "year": 1931}', {"title": "M", "year": 1931}),
    (Partial, '{"a": 1, "b": "c"}', {"a": 1, "b": "c"}),
    (Point, '{"x": 1, "y": 2}', Point(1, 2)),
    (Line, '{"start": {"x": 1, "y": 2}, "end": {"x": 3, "y": 4}}', Line(Point(1, 2), Point(3, 4))),
    (
        Nested,
        '{"line": {"start": {"x": 1, "y": 0}, "end": {"x": 2, "y": 0}}, "movies": [], "river": null}',
        Nested(line=Line(Point(1), Point(2)), movies=[]),
    ),
    (Generic, '{"value": {"a": [[1, "b"]]}}', Generic(value={"a": [(1, "b")]})),
    (Colour, '{"answer": "blue"}', Colour.BLUE),
    (Level, '{"answer": 2}', Level.HIGH),
    (int, '{"answer": 7}', 7),
    (float, '{"answer": 0.5}', 0.5),
    (bool, '{"answer": true}', True),
    (bytes, '{"answer": "abc"}', b"abc"),
    (Decimal, '{"answer": "0.1"}', Decimal("0.1")),
    (Fraction, '{"answer": "1/3"}', Fraction(1, 3)),
    (dt.date, '{"answer": "2026-11-22"}', NOON.date()),
    (dt.datetime, '{"answer": "2026-11-22T12:00:00Z"}', NOON),
    (dt.time, '{"answer": "12:00:00Z"}', NOON.timetz()),
    (dt.timedelta, '{"answer": "PT1H"}', dt.timedelta(hours=1)),
    (uuid.UUID, f'{{"answer": "{_ID}"}}', _ID),
    (PurePosixPath, '{"answer": "a/b"}', PurePosixPath("a/b")),
    (ipaddress.IPv6Address, '{"answer": "::1"}', ipaddress.IPv6Address("::1")),
    (Literal["yes", "no"], '{"answer": "no"}', "no"),
    (Literal["a", 1, None], '{"answer": 1}', 1),
    (list[int], '{"answer": [1, 2]}', [1, 2]),
    (list[City], '{"answer": [{"name": "B", "population": 1}]}', [City(name="B", population=1)]),
    (list[list[str]], '{"answer": [["a"], []]}', [["a"], []]),
    (set[int], '{"answer": [1, 2]}', {1, 2}),
    (frozenset[str], '{"answer": ["a"]}', frozenset("a")),
    (tuple[int, str], '{"answer": [1, "a"]}', (1, "a")),
    (tuple[int, ...], '{"answer": [1, 2, 3]}', (1, 2, 3)),
    (tuple[int, int], '{"answer": [1, 2]}', (1, 2)),
    (dict[str, int], '{"a": 1}', {"a": 1}),
    (dict[str, City], '{"a": {"name": "B", "population": 1}}', {"a": City(name="B", population=1)}),
    (dict[Literal["a", "b"], int], '{"a": 1}', {"a": 1}),
    (dict[int, str], '{"1": "a"}', {1: "a"}),
    (Optional[int], '{"answer": null}', None),  # noqa: UP045 - as older programs write it
    (Union[City, River], '{"answer": {"name": "Aare", "length_km": 288, "tags": []}}', River("Aare", 288.0)),  # noqa: UP007
    (City | None, '{"answer": null}', None),
    (int | str, '{"answer": "7"}', "7"),
    (list[City | Movie], '{"answer": [{"title": "M", "year": 1931}]}', [{"title": "M", "year": 1931}]),
    (
        Annotated[Cat | Dog, Field(discriminator="kind")],
        '{"answer": {"kind": "cat", "lives": 7}}',
        Cat(kind="cat", lives=7),
    ),
    (Annotated[int, Field(ge=1, le=5)], '{"answer": 5}', 5),
    (Annotated[str, StringConstraints(pattern="^a+$", max_length=3)], '{"answer": "aa"}', "aa"),
    (Annotated[list[int], Field(min_length=1, max_length=2)], '{"answer": [1]}', [1]),
    (Annotated[str, Field(description="In one word")], '{"answer": "word"}', "word"),
    (Any, '{"answer": {"a": [1]}}', {"a": [1]}),
    (pydantic.JsonValue, '{"answer": [1, null]}', [1, None]),
    (pydantic.SecretStr, '{"answer": "hidden"}', pydantic.SecretStr("hidden")),
    (pydantic.AnyUrl, '{"answer": "https://example.org/"}', pydantic.AnyUrl("https://example.org/")),
    (type(None) | bool, '{"answer": false}', False),
]
"""At least sixty: the type, the JSON, the value."""
