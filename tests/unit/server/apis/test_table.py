import pytest

from ottla.protocol.apis import DECLARED_APIS, ApiKey
from ottla.server.apis.table import HANDLERS, handler_of


@pytest.mark.parametrize("key", list(HANDLERS), ids=lambda key: key.name)
def test_every_handler_is_where_the_table_says(key: ApiKey) -> None:
    assert callable(handler_of(key))


def test_everything_that_is_declared_is_answered() -> None:
    assert {*HANDLERS, ApiKey.PRODUCE} == {ApiKey(key) for key in DECLARED_APIS}


@pytest.mark.parametrize("key", [-1, 4, 71, 1000])
def test_what_is_not_served_has_no_handler(key: int) -> None:
    assert handler_of(key) is None
