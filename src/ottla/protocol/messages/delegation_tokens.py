"""CreateDelegationToken (key 38) and DescribeDelegationToken (key 41), versions 1 to 3; RenewDelegationToken (key 39)
and ExpireDelegationToken (key 40), versions 1 to 2 (KIP-48, KIP-373).

The HMAC of a token is as good as a password, so the text of a message hides it.
"""

from __future__ import annotations

from dataclasses import field
from typing import Annotated

from ottla.protocol.codec import Bytes, Int16, Int32, Int64, String, message, since, struct


@struct
class CreatableRenewers:
    principal_type: String = ""
    principal_name: String = ""


@message(key=38, versions=(1, 3), flexible=2)
class CreateDelegationTokenRequest:
    owner_principal_type: Annotated[String | None, since(3)] = ""
    owner_principal_name: Annotated[String | None, since(3)] = ""
    renewers: list[CreatableRenewers] = field(default_factory=list)
    max_lifetime_ms: Int64 = 0


@message(key=38, versions=(1, 3), flexible=2)
class CreateDelegationTokenResponse:
    error_code: Int16 = 0
    principal_type: String = ""
    principal_name: String = ""
    token_requester_principal_type: Annotated[String, since(3)] = ""
    token_requester_principal_name: Annotated[String, since(3)] = ""
    issue_timestamp_ms: Int64 = 0
    expiry_timestamp_ms: Int64 = 0
    max_timestamp_ms: Int64 = 0
    token_id: String = ""
    hmac: Bytes = b""
    throttle_time_ms: Int32 = 0

    def __repr__(self) -> str:
        owner = f"{self.principal_type}:{self.principal_name}"
        return f"CreateDelegationTokenResponse(error_code={self.error_code}, {self.token_id!r} of {owner!r})"


@message(key=39, versions=(1, 2), flexible=2)
class RenewDelegationTokenRequest:
    hmac: Bytes = b""
    renew_period_ms: Int64 = 0

    def __repr__(self) -> str:
        return f"RenewDelegationTokenRequest(renew_period_ms={self.renew_period_ms})"


@message(key=39, versions=(1, 2), flexible=2)
class RenewDelegationTokenResponse:
    error_code: Int16 = 0
    expiry_timestamp_ms: Int64 = 0
    throttle_time_ms: Int32 = 0


@message(key=40, versions=(1, 2), flexible=2)
class ExpireDelegationTokenRequest:
    hmac: Bytes = b""
    expiry_time_period_ms: Int64 = 0

    def __repr__(self) -> str:
        return f"ExpireDelegationTokenRequest(expiry_time_period_ms={self.expiry_time_period_ms})"


@message(key=40, versions=(1, 2), flexible=2)
class ExpireDelegationTokenResponse:
    error_code: Int16 = 0
    expiry_timestamp_ms: Int64 = 0
    throttle_time_ms: Int32 = 0


@struct
class DescribeDelegationTokenOwner:
    principal_type: String = ""
    principal_name: String = ""


@message(key=41, versions=(1, 3), flexible=2)
class DescribeDelegationTokenRequest:
    owners: list[DescribeDelegationTokenOwner] | None = field(default_factory=list)


@struct
class DescribedDelegationTokenRenewer:
    principal_type: String = ""
    principal_name: String = ""


@struct
class DescribedDelegationToken:
    principal_type: String = ""
    principal_name: String = ""
    token_requester_principal_type: Annotated[String, since(3)] = ""
    token_requester_principal_name: Annotated[String, since(3)] = ""
    issue_timestamp: Int64 = 0
    expiry_timestamp: Int64 = 0
    max_timestamp: Int64 = 0
    token_id: String = ""
    hmac: Bytes = b""
    renewers: list[DescribedDelegationTokenRenewer] = field(default_factory=list)

    def __repr__(self) -> str:
        owner = f"{self.principal_type}:{self.principal_name}"
        return f"DescribedDelegationToken({self.token_id!r} of {owner!r})"


@message(key=41, versions=(1, 3), flexible=2)
class DescribeDelegationTokenResponse:
    error_code: Int16 = 0
    tokens: list[DescribedDelegationToken] = field(default_factory=list)
    throttle_time_ms: Int32 = 0
