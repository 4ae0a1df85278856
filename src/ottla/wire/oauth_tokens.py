"""The token that a login by OAUTHBEARER shows: a given one, one that a function returns, or one of a token endpoint.

Functions and endpoints may take their time, so an asyncio connection asks them in a thread, and waits for as long as
for a broker. An endpoint that cannot be reached is like a broker that cannot be: the client tries again. Whatever else goes wrong is a KafkaError with
SASL_AUTHENTICATION_FAILED. No message holds a token or a secret.
"""

from __future__ import annotations

import asyncio
import re
from base64 import b64encode
from inspect import isawaitable, iscoroutinefunction
from typing import Any, Final
from urllib.parse import quote_plus, urlencode

from ottla.errors import ErrorCode, KafkaError
from ottla.model import Address
from ottla.runtime.clock import OsClock
from ottla.security.oauth.json_text import json_object
from ottla.security.settings import Security
from ottla.security.token_endpoint import TokenEndpoint
from ottla.wire.failures import CannotConnectError

# Kafka's sasl.login.connect.timeout.ms and read.timeout.ms have no default; a login has to end some time.
_TIMEOUT_S: Final = 10.0
_MOST_BYTES: Final = 1 << 20
# The names of OAuth's own errors, such as invalid_client.
_ERROR_NAME: Final = re.compile(r"[a-z_]{1,40}")


async def fresh_token(address: Address, security: Security, timeout_ms: int) -> str:
    """The token for a login at a broker."""
    source = security.token
    if isinstance(source, str):
        return source
    try:
        async with asyncio.timeout(timeout_ms / 1000) as limit:
            if isinstance(source, TokenEndpoint):
                return await asyncio.to_thread(_of_endpoint, address, source)
            return _checked(address, await _returned(address, source))
    except TimeoutError:
        if not limit.expired():
            raise
        raise CannotConnectError(f"could not log in at {address}: no token within {timeout_ms} ms") from None


async def _returned(address: Address, source: Any) -> Any:
    """What a function returns, whether or not it has to be awaited."""
    try:
        returned = source() if iscoroutinefunction(source) else await asyncio.to_thread(source)
        return await returned if isawaitable(returned) else returned
    except Exception as error:
        raise _raised(address, error) from error


def fresh_token_now(address: Address, security: Security) -> str:
    """The same for a connection without an event loop."""
    source: Any = security.token
    if isinstance(source, str):
        return source
    if isinstance(source, TokenEndpoint):
        return _of_endpoint(address, source)
    try:
        token: Any = source()
        if isawaitable(token):
            token = asyncio.run(_awaited(token))
    except Exception as error:
        raise _raised(address, error) from error
    return _checked(address, token)


async def _awaited(token: Any) -> Any:
    return await token


def _checked(address: Address, token: Any) -> str:
    if not isinstance(token, str):
        raise _unusable(address, f"the function returned {type(token).__name__} instead of text")
    return token


def _of_endpoint(address: Address, endpoint: TokenEndpoint) -> str:
    # Imported here: HTTP takes longer to import than all of a connection.
    from ottla.runtime.http_fetch import HttpStatusError, shown_url

    name, now_ms = shown_url(endpoint.url), OsClock().wall_ms()
    kept = endpoint.kept.at(now_ms)
    if kept is not None:
        return kept
    try:
        return _of_file(endpoint.url) if endpoint.is_file else _asked(endpoint, now_ms)
    except HttpStatusError as error:
        if error.status < 500:
            raise _unusable(address, f"{name} refused it{_reason(error.body)}: {error}") from None
        raise CannotConnectError(f"could not log in at {address}: no token from {name}: {error}") from None
    except OSError as error:
        why = error.strerror or str(error)
        raise CannotConnectError(f"could not log in at {address}: no token from {name}: {why}") from None
    except ValueError as error:
        raise _unusable(address, f"{name}: {error}") from None


def _of_file(url: str) -> str:
    from ottla.runtime.http_fetch import content_of

    try:
        return content_of(url, most_bytes=_MOST_BYTES, timeout_s=_TIMEOUT_S).decode().strip()
    except UnicodeDecodeError:
        raise ValueError("its text is not UTF-8") from None


def _asked(endpoint: TokenEndpoint, now_ms: int) -> str:
    """Ask by the client-credentials grant; id and secret are encoded as RFC 6749 section 2.3.1 says."""
    from ottla.runtime.http_fetch import fetched

    form = {"grant_type": "client_credentials", **({"scope": endpoint.scope} if endpoint.scope else {})}
    who = f"{quote_plus(str(endpoint.client_id))}:{quote_plus(str(endpoint.client_secret))}"
    headers = {
        "Authorization": f"Basic {b64encode(who.encode()).decode()}",
        "Accept": "application/json",
        "Content-Type": "application/x-www-form-urlencoded",
    }
    body = urlencode(form).encode()
    answer = fetched(endpoint.url, body=body, headers=headers, most_bytes=_MOST_BYTES, timeout_s=_TIMEOUT_S)
    try:
        said = json_object(answer)
    except ValueError:
        raise ValueError("its answer is not JSON") from None
    token, lifetime_s = said.get("access_token"), said.get("expires_in")
    if not isinstance(token, str) or not token:
        raise ValueError("its answer has no access_token")
    if isinstance(lifetime_s, int | float) and 0 < lifetime_s < 10**9:
        endpoint.kept.keep(token, now_ms, lifetime_s)
    return token


def _reason(body: bytes) -> str:
    try:
        name = str(json_object(body).get("error"))
    except ValueError:
        return ""
    return f" ({name})" if _ERROR_NAME.fullmatch(name) and name != "None" else ""


def _raised(address: Address, error: Exception) -> KafkaError:
    # What the function's exception says is the function's own: it may be about a secret.
    return _unusable(address, f"the function raised {type(error).__name__}")


def _unusable(address: Address, why: str) -> KafkaError:
    return KafkaError(
        ErrorCode.SASL_AUTHENTICATION_FAILED, f"There is no token for the login at {address}: {why}."
    )
