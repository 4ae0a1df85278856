"""Delegation tokens as records of the metadata log."""

from collections.abc import Iterator

from ottla.controller.records import DelegationTokenRecord
from ottla.security.principal import principal_of
from ottla.security.sasl.delegation_token import DelegationToken, DelegationTokens


def token_record(token: DelegationToken) -> DelegationTokenRecord:
    """The record that says everything about a token."""
    return DelegationTokenRecord(
        owner=str(token.owner),
        requester=str(token.requester),
        renewers=[str(each) for each in token.renewers],
        issue_timestamp=token.issued_ms,
        max_timestamp=token.max_ms,
        expiration_timestamp=token.expires_ms,
        token_id=token.token_id,
    )


def token_of(record: DelegationTokenRecord) -> DelegationToken:
    """The token that a record is about."""
    return DelegationToken(
        token_id=record.token_id,
        owner=principal_of(record.owner),
        requester=principal_of(record.requester),
        renewers=tuple(map(principal_of, record.renewers)),
        issued_ms=record.issue_timestamp,
        max_ms=record.max_timestamp,
        expires_ms=record.expiration_timestamp,
    )


def token_records(tokens: DelegationTokens) -> Iterator[DelegationTokenRecord]:
    """All tokens, for a snapshot."""
    for _, token in sorted(tokens.items()):
        yield token_record(token)
