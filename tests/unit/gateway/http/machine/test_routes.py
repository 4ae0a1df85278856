"""The table of routes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.gateway.http.machine.http_error import HttpError
from ottla.gateway.http.machine.message import Answer, Request
from ottla.gateway.http.machine.routes import Route, RouteTable


async def nothing(request: Request) -> Answer:
    return Answer()


def route(method: str, path: str) -> Route:
    return Route(method, path, nothing, "", "")


TABLE = RouteTable(
    [
        route("GET", "/"),
        route("GET", "/topics"),
        route("GET", "/topics/{topic}"),
        route("POST", "/topics/{topic}"),
        route("GET", "/topics/{topic}/partitions/{partition}"),
        route("GET", "/topics/{topic}/configs:alter"),
    ]
)


@pytest.mark.parametrize(
    ("path", "found", "params"),
    [
        ("/", "/", {}),
        ("/topics", "/topics", {}),
        ("/topics/orders", "/topics/{topic}", {"topic": "orders"}),
        ("/topics/a%2Fb", "/topics/{topic}", {"topic": "a/b"}),
        ("/topics/%C3%A9", "/topics/{topic}", {"topic": "é"}),
        (
            "/topics/t/partitions/0",
            "/topics/{topic}/partitions/{partition}",
            {"topic": "t", "partition": "0"},
        ),
        ("/topics/t/configs:alter", "/topics/{topic}/configs:alter", {"topic": "t"}),
    ],
)
def test_a_path_finds_its_route(path: str, found: str, params: dict[str, str]) -> None:
    assert (TABLE.find("GET", path)[0].path, TABLE.find("GET", path)[1]) == (found, params)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nowhere", 404),
        ("GET", "/topics/", 404),
        ("GET", "//topics", 404),
        ("GET", "/topics//partitions/0", 404),
        ("GET", "/topics/t/partitions", 404),
        ("GET", "/topics/%ff", 400),
        ("DELETE", "/topics", 405),
    ],
)
def test_a_path_without_a_route_is_refused(method: str, path: str, status: int) -> None:
    with pytest.raises(HttpError) as refused:
        TABLE.find(method, path)
    assert refused.value.status == status


@given(st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E)))
def test_any_path_is_found_or_refused(path: str) -> None:
    try:
        found, params = TABLE.find("GET", f"/{path}")
    except HttpError as refused:
        status = refused.status
    else:
        status = 200
        assert tuple(params) == found.param_names
    assert status in (200, 400, 404, 405)
