"""Delegation tokens."""

from __future__ import annotations

from dataclasses import replace

from ottla.client.cluster.machine.retries import Inquiry
from ottla.client.cluster.machine.single_brokers import one_answer
from ottla.client.requests import delegation_tokens as tokens
from ottla.client.requests.delegation_tokens import DelegationToken


def create(owner: object, renewers: object, max_lifetime_ms: object) -> Inquiry[str, None, DelegationToken]:
    """Not repeatable: a second request would make a second token."""
    request, renewing = tokens.new_token(owner, renewers, max_lifetime_ms)
    inquiry = one_answer(lambda _: request, lambda response: tokens.created_token(response, renewing))
    return replace(inquiry, is_repeatable=False)


def renew(token: object, period_ms: object) -> Inquiry[str, None, int]:
    request = tokens.renew_token_request(token, period_ms)
    return one_answer(lambda _: request, tokens.changed_token)


def expire(token: object, after_ms: object) -> Inquiry[str, None, int]:
    """Not repeatable: a token that has ended is not found again."""
    request = tokens.expire_token_request(token, after_ms)
    return replace(one_answer(lambda _: request, tokens.changed_token), is_repeatable=False)


def describe(owners: object) -> Inquiry[str, None, list[DelegationToken]]:
    request = tokens.describe_tokens_request(owners)
    return one_answer(lambda _: request, tokens.described_tokens)
