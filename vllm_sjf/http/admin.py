"""Who may change a running server: whoever holds the admin token, nobody while none is set."""

import hmac
import os
from collections.abc import Mapping

TOKEN_ENV = "SJF_ADMIN_TOKEN"
HEADER = "x-sjf-admin-token"


def refusal(headers: Mapping[str, str]) -> str | None:
    """Return why a change is refused, or None when it may go on.

    headers: of the request, names looked up in lower case.
    """
    token = os.environ.get(TOKEN_ENV)
    if not token:
        return f"changes are off: start the server with {TOKEN_ENV} set to a secret of yours"
    given = headers.get(HEADER, "")
    if not hmac.compare_digest(given.encode(), token.encode()):
        return f"the header {HEADER} must hold the server's {TOKEN_ENV}"
    return None
