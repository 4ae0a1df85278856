"""Logins: SaslHandshake 0 to 1 (KIP-43), SaslAuthenticate 0 to 2 (KIP-152, KIP-368).

On a listener with SASL they are the first requests of a connection, and may come again later. On any other
listener they are refused, as in Kafka.
"""

from typing import Any, Final

from ottla.errors import ErrorCode
from ottla.protocol.frame import response_frame
from ottla.protocol.messages.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from ottla.security.sasl.exchange import AuthenticationError
from ottla.server.answers.send_queue import Part
from ottla.server.gate.handlers import ApiFamily, RequestContext

api = ApiFamily()

_NO_LOGIN_HERE: Final = "This listener has no logins."
_NO_HANDSHAKE: Final = "SaslAuthenticate comes after SaslHandshake, and not after a login has succeeded."
# Kafka's sentence, but for the mechanism. The same for every reason.
_FAILED: Final = "Authentication failed due to invalid credentials."


@api.handles(SaslHandshakeRequest)
async def handshake(context: RequestContext, request: SaslHandshakeRequest) -> SaslHandshakeResponse:
    """Begin a login by the mechanism that the client wants; refused with those that it may want."""
    login = context.session.login
    if login is None:
        return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
    error = login.choose(request.mechanism, raw=context.version == 0)
    response = SaslHandshakeResponse(error, list(login.config.enabled_mechanisms))
    if error is not ErrorCode.NONE:
        await login.refuse(_reason(error, request), [_frame(context, response)])
    return response


@api.handles(SaslAuthenticateRequest)
async def authenticate(context: RequestContext, request: SaslAuthenticateRequest) -> SaslAuthenticateResponse:
    """Take the client's next token."""
    session = context.session
    if session.login is None or (session.login.is_done and not session.login.expects_token):
        message = _NO_LOGIN_HERE if session.login is None else _NO_HANDSHAKE
        return SaslAuthenticateResponse(ErrorCode.ILLEGAL_SASL_STATE, message)
    if not session.login.expects_token:
        refused = SaslAuthenticateResponse(ErrorCode.ILLEGAL_SASL_STATE, _NO_HANDSHAKE)
        await session.login.refuse("a token without a handshake before it", [_frame(context, refused)])
    try:
        reply = await session.authenticate(bytes(request.auth_bytes))
    except AuthenticationError as error:
        refused = SaslAuthenticateResponse(ErrorCode.SASL_AUTHENTICATION_FAILED, _FAILED)
        await session.login.refuse(str(error), [_frame(context, refused)])
    return SaslAuthenticateResponse(
        error_message=None, auth_bytes=reply.token, session_lifetime_ms=reply.lifetime_ms
    )


def _reason(error: ErrorCode, request: SaslHandshakeRequest) -> str:
    if error is ErrorCode.UNSUPPORTED_SASL_MECHANISM:
        return f"the mechanism {request.mechanism!r} is not in sasl.enabled.mechanisms"
    return "a second handshake in the middle of an exchange"


def _frame(context: RequestContext, response: Any) -> Part:
    header = context.header
    return response_frame(header.correlation_id, header.api_key, header.api_version, response)
