"""Writes the price files of this folder, and the context windows in the files of the adapters, from the data of the
installed genai-prices package. No network.

    python pricing/refresh.py                          the release that is already recorded: same bytes again
    python pricing/refresh.py --released 2026-11-10    another release, with the day it came out
    python pricing/refresh.py --check                  writes nothing; fails where a file would change
    python pricing/refresh.py --update FILE            one file of the installed release, for `dragoman prices update`

What is written is described in README.md; what the source gets wrong or does not know is in overlay.toml.
"""

import argparse
import datetime
import hashlib
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from decimal import Decimal
from importlib import metadata
from pathlib import Path
from typing import Any

import windows
from genai_prices import data, types

FOLDER = Path(__file__).parent
DISTRIBUTION = "genai-prices"

# Files carry the provider names of this project.
NAMES = {"aws": "bedrock", "azure": "azure-openai", "x-ai": "xai"}
# Providers with the prices of another one; models on the user's machine are free like the embedded model.
SAME_PRICES = {
    "anthropic-bedrock": "bedrock",
    "anthropic-foundry": "anthropic",
    "anthropic-vertex": "google",
    "bedrock-invoke": "bedrock",
    "bedrock-openai": "bedrock",
    "google-interactions": "google",
    "google-openai": "google",
    "google-vertex": "google",
    "gpustack": "local",
    "llamacpp": "local",
    "lmstudio": "local",
    "mistralrs": "local",
    "moonshot": "moonshotai",
    "ollama-openai": "ollama",
    "openai-chat": "openai",
    "vllm": "local",
    "z-ai": "zai",
}
# Routers that name the serving provider after a colon, at that provider's prices.
ROUTERS = {"huggingface": "huggingface_{}"}
# Supported providers without known prices, and the reason.
UNPRICED = {
    "alibaba": "Model Studio's prices differ by region and by length of the prompt; the source does not have them",
    "compatible": "an endpoint of your own: only you know what it asks",
    "nvidia": "hosted models are free to try and otherwise licensed, not billed by token",
    "snowflake": "billed in credits, whose price is part of the contract",
    "text-completion": "an endpoint of your own: only you know what it asks",
    "venice": "the source does not have its prices",
    "vercel": "passes on what others ask, and tells the cost of each reply: reported_cost_usd",
    "writer": "the source does not have its prices",
}

RATES = {
    "input_mtok": "input",
    "output_mtok": "output",
    "cache_read_mtok": "cache_read",
    "cache_write_mtok": "cache_write",
    "cache_write_1h_mtok": "cache_write_1h",
    "input_audio_mtok": "audio_input",
    "output_audio_mtok": "audio_output",
    "input_image_mtok": "image_input",
    "output_image_mtok": "image_output",
    "cache_audio_read_mtok": "audio_cache_read",
    "cache_image_read_mtok": "image_cache_read",
    "output_reasoning_mtok": "reasoning",
}
TOOLS = {
    "web_searches_kcount": "web_search",
    "social_searches_kcount": "x_search",
    "storage_searches_kcount": "file_search",
}
REQUESTS = "requests_kcount"
VARIANTS = ("processing", "service_tier", "speed")

_DATED = re.compile(r"\^(?P<stem>(?:[\w/@-]|\\\.)+?)(?:-|\[-@\])(?:\\d\{8\}|\\d\{4\}-\\d\{2\}-\\d\{2\})\$")
_LINK = re.compile(r"https?://[^\s)\]>`]+")


