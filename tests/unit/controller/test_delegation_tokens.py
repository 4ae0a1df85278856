"""Delegation tokens: who gets one, how long it lives, and who may prolong and end it (OPS-5, CTL-4)."""

from __future__ import annotations

import hmac
from itertools import count
from typing import Any
from uuid import UUID

import pytest

from ottla.config import BrokerConfig
from ottla.controller.commands import ExpireTokens, OnBehalfOf
from ottla.controller.controller import Controller
from ottla.controller.delegation_tokens import describe_tokens
from ottla.controller.records import decode_record, encode_record
from ottla.controller.snapshot import snapshot_records
from ottla.errors import ErrorCode
from ottla.protocol.messages.delegation_tokens import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
    ExpireDelegationTokenRequest,
    RenewDelegationTokenRequest,
)
from ottla.security.principal import Principal

ALICE, BOB, CAROL, EVE = (Principal("User", name) for name in ("alice", "bob", "carol", "eve"))
SECRET, NOW_MS, DAY_MS = "The-Secret", 1_000_000, 86_400_000


class Tokens:
    """A controller, whose decisions are replayed from their bytes."""

    def __init__(self, **settings: str) -> None:
        given = {"delegation.token.secret.key": SECRET, **settings}
        config = BrokerConfig().overridden({name.replace("_", "."): text for name, text in given.items()})
        numbers = count(1)
        self.controller = Controller(1, "cluster", config, lambda: UUID(int=next(numbers)))
        self.offset = 0

    def ask(self, request: Any, who: Principal = ALICE, now_ms: int = NOW_MS) -> Any:
        return self._carry_out(OnBehalfOf(request, who), now_ms)

    def create(self, who: Principal = ALICE, now_ms: int = NOW_MS, **request: Any) -> Any:
        return self.ask(CreateDelegationTokenRequest(max_lifetime_ms=-1, **request), who, now_ms)

    def sweep(self, now_ms: int) -> list[str]:
        self._carry_out(ExpireTokens(), now_ms)
        return list(self.controller.image.delegation_tokens)

    def _carry_out(self, command: Any, now_ms: int) -> Any:
        decision = self.controller.command(command, now_ms)
        for record in decision.records:
            self.offset += 1
            self.controller.replay(decode_record(encode_record(record)), self.offset)
        return decision.response


def test_a_token_is_its_requesters_own_for_a_day_and_a_week_at_most() -> None:
    tokens = Tokens()
    made = tokens.create()
    assert (made.error_code, made.principal_type, made.principal_name) == (0, "User", "alice")
    assert (made.token_requester_principal_type, made.token_requester_principal_name) == ("User", "alice")
    assert made.issue_timestamp_ms == NOW_MS
    assert made.expiry_timestamp_ms == NOW_MS + DAY_MS
    assert made.max_timestamp_ms == NOW_MS + 7 * DAY_MS
    assert made.token_id == "AAAAAAAAAAAAAAAAAAAAAQ"
    # As Kafka makes it: any node with the secret can.
    assert made.hmac == hmac.digest(SECRET.encode(), made.token_id.encode(), "sha512")
    assert made.hmac.hex() not in repr(made)


@pytest.mark.parametrize(
    ("wanted_ms", "max_ms", "expires_ms"),
    [
        (1000, 1000, 1000),
        (2 * DAY_MS, 2 * DAY_MS, DAY_MS),
        (90 * DAY_MS, 7 * DAY_MS, DAY_MS),
        (0, 7 * DAY_MS, DAY_MS),
    ],
)
def test_a_token_can_be_asked_to_live_shorter(wanted_ms: int, max_ms: int, expires_ms: int) -> None:
    made = Tokens().ask(CreateDelegationTokenRequest(max_lifetime_ms=wanted_ms))
    assert (made.max_timestamp_ms - NOW_MS, made.expiry_timestamp_ms - NOW_MS) == (max_ms, expires_ms)


def test_a_token_can_be_made_for_another_owner_with_renewers() -> None:
    tokens = Tokens()
    made = tokens.create(
        owner_principal_type="User", owner_principal_name="bob", renewers=[CreatableRenewers("User", "carol")]
    )
    assert (made.principal_name, made.token_requester_principal_name) == ("bob", "alice")
    (kept,) = tokens.controller.image.delegation_tokens.values()
    assert (kept.owner, kept.requester, kept.renewers) == (BOB, ALICE, (CAROL,))


@pytest.mark.parametrize(
    "request_of",
    [
        {"renewers": [CreatableRenewers("Group", "staff")]},
        {"owner_principal_type": "Group", "owner_principal_name": "staff"},
    ],
)
def test_only_users_have_tokens_and_renew_them(request_of: dict[str, Any]) -> None:
    tokens = Tokens()
    assert tokens.create(**request_of).error_code == ErrorCode.INVALID_PRINCIPAL_TYPE
    assert not tokens.controller.image.delegation_tokens


