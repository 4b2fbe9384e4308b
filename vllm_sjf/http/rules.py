"""Which class a request belongs to, by what the front end sees of it: a pure question."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from vllm_sjf.config import Routing

# Endpoints whose body has ``vllm_xargs`` and passes it on to the engine.
REWRITTEN = frozenset({"/v1/chat/completions", "/v1/completions", "/v1/messages", "/v1/responses"})


@dataclass(frozen=True, slots=True)
class Routed:
    """Where a request goes and as what.

    path: without the prefix that named its class. traffic_class: None when no rule applies:
        then the request's own fields decide, as far as they may.
    """

    path: str
    traffic_class: str | None


def route(rules: Routing, path: str, headers: Mapping[bytes, bytes]) -> Routed:
    """Find a request's class: by its API key, else its path's prefix, else a trusted header.

    The prefix is cut off whatever decided. headers: names in lower case, as ASGI has them.
    """
    path, by_path = _cut_prefix(rules.path_prefixes, path)
    found = _by_key(rules.api_keys, headers.get(b"authorization", b"")) or by_path
    if found is None and rules.trusted_header is not None:
        named = headers.get(rules.trusted_header.lower().encode(), b"")
        found = named.decode("latin-1").strip() or None
    return Routed(path, found)


def _cut_prefix(prefixes: Mapping[str, str], path: str) -> tuple[str, str | None]:
    for prefix, name in prefixes.items():
        if path.startswith(prefix + "/"):
            return path[len(prefix) :], name
    return path, None


def _by_key(api_keys: Mapping[str, str], authorization: bytes) -> str | None:
    scheme, _, key = authorization.partition(b" ")
    if not api_keys or scheme.lower() != b"bearer":
        return None
    return api_keys.get(hashlib.sha256(key).hexdigest())