def main() -> int:
    options = _parse_arguments()
    origin = _read_origin(options.released)
    if options.update:
        options.update.write_text(_update_text(origin), encoding="utf-8", newline="\n")
        print(f"{options.update}: SHA-256 {hashlib.sha256(options.update.read_bytes()).hexdigest()}")
        return 0
    files = dict(_iter_files(origin))
    changed = [path for path, text in files.items() if _read(path) != text]
    if options.check:
        print("\n".join(f"{path.name} is not what {DISTRIBUTION} {origin['release']} gives" for path in changed))
        return 1 if changed else 0
    for path in changed:
        path.write_text(files[path], encoding="utf-8", newline="\n")
    print(f"{len(changed)} of {len(files)} files changed; {DISTRIBUTION} {origin['release']}, {origin['released']}")
    return 0


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Write the price files from the installed genai-prices package.")
    parser.add_argument("--released", type=datetime.date.fromisoformat, help="the day the installed release came out")
    parser.add_argument("--check", action="store_true", help="write nothing, fail where a file would change")
    parser.add_argument("--update", type=Path, help="write one file for dragoman prices update, and nothing else")
    return parser.parse_args()


def _read_origin(released: datetime.date | None) -> dict[str, Any]:
    """The origin of the figures. The package does not contain its release date, so index.toml keeps it."""
    release = metadata.version(DISTRIBUTION)
    recorded = tomllib.loads(_read(FOLDER / "index.toml") or "").get("origin", {})
    if released is None and recorded.get("release") == release:
        released = recorded["released"]
    if released is None:
        sys.exit(f"{DISTRIBUTION} {release} is new here: say when it came out, with --released YYYY-MM-DD")
    return {
        "name": DISTRIBUTION,
        "release": release,
        "released": released,
        "sha256": hashlib.sha256(Path(data.__file__).read_bytes()).hexdigest(),
        "licence": "MIT",
    }


def _iter_files(origin: dict[str, Any]) -> Iterator[tuple[Path, str]]:
    """The path and the text of every generated file."""
    checked = [origin["released"]]
    for path in FOLDER.glob("*.toml"):
        table = tomllib.loads(path.read_text(encoding="utf-8"))
        if "origin" not in table:
            checked.append(table["checked"])
    yield FOLDER / "index.toml", _index_text(max(checked), origin)
    yield FOLDER / f"LICENSE.{DISTRIBUTION}", _licence_text()
    for provider in data.providers:
        yield FOLDER / f"{NAMES.get(provider.id, provider.id)}.toml", _provider_text(provider, origin)
    yield from windows.iter_files(_providers())


def _providers() -> dict[str, types.Provider]:
    """The providers of the data by our names, and those with the models of another one."""
    providers = {NAMES.get(provider.id, provider.id): provider for provider in data.providers}
    for name, same in SAME_PRICES.items():
        if same in providers:
            providers.setdefault(name, providers[same])
    return providers


def _update_text(origin: dict[str, Any]) -> str:
    """All prices of the data and the windows of the listed models, without those that a row of ours corrects."""
    overlay = tomllib.loads(_read(FOLDER / "overlay.toml") or "")
    windows_by_provider = dict(windows.iter_limits(_providers()))
    lines = [f"# From {DISTRIBUTION} {origin['release']}.", "format = 1", f"date = {origin['released']}"]
    priced = {NAMES.get(provider.id, provider.id): provider for provider in data.providers}
    for name in dict.fromkeys((*priced, *windows_by_provider)):
        lines += ["", f"[{_key(name)}]"]
        if name in priced:
            source = (priced[name].pricing_urls or ["https://github.com/pydantic/genai-prices"])[0]
            lines.append(f"source = {_to_toml(source)}")
            corrected = {model["id"] for model in overlay.get(name, {}).get("model", ())}
            for model in (each for each in priced[name].models if each.id not in corrected):
                lines += (line.replace("[[model]]", f"[[{_key(name)}.model]]") for line in _model_lines(model, source))
        for window, patterns in windows_by_provider.get(name, {}).items():
            lines += ["", f"[[{_key(name)}.limits]]", f"match = {_to_toml(patterns)}", f"max_context_tokens = {window}"]
    return "\n".join((*lines, ""))