def test_without_a_secret_there_are_no_tokens() -> None:
    controller = Controller(1, "cluster", BrokerConfig(), lambda: UUID(int=1))
    for request in (
        CreateDelegationTokenRequest(),
        RenewDelegationTokenRequest(),
        ExpireDelegationTokenRequest(),
    ):
        decision = controller.command(OnBehalfOf(request, ALICE), NOW_MS)
        assert (decision.response.error_code, decision.records) == (
            ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED,
            [],
        )


@pytest.mark.parametrize("who", [ALICE, BOB, CAROL])
@pytest.mark.parametrize(
    ("period_ms", "expires_ms"), [(-1, DAY_MS + 500), (1000, 1500), (99 * DAY_MS, DAY_MS + 500)]
)
def test_a_token_is_renewed_by_whom_it_belongs_to(who: Principal, period_ms: int, expires_ms: int) -> None:
    tokens = Tokens()
    made = tokens.create(owner_principal_name="bob", renewers=[CreatableRenewers("User", "carol")])
    answer = tokens.ask(RenewDelegationTokenRequest(made.hmac, period_ms), who, NOW_MS + 500)
    assert (answer.error_code, answer.expiry_timestamp_ms) == (0, NOW_MS + expires_ms)
    (kept,) = tokens.controller.image.delegation_tokens.values()
    assert kept.expires_ms == NOW_MS + expires_ms


def test_a_token_is_not_renewed_beyond_its_longest_life() -> None:
    tokens = Tokens(delegation_token_max_lifetime_ms="5000")
    made = tokens.create()
    answer = tokens.ask(RenewDelegationTokenRequest(made.hmac, 100_000), ALICE, NOW_MS + 4000)
    assert answer.expiry_timestamp_ms == NOW_MS + 5000
    late = tokens.ask(RenewDelegationTokenRequest(made.hmac, -1), ALICE, NOW_MS + 5001)
    assert (late.error_code, late.expiry_timestamp_ms) == (ErrorCode.DELEGATION_TOKEN_EXPIRED, -1)


@pytest.mark.parametrize("change", [RenewDelegationTokenRequest, ExpireDelegationTokenRequest])
def test_a_token_is_not_changed_by_strangers_nor_without_its_hmac(change: Any) -> None:
    tokens = Tokens()
    made = tokens.create()
    before = tokens.controller.image
    assert tokens.ask(change(made.hmac, -1), EVE).error_code == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    for wrong in (b"", made.hmac[:-1], made.token_id.encode()):
        assert tokens.ask(change(wrong, -1)).error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND
    assert tokens.controller.image == before


def test_a_token_is_ended_at_once_or_later() -> None:
    tokens = Tokens()
    first, second = tokens.create(), tokens.create()
    later = tokens.ask(ExpireDelegationTokenRequest(first.hmac, 1000))
    assert (later.error_code, later.expiry_timestamp_ms) == (0, NOW_MS + 1000)
    now = tokens.ask(ExpireDelegationTokenRequest(second.hmac, -1))
    assert (now.error_code, now.expiry_timestamp_ms) == (0, NOW_MS)
    assert list(tokens.controller.image.delegation_tokens) == [first.token_id]
    late = tokens.ask(ExpireDelegationTokenRequest(first.hmac, 5), ALICE, NOW_MS + 2000)
    assert late.error_code == ErrorCode.DELEGATION_TOKEN_EXPIRED


def test_tokens_that_have_expired_are_removed() -> None:
    tokens = Tokens()
    short = tokens.ask(CreateDelegationTokenRequest(max_lifetime_ms=1000))
    long = tokens.create()
    assert tokens.sweep(NOW_MS + 1000) == [short.token_id, long.token_id]
    assert tokens.sweep(NOW_MS + 1001) == [long.token_id]
    assert tokens.sweep(NOW_MS + DAY_MS + 1) == []


def test_a_snapshot_holds_the_tokens() -> None:
    tokens = Tokens()
    tokens.create(renewers=[CreatableRenewers("User", "carol")])
    tokens.create(BOB)
    image = tokens.controller.image
    other = Tokens().controller
    records = [decode_record(encode_record(record)) for record in snapshot_records(image)]
    other.load_snapshot(records, image.last_offset, image.last_epoch)
    assert other.image.delegation_tokens == image.delegation_tokens
    assert len(image.delegation_tokens) == 2


@pytest.mark.parametrize(
    ("owners", "found"),
    [(None, 2), ([], 0), ([ALICE], 1), ([CAROL], 1), ([BOB], 1), ([ALICE, BOB], 2), ([EVE], 0)],
)
def test_tokens_are_described_by_whom_they_belong_to(owners: list[Principal] | None, found: int) -> None:
    tokens = Tokens()
    tokens.create(renewers=[CreatableRenewers("User", "carol")])
    tokens.create(BOB)
    wanted = None if owners is None else [DescribeDelegationTokenOwner(*each) for each in owners]
    answer = describe_tokens(tokens.controller.image, DescribeDelegationTokenRequest(wanted), SECRET)
    assert len(answer.tokens) == found
