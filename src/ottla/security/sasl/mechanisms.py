"""The mechanisms by their names in a handshake, and the machines of both sides for each."""

from functools import partial
from typing import Final

from ottla.security.sasl.credentials import Credentials
from ottla.security.sasl.exchange import AuthenticationError, ClientExchange, ServerExchange
from ottla.security.sasl.oauthbearer import OAUTHBEARER, CheckToken, OauthBearerServer
from ottla.security.sasl.plain import PLAIN, PlainClient, PlainServer
from ottla.security.sasl.scram import SCRAM_MECHANISMS
from ottla.security.sasl.scram_client import ScramClient
from ottla.security.sasl.scram_server import ScramServer
from ottla.security.sasl.scram_text import TOKEN_EXTENSION

_FOR_PASSWORDS: Final = (PLAIN, *SCRAM_MECHANISMS)


def password_exchange(
    mechanism: str, user: str, password: str, nonce: str, *, is_token: bool = False
) -> ClientExchange:
    """The client's side of a login with a password, or with the id and the HMAC of a delegation token.

    AuthenticationError if the mechanism takes none.
    """
    if mechanism == PLAIN:
        return PlainClient(user, password)
    if mechanism in SCRAM_MECHANISMS:
        extensions = f",{TOKEN_EXTENSION}=true" if is_token else ""
        return ScramClient(SCRAM_MECHANISMS[mechanism], user, password, nonce, extensions=extensions)
    raise AuthenticationError(f"{mechanism} is no mechanism for a password: use {', '.join(_FOR_PASSWORDS)}")


def server_exchange(
    mechanism: str, credentials: Credentials, check_token: CheckToken, nonce: str
) -> ServerExchange:
    """The server's side of a login by one of the mechanisms that can be enabled."""
    if mechanism == PLAIN:
        return PlainServer(credentials.has_password)
    if mechanism == OAUTHBEARER:
        return OauthBearerServer(check_token)
    scram = SCRAM_MECHANISMS[mechanism]
    find, find_token = partial(credentials.credential, scram), partial(credentials.of_token, scram)
    return ScramServer(scram, find, find_token, nonce)
