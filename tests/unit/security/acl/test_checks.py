"""The table of checks names every API that a broker serves."""

from ottla.protocol.apis import DECLARED_APIS, ApiKey
from ottla.security.acl.checks import CHECKS, UNCHECKED
from ottla.security.acl.rules import OPERATIONS


def test_every_served_api_is_checked_or_named_as_unchecked() -> None:
    served = {ApiKey(key) for key in DECLARED_APIS}
    assert served <= CHECKS.keys() | UNCHECKED
    assert not CHECKS.keys() & UNCHECKED


def test_a_check_asks_for_operations_that_its_resource_knows() -> None:
    for checks in CHECKS.values():
        for right in (right for check in checks for right in check.rights):
            # Kafka asks for DELETE on the cluster, which no ACL for the cluster alone can name, but ALL has it.
            is_known = right.operation in OPERATIONS[right.resource_type]
            assert is_known or right.operation.name == "DELETE"


def test_every_check_of_an_api_says_which_requests_it_is_about_where_there_are_alternatives() -> None:
    for api, checks in CHECKS.items():
        assert len({(check.applies, check.rights) for check in checks}) == len(checks), api