def _index_text(date: datetime.date, origin: dict[str, Any]) -> str:
    return "\n".join(
        (
            "# Generated by refresh.py: the date of the table, which providers read the file of another one or route",
            "# to several, and which have no prices, with the reason.",
            f"date = {date}",
            f"same_prices = {_to_toml(SAME_PRICES)}",
            f"routers = {_to_toml(ROUTERS)}",
            f"origin = {_to_toml(origin)}",
            "",
            "[unpriced]",
            *(f"{name} = {_to_toml(reason)}" for name, reason in UNPRICED.items()),
            "",
        )
    )


def _licence_text() -> str:
    files = metadata.files(DISTRIBUTION) or []
    return next(file for file in files if file.name == "LICENSE").read_text(encoding="utf-8")


def _provider_text(provider: types.Provider, origin: dict[str, Any]) -> str:
    source = (provider.pricing_urls or ["https://github.com/pydantic/genai-prices"])[0]
    lines = [
        f"# Prices of {provider.name}. Generated by refresh.py: change overlay.toml instead. Format: README.md.",
        f'provider = "{NAMES.get(provider.id, provider.id)}"',
        f"source = {_to_toml(source)}",
        f"checked = {origin['released']}",
        f"origin = {_to_toml(origin)}",
    ]
    if provider.fallback_model_providers:
        lines.append(f"fallback = {_to_toml([NAMES.get(name, name) for name in provider.fallback_model_providers])}")
    for model in provider.models:
        lines += _model_lines(model, source)
    return "\n".join((*lines, ""))


def _model_lines(model: types.ModelInfo, default_source: str) -> list[str]:
    lines = ["", "[[model]]", f"id = {_to_toml(model.id)}", f"match = {_to_toml(_match_rule(model.match))}"]
    source = _source(model.price_comments)
    if source and source != default_source:
        lines.append(f"source = {_to_toml(source)}")
    lines += _array_lines("prices", _prices(model))
    return lines + _array_lines("variants", _variants(model))


def _array_lines(name: str, rows: Iterable[dict[str, Any]]) -> list[str]:
    lines = [f"  {_to_toml(row)}," for row in rows]
    return [f"{name} = [", *lines, "]"] if lines else []


def _source(comment: str | None) -> str | None:
    """The page behind a model's prices: the first link about prices in the source's remarks, else the first link."""
    links = [link.rstrip(".,;:") for link in _LINK.findall(comment or "")]
    return next((link for link in links if "pric" in link), links[0] if links else None)


def _prices(model: types.ModelInfo) -> Iterator[dict[str, Any]]:
    """The source's list, in which the last matching entry counts, as rows with disjoint validity."""
    model_prices = model.prices
    entries = (
        [types.ConditionalPrice(prices=model_prices)] if isinstance(model_prices, types.ModelPrice) else model_prices
    )
    dated = [entry for entry in entries if not isinstance(entry.constraint, types.TimeOfDateConstraint)]
    for entry, following in zip(dated, [*dated[1:], None], strict=True):
        row = _validity(entry.constraint)
        if following and isinstance(following.constraint, types.StartDateConstraint):
            row["until"] = following.constraint.start_date
        yield row | _rates(entry.prices) | _free(model, entry.prices)
    for entry in entries:
        if isinstance(entry.constraint, types.TimeOfDateConstraint):
            yield _validity(entry.constraint) | _rates(entry.prices)


def _free(model: types.ModelInfo, prices: types.ModelPrice) -> dict[str, Any]:
    """A missing price means free only if the source says so; otherwise it is unknown."""
    is_declared_free = model.id.endswith(":free") or "free of charge" in (model.price_comments or "").lower()
    return {"free": True} if is_declared_free and not prices.__dict__ else {}


