"""Keys of forty issuers, generated in every run, so that none is in this file; and the places to plant them."""

import json
import random
import string
from collections.abc import Callable
from typing import Any

import httpx

_ALNUM = string.ascii_letters + string.digits
_HEX = "0123456789abcdef"
_URL = _ALNUM + "-_"
_UPPER = string.ascii_uppercase + string.digits

# Issuer, the prefix of its keys (in two halves), their alphabet and length.
_SHAPES: dict[str, tuple[str, str, int]] = {
    "OpenAI": ("sk-+", _ALNUM, 48),
    "OpenAI project": ("sk-+proj-", _URL, 120),
    "OpenAI service": ("sk-+svcacct-", _URL, 60),
    "Anthropic": ("sk-+ant-api03-", _URL, 93),
    "Anthropic OAuth": ("sk-+ant-oat01-", _URL, 80),
    "OpenRouter": ("sk-+or-v1-", _HEX, 64),
    "DeepSeek": ("sk-+", _HEX, 32),
    "Langfuse": ("sk-+lf-", _HEX, 36),
    "Stripe live": ("sk_+live_", _ALNUM, 24),
    "Stripe restricted": ("rk_+live_", _ALNUM, 24),
    "Groq": ("gs+k_", _ALNUM, 52),
    "xAI": ("xa+i-", _ALNUM, 80),
    "Google": ("AI+zaSy", _URL, 33),
    "Google OAuth": ("ya+29.", _URL, 60),
    "Google client": ("GOC+SPX-", _URL, 28),
    "AWS": ("AK+IA", _UPPER, 16),
    "AWS temporary": ("AS+IA", _UPPER, 16),
    "Bedrock": ("AB+SK", _ALNUM, 110),
    "Hugging Face": ("h+f_", _ALNUM, 34),
    "Replicate": ("r+8_", _ALNUM, 37),
    "Perplexity": ("pp+lx-", _ALNUM, 48),
    "Fireworks": ("f+w_", _ALNUM, 24),
    "Cerebras": ("cs+k-", _ALNUM, 48),
    "NVIDIA": ("nv+api-", _URL, 64),
    "Together": ("tg+p_v1_", _URL, 43),
    "Voyage": ("p+a-", _URL, 43),
    "Jina": ("ji+na_", _ALNUM, 60),
    "Tavily": ("tv+ly-", _ALNUM, 32),
    "Pinecone": ("pc+sk_", _ALNUM, 60),
    "LangSmith": ("ls+v2_pt_", _HEX, 42),
    "Databricks": ("da+pi", _HEX, 32),
    "GitHub": ("gh+p_", _ALNUM, 36),
    "GitHub fine": ("git+hub_pat_", _ALNUM, 82),
    "GitLab": ("gl+pat-", _URL, 20),
    "Slack": ("xo+xb-", _ALNUM, 50),
    "SendGrid": ("S+G.abcdefghijklmnop123456.", _URL, 43),
    "npm": ("np+m_", _ALNUM, 36),
    "PyPI": ("py+pi-AgEI", _URL, 100),
    "DigitalOcean": ("do+p_v1_", _HEX, 64),
    "Supabase": ("sb+p_", _HEX, 40),
    "Vault": ("hv+s.", _URL, 90),
    "JWT": ("ey+JhbGciOiJIUzI1NiJ9.", _ALNUM, 80),
    "Linear": ("lin+_api_", _ALNUM, 40),
    "Twilio": ("S+K", _HEX, 32),
}
ISSUERS = tuple(_SHAPES)


def key(issuer: str, seed: int) -> str:
    """A key in the format of an issuer. It has a digit, as all but one in ten thousand have."""
    start, alphabet, length = _SHAPES[issuer]
    rng = random.Random(f"{issuer}/{seed}")
    body = "".join(rng.choice(alphabet) for _ in range(length - 2))
    return start.replace("+", "") + body + rng.choice("0123456789") + rng.choice([c for c in alphabet if c.isalnum()])


def _prompt(text: str = "q", **more: Any) -> dict[str, Any]:
    return {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": text}], **more}


def _reply(text: str = "hi") -> dict[str, Any]:
    return {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn",
        "content": [{"type": "text", "text": text}], "usage": {"input_tokens": 1, "output_tokens": 1},
    }  # fmt: skip


def _stream(*texts: str) -> bytes:
    start = {"type": "message_start", "message": {**_reply(), "content": [], "stop_reason": None}}
    block = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
    deltas = [{"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": t}} for t in texts]
    end: list[dict[str, Any]] = [
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}},
        {"type": "message_stop"},
    ]
    events = [start, block, *deltas, *end]
    return "".join(f"event: {each['type']}\ndata: {json.dumps(each)}\n\n" for each in events).encode()


