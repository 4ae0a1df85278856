"""Users with a password (SCRAM) as an administrator reads and changes them: Describe- and AlterUserScramCredentials 0.

The password itself never leaves the client: it is salted here, and the broker keeps keys that prove it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, TypeAlias

from ottla.client.calls import arguments
from ottla.client.requests.outcomes import error_of, outcome
from ottla.errors import ErrorCode, KafkaError
from ottla.protocol.messages.user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
    UserName,
)
from ottla.security.sasl.scram import (
    LEAST_ITERATIONS,
    MOST_ITERATIONS,
    SCRAM_MECHANISMS,
    ScramMechanism,
    salted_password,
)

DEFAULT_MECHANISM: Final = "SCRAM-SHA-512"
_FORM: Final = 'ScramPassword("alice", "secret") or ScramRemoval("alice")'


@dataclass(frozen=True, slots=True, repr=False)
class ScramPassword:
    """A password for a user, new or not, to log in with by one mechanism. Its text does not show the password."""

    name: str
    password: str
    mechanism: str = DEFAULT_MECHANISM
    iterations: int = LEAST_ITERATIONS

    def __repr__(self) -> str:
        return f"ScramPassword({self.name!r}, ..., {self.mechanism!r}, {self.iterations})"


@dataclass(frozen=True, slots=True)
class ScramRemoval:
    """A password that a user does not log in with any more, by one mechanism."""

    name: str
    mechanism: str = DEFAULT_MECHANISM


UserChange: TypeAlias = ScramPassword | ScramRemoval


def user_changes(name: str, changes: object) -> list[UserChange]:
    """Changes of users that can be written to the wire. Raises TypeError and ValueError."""
    given: list[UserChange] = arguments.items(name, changes, (ScramPassword, ScramRemoval), _FORM)
    for change in given:
        arguments.name_of(f"the name of each of {name}", change.name)
        arguments.one_of(f"the mechanism of {change.name} in {name}", change.mechanism, SCRAM_MECHANISMS)
        if isinstance(change, ScramPassword):
            _check_password(f"the password of {change.name} in {name}", change.password)
            bounds = LEAST_ITERATIONS, MOST_ITERATIONS
            arguments.whole_number(f"the iterations of {change.name} in {name}", change.iterations, *bounds)
    return given


def _check_password(name: str, password: object) -> None:
    """Raises TypeError and ValueError, which do not show the password."""
    if not isinstance(password, str):
        raise TypeError(f"{name} must be text, not a {type(password).__name__}")
    if not password or any("\ud800" <= each <= "\udfff" for each in password):
        raise ValueError(f"{name} must have characters, and only such that UTF-8 can carry")


def describe_users_request(names: Iterable[str] | None) -> DescribeUserScramCredentialsRequest:
    return DescribeUserScramCredentialsRequest(None if names is None else [UserName(name) for name in names])


def described_users(
    response: DescribeUserScramCredentialsResponse,
) -> dict[str, dict[str, int] | KafkaError] | KafkaError:
    if response.error_code != ErrorCode.NONE:
        return error_of(response.error_code, response.error_message)
    return {
        each.user: outcome(each.error_code, dict(map(_mechanism, each.credential_infos)), each.error_message)
        for each in response.results
    }


def _mechanism(info: CredentialInfo) -> tuple[str, int]:
    known = info.mechanism in tuple(ScramMechanism)
    name = ScramMechanism(info.mechanism).sasl_name if known else f"mechanism {info.mechanism}"
    return name, info.iterations


def alter_users_request(
    changes: Iterable[UserChange], new_salt: Callable[[], bytes]
) -> AlterUserScramCredentialsRequest:
    """The request with salted passwords: some milliseconds of work for each."""
    request = AlterUserScramCredentialsRequest()
    for change in changes:
        mechanism = SCRAM_MECHANISMS[change.mechanism]
        if isinstance(change, ScramRemoval):
            request.deletions.append(ScramCredentialDeletion(change.name, mechanism))
            continue
        salt = new_salt()
        salted = salted_password(mechanism, change.password, salt, change.iterations)
        request.upsertions.append(
            ScramCredentialUpsertion(change.name, mechanism, change.iterations, salt, salted)
        )
    return request


def altered_users(response: AlterUserScramCredentialsResponse) -> dict[str, KafkaError | None]:
    return {each.user: outcome(each.error_code, None, each.error_message) for each in response.results}