def _variants(model: types.ModelInfo) -> Iterator[dict[str, Any]]:
    """The variants that a reply can name, each valid until the next of its kind. Replies do not state a route or a
    search type.
    """
    rows = [
        variant.when | _validity(variant.constraint) | rates
        for variant in model.price_variants or ()
        if (rates := _rates(variant.prices)) and variant.when.keys() <= set(VARIANTS)
    ]
    for row in rows:
        starts = [row_["from"] for row_ in rows if "from" in row_ and all(row_.get(k) == row.get(k) for k in VARIANTS)]
        later = [start for start in starts if "from" not in row or start > row["from"]]
        validity = {"from": row["from"]} if "from" in row else {}
        yield {k: row[k] for k in VARIANTS if k in row} | validity | ({"until": min(later)} if later else {}) | row


def _validity(constraint: object) -> dict[str, Any]:
    if isinstance(constraint, types.StartDateConstraint):
        return {"from": constraint.start_date}
    if isinstance(constraint, types.TimeOfDateConstraint):
        return {"window": {"start": constraint.start_time, "end": constraint.end_time}}
    return {}


def _rates(prices: types.ModelPrice) -> dict[str, Any]:
    row: dict[str, Any] = {}
    over: dict[int, dict[str, Decimal]] = {}
    for key, name in RATES.items():
        price = getattr(prices, key)
        if isinstance(price, types.TieredPrices):
            row[name] = price.base
            for tier in price.tiers:
                over.setdefault(tier.start, {})[name] = tier.price
        elif price is not None:
            row[name] = price
    if (request := getattr(prices, REQUESTS)) is not None:
        row["request"] = request
    if tools := {name: price for key, name in TOOLS.items() if (price := getattr(prices, key)) is not None}:
        row["tools"] = tools
    if over:
        row["over"] = [{"tokens": start, **rates} for start, rates in sorted(over.items())]
    return row


def _match_rule(clause: object) -> dict[str, Any]:  # noqa: C901  # one case for each kind of clause
    """A clause as lists of texts by kind, any of which may match; `all` contains rules that must match together."""
    match clause:
        case types.ClauseOr():
            rule: dict[str, Any] = {}
            for part in clause.or_:
                for kind, texts in _match_rule(part).items():
                    if kind == "all" and kind in rule:
                        raise NotImplementedError(f"two conjunctions in one rule: {clause}")
                    rule[kind] = list(dict.fromkeys([*rule.get(kind, ()), *texts])) if kind != "all" else texts
            return rule
        case types.ClauseAnd():
            return {"all": [_match_rule(part) for part in clause.and_]}
        case types.ClauseEquals():
            return {"equals": [clause.equals.lower()]}
        case types.ClauseStartsWith():
            return {"starts_with": [clause.starts_with.lower()]}
        case types.ClauseEndsWith():
            return {"ends_with": [clause.ends_with.lower()]}
        case types.ClauseContains():
            return {"contains": [clause.contains.lower()]}
        case types.ClauseRegex():
            dated = _DATED.fullmatch(clause.regex)
            return {"dated": [dated["stem"].replace("\\.", ".")]} if dated else {"regex": [clause.regex]}
        case _:
            raise NotImplementedError(f"a clause of an unknown kind: {clause}")


def _to_toml(value: object) -> str:
    """A value as TOML on one line; decimals are strings, so that no reader turns them into floats."""
    match value:
        case bool():
            return str(value).lower()
        case int() | datetime.date():
            return str(value)
        case datetime.time():
            return f"{value:%H:%M:%S}"
        case Decimal():
            return f'"{value:f}"'
        case str():
            return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
        case dict():
            pairs = ", ".join(f"{_key(key)} = {_to_toml(item)}" for key, item in value.items())
            return f"{{ {pairs} }}"
        case list():
            return f"[{', '.join(_to_toml(item) for item in value)}]"
        case _:
            raise NotImplementedError(f"no TOML for {type(value).__name__}")


def _key(key: str) -> str:
    return key if re.fullmatch(r"[\w-]+", key, re.ASCII) else _to_toml(key)


def _read(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.exists() else None


if __name__ == "__main__":
    sys.exit(main())