_EVENTS = {"content-type": "text/event-stream"}
_JSON = {"content-type": "application/json"}
URL = "https://api.anthropic.com/v1/messages"

Place = Callable[[str], tuple[httpx.Request, httpx.Response]]


def _record_request(body: Any = None, url: str = URL, **headers: str) -> httpx.Request:
    if isinstance(body, bytes):
        return httpx.Request("POST", url, content=body, headers=headers)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return httpx.Request("POST", url, json=body or _prompt(), headers=named)


def _record_response(body: Any = None, status: int = 200, headers: dict[str, str] | None = None) -> httpx.Response:
    content = body if isinstance(body, bytes) else json.dumps(body or _reply()).encode()
    return httpx.Response(status, content=content, headers=headers or _JSON)


def _call(secret: str) -> dict[str, Any]:
    function = {"name": "f", "arguments": json.dumps({"note": secret})}
    call = {"id": "c", "type": "function", "function": function}
    return {"model": "m", "messages": [{"role": "assistant", "content": None, "tool_calls": [call]}]}


def _form(secret: str) -> bytes:
    return f'--b\r\nContent-Disposition: form-data; name="note"\r\n\r\n{secret}\r\n--b--\r\n'.encode()


def _escape(secret: str) -> bytes:
    """The key in another spelling of JSON: every character by its number."""
    spelt = "".join(f"\\u{ord(c):04x}" for c in secret)
    return json.dumps(_reply("@")).replace("@", spelt).encode()


def _thirds(secret: str) -> tuple[str, str, str]:
    cut = len(secret) // 3
    return secret[:2], secret[2 : 2 + cut], secret[2 + cut :]


PLACES: dict[str, Place] = {
    "a header that is kept": lambda k: (_record_request(anthropic_beta=k), _record_response()),
    "the path": lambda k: (_record_request(url=f"https://api.anthropic.com/{k}/v1/messages"), _record_response()),
    "the query": lambda k: (_record_request(url=f"{URL}?trace={k}"), _record_response()),
    "a prompt": lambda k: (_record_request(_prompt(f"my key is {k}, keep it")), _record_response()),
    "a tool's arguments": lambda k: (
        _record_request(_call(k), "https://api.openai.com/v1/chat/completions"),
        _record_response(),
    ),
    "a name in JSON": lambda k: (_record_request(_prompt(metadata={k: 1})), _record_response()),
    "a form": lambda k: (_record_request(_form(k), "https://api.openai.com/v1/files"), _record_response()),
    "a reply's header": lambda k: (_record_request(), _record_response(headers={**_JSON, "request-id": k})),
    "a reply": lambda k: (_record_request(), _record_response(_reply(f"It is {k}."))),
    "an escaped reply": lambda k: (_record_request(), _record_response(_escape(k))),
    "an error": lambda k: (_record_request(), _record_response(f"Incorrect API key provided: {k}".encode(), 401, {})),
    "an event": lambda k: (
        _record_request(_prompt(stream=True)),
        _record_response(_stream("It is ", k), headers=_EVENTS),
    ),
    "the deltas of a stream": lambda k: (
        _record_request(_prompt(stream=True)),
        _record_response(_stream("It is ", *_thirds(k), "."), headers=_EVENTS),
    ),
}

DROPPED: dict[str, Place] = {
    "the authorization": lambda k: (_record_request(authorization=f"Bearer {k}"), _record_response()),
    "the key's header": lambda k: (_record_request(x_api_key=k), _record_response()),
    "a cookie": lambda k: (_record_request(cookie=f"session={k}"), _record_response()),
    "a cookie of the server": lambda k: (
        _record_request(),
        _record_response(headers={**_JSON, "set-cookie": f"session={k}"}),
    ),
    "the key's argument": lambda k: (_record_request(url=f"{URL}?key={k}"), _record_response()),
    "the address": lambda k: (_record_request(url=f"https://me:{k}@api.anthropic.com/v1/messages"), _record_response()),
}
"""Places that are never recorded, so a key there is harmless."""
