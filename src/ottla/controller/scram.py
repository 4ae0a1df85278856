"""SCRAM credentials of users: AlterUserScramCredentials and DescribeUserScramCredentials, version 0 (KIP-554).

A request's changes of one user are made together or not at all, and users are independent of each other. The
controller keeps keys that prove a password, never the password nor what the client made of it.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final, TypeAlias

from ottla.controller.decision import Decision
from ottla.controller.image import ClusterImage
from ottla.controller.records import RemoveUserScramCredentialRecord, UserScramCredentialRecord
from ottla.errors import ErrorCode, KafkaError
from ottla.protocol.messages.user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from ottla.security.sasl.credentials import ScramUsers
from ottla.security.sasl.scram import (
    LEAST_ITERATIONS,
    MOST_ITERATIONS,
    ScramCredential,
    ScramMechanism,
    credential_of,
)

_MECHANISMS: Final = frozenset(ScramMechanism)

Change: TypeAlias = ScramCredentialDeletion | ScramCredentialUpsertion


def alter_user_scram_credentials(image: ClusterImage, request: AlterUserScramCredentialsRequest) -> Decision:
    """Give users credentials, and take them away."""
    changes: list[Change] = [*request.deletions, *request.upsertions]
    count_of = Counter((change.name, change.mechanism) for change in changes)
    errors: dict[str, KafkaError] = {}
    for change in changes:
        try:
            _check(image, change, count_of[change.name, change.mechanism])
        except KafkaError as error:
            errors.setdefault(change.name, error)
    records = [_record(change) for change in changes if change.name not in errors]
    users = dict.fromkeys(change.name for change in changes)
    results = [_result(user, errors.get(user)) for user in users]
    return Decision(records, AlterUserScramCredentialsResponse(results=results))


def _check(image: ClusterImage, change: Change, count: int) -> None:
    if not change.name:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "A user must have a name.")
    if change.mechanism not in _MECHANISMS:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_SASL_MECHANISM,
            f"{change.mechanism} is no SCRAM mechanism: 1 is SCRAM-SHA-256, 2 is SCRAM-SHA-512.",
        )
    if count > 1:
        raise KafkaError(
            ErrorCode.DUPLICATE_RESOURCE, "The request changes one credential of the user more than once."
        )
    if isinstance(change, ScramCredentialUpsertion):
        _check_strength(change)
    elif change.mechanism not in image.scram_users.get(change.name, ()):
        raise KafkaError(ErrorCode.RESOURCE_NOT_FOUND, "The user has no such credential.")


def _check_strength(change: ScramCredentialUpsertion) -> None:
    if not LEAST_ITERATIONS <= change.iterations <= MOST_ITERATIONS:
        raise KafkaError(
            ErrorCode.UNACCEPTABLE_CREDENTIAL,
            f"{change.iterations} iterations are not allowed, only {LEAST_ITERATIONS} to {MOST_ITERATIONS}.",
        )
    if len(change.salted_password) != ScramMechanism(change.mechanism).hash_bytes or not change.salt:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "The salted password or the salt is unusable.")


def _record(change: Change) -> UserScramCredentialRecord | RemoveUserScramCredentialRecord:
    if isinstance(change, ScramCredentialDeletion):
        return RemoveUserScramCredentialRecord(change.name, change.mechanism)
    mechanism = ScramMechanism(change.mechanism)
    made = credential_of(mechanism, bytes(change.salted_password), bytes(change.salt), change.iterations)
    return credential_record(change.name, mechanism, made)


def _result(user: str, error: KafkaError | None) -> AlterUserScramCredentialsResult:
    if error is None:
        return AlterUserScramCredentialsResult(user, error_message=None)
    return AlterUserScramCredentialsResult(user, error.code, error.message)


def credential_record(name: str, mechanism: int, credential: ScramCredential) -> UserScramCredentialRecord:
    """The record that gives a user a credential."""
    return UserScramCredentialRecord(
        name,
        mechanism,
        credential.salt,
        credential.stored_key,
        credential.server_key,
        credential.iterations,
    )


class ScramDelta:
    """The users' credentials, and what records have changed since; the users are copied with the first change."""

    __slots__ = ("_changed", "_users")

    def __init__(self, users: ScramUsers) -> None:
        self._users = users
        self._changed: dict[str, Mapping[int, ScramCredential]] | None = None

    @property
    def users(self) -> ScramUsers:
        """The users now; the same object as before if nothing changed."""
        return self._users if self._changed is None else self._changed

    def give(self, record: UserScramCredentialRecord) -> None:
        """Replay a record that gives a user a credential."""
        credential = ScramCredential(
            bytes(record.salt), bytes(record.stored_key), bytes(record.server_key), record.iterations
        )
        users = self._copy()
        users[record.name] = {**users.get(record.name, {}), record.mechanism: credential}

    def take(self, record: RemoveUserScramCredentialRecord) -> None:
        """Replay a record that takes a credential away; a user without one does not exist."""
        users = self._copy()
        left = {key: each for key, each in users.pop(record.name, {}).items() if key != record.mechanism}
        if left:
            users[record.name] = left

    def _copy(self) -> dict[str, Mapping[int, ScramCredential]]:
        if self._changed is None:
            self._changed = dict(self._users)
        return self._changed


def credential_records(users: ScramUsers) -> Iterator[UserScramCredentialRecord]:
    """All credentials, for a snapshot."""
    for name, credentials in sorted(users.items()):
        for mechanism, credential in sorted(credentials.items()):
            yield credential_record(name, mechanism, credential)


def describe_user_scram_credentials(
    image: ClusterImage, request: DescribeUserScramCredentialsRequest
) -> DescribeUserScramCredentialsResponse:
    """Which mechanisms users have credentials for, and how strong those are. No names: all users."""
    named = [user.name for user in request.users or ()]
    count_of = Counter(named)
    wanted = dict.fromkeys(named) if named else sorted(image.scram_users)
    results = [_described(image, name, count_of[name]) for name in wanted]
    return DescribeUserScramCredentialsResponse(error_message=None, results=results)


def _described(image: ClusterImage, name: str, count: int) -> DescribeUserScramCredentialsResult:
    if count > 1:
        return DescribeUserScramCredentialsResult(
            name, ErrorCode.DUPLICATE_RESOURCE, "The request names the user more than once."
        )
    credentials = image.scram_users.get(name)
    if credentials is None:
        return DescribeUserScramCredentialsResult(
            name, ErrorCode.RESOURCE_NOT_FOUND, "The user has no SCRAM credentials."
        )
    infos = [CredentialInfo(mechanism, each.iterations) for mechanism, each in sorted(credentials.items())]
    return DescribeUserScramCredentialsResult(name, error_message=None, credential_infos=infos)
