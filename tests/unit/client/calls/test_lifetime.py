from __future__ import annotations

import asyncio

import pytest

from ottla.client.calls.lifetime import Lifetime


async def opened() -> Lifetime:
    lifetime = Lifetime("thing")
    lifetime.begin()
    return lifetime


def test_a_client_is_used_between_opening_and_closing() -> None:
    async def body() -> None:
        lifetime = Lifetime("thing")
        with pytest.raises(RuntimeError, match="the thing is not open: use it in `async with`"):
            lifetime.needs_open()
        lifetime.begin()
        lifetime.needs_open()
        lifetime.begin_end()
        assert not lifetime.is_open
        lifetime.needs_connections()
        with pytest.raises(RuntimeError, match="the thing is being closed"):
            lifetime.needs_open()
        lifetime.end()
        for check in (lifetime.needs_open, lifetime.needs_connections):
            with pytest.raises(RuntimeError, match="the thing is not open any more"):
                check()
        lifetime.needs_own_loop()  # a closed client may be closed again from anywhere

    asyncio.run(body())


def test_a_client_is_opened_once() -> None:
    async def body() -> None:
        lifetime = await opened()
        with pytest.raises(RuntimeError, match="the thing is open already"):
            lifetime.begin()
        lifetime.end()
        with pytest.raises(RuntimeError, match="cannot be opened again: make another one"):
            lifetime.needs_new()

    asyncio.run(body())


def test_a_client_belongs_to_the_loop_that_opened_it() -> None:
    lifetime = asyncio.run(opened())
    with pytest.raises(RuntimeError, match="belongs to the event loop that opened it"):
        lifetime.needs_open()

    async def elsewhere() -> None:
        lifetime.needs_own_loop()

    with pytest.raises(RuntimeError, match="belongs to the event loop that opened it"):
        asyncio.run(elsewhere())
