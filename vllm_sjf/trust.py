"""How the front end vouches for a request's class, so that a client cannot.

The middleware writes the class, signed with a key that only this server's processes know, into
the request's ``vllm_xargs``; the scheduler believes nothing there that is not signed.
"""

import hashlib
import hmac
import os

TOKEN_ENV = "SJF_MIDDLEWARE_TOKEN"
TRUSTED_KEY = "sjf_trusted_class"
CLASS_KEY = "traffic_class"  # what a client may ask for itself


def server_token() -> str | None:
    """Return the key that this server's processes share, or None where none was set."""
    return os.environ.get(TOKEN_ENV) or None


def sign(traffic_class: str, token: str) -> str:
    """Return ``traffic_class`` with its signature, as `verify` reads it."""
    digest = hmac.new(token.encode(), traffic_class.encode(), hashlib.sha256).hexdigest()
    return f"{traffic_class}:{digest}"


def verify(value: object, token: str | None) -> str | None:
    """Return the class that ``value`` vouches for, or None unless signed with ``token``."""
    if token is None or not isinstance(value, str):
        return None
    name, colon, _ = value.rpartition(":")
    genuine = bool(colon) and hmac.compare_digest(value.encode(), sign(name, token).encode())
    return name if genuine else None
