from importlib import import_module
from pkgutil import iter_modules

import pytest

from ottla.protocol.apis import DECLARED_APIS, ApiKey
from ottla.server import apis
from ottla.server.apis.table import registered
from ottla.server.gate.handlers import ApiFamily


def families() -> dict[str, ApiFamily]:
    """Every module of the room that registers handlers."""
    modules = {
        found.name: import_module(f"{apis.__name__}.{found.name}") for found in iter_modules(apis.__path__)
    }
    return {name: module.api for name, module in modules.items() if hasattr(module, "api")}


@pytest.mark.parametrize("key", list(DECLARED_APIS), ids=lambda key: ApiKey(key).name)
def test_everything_that_is_declared_is_answered(key: int) -> None:
    found = registered(key)
    assert found is not None
    assert callable(found.handler)


def test_a_handler_answers_requests_of_the_api_that_it_was_registered_for() -> None:
    serving = {key: family for family in families().values() for key in family.registered}
    assert {key: registered(key) for key in serving} == {
        key: family.registered[key] for key, family in serving.items()
    }
    assert sum(len(family.registered) for family in families().values()) == len(DECLARED_APIS)


def test_produce_alone_is_gathered() -> None:
    gathered = [
        key for key in DECLARED_APIS if (found := registered(key)) and found.make_gatherer is not None
    ]
    assert gathered == [ApiKey.PRODUCE]


@pytest.mark.parametrize("key", [-1, 4, 76, 1000])
def test_an_api_that_is_not_served_has_no_handler(key: int) -> None:
    assert registered(key) is None
