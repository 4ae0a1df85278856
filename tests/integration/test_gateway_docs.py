"""docs/gateway.md: every request on the page is sent, and the answer is the one on the page: GTW-1."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from tests.integration.gateway_place import GatewayPlace, gateway_place
from tests.integration.web_socket_caller import Caller, calling

import ottla.testing

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "gateway.md").read_text(encoding="utf-8")
BLOCK = re.compile(
    r"^```(http|json|json-messages|json-answers|json-stream|json-lines)\n(.*?)^```$", re.DOTALL | re.MULTILINE
)
ANYTHING = "..."


def sent(place: GatewayPlace, text: str) -> Any:
    """Send a request as the page writes it; the answer's JSON, or None."""
    head, _, body = text.partition("\n\n")
    first, *lines = head.strip().splitlines()
    method, path = first.split(" ")
    headers = dict(line.split(": ", 1) for line in lines)
    reply = place.call(method, path, body.encode() if body.strip() else None, headers=headers)
    return json.loads(reply.body) if reply.body else None


def fits(shown: Any, answer: Any) -> bool:
    """Whether an answer is the one on the page, where "..." stands for anything."""
    if shown == ANYTHING:
        return True
    if isinstance(shown, dict) and isinstance(answer, dict):
        return shown.keys() == answer.keys() and all(fits(shown[each], answer[each]) for each in shown)
    if isinstance(shown, list) and isinstance(answer, list):
        return len(shown) == len(answer) and all(map(fits, shown, answer))
    return bool(shown == answer)


def test_the_answers_on_the_page_are_those_of_the_gateway() -> None:
    blocks = BLOCK.findall(PAGE)
    assert len(blocks) >= 20
    with ottla.testing.broker() as broker, gateway_place(broker.bootstrap) as place:
        broker.create_topic("orders")
        broker.create_topic("payments")
        with calling(place.port) as caller:
            answer: Any = None
            transaction = ""  # the id that the gateway gave to the page's transaction
            for kind, text in blocks:
                if kind == "http":
                    answer = sent(place, text.replace("{transaction}", transaction))
                    transaction = (answer if isinstance(answer, dict) else {}).get("transaction", transaction)
                elif kind == "json":
                    assert fits(json.loads(text), answer), f"{text}\n{json.dumps(answer)}"
                elif kind == "json-stream":
                    answer = streamed(place, text)
                elif kind == "json-lines":
                    assert fits([json.loads(line) for line in text.splitlines()], answer), answer
                elif kind == "json-messages":
                    for line in text.splitlines():
                        caller.say_text(line)
                else:
                    check_heard(caller, [json.loads(line) for line in text.splitlines()])


def streamed(place: GatewayPlace, text: str) -> list[Any]:
    """The answer lines to a stream of records for the topic of the page."""
    cluster_id = place.call("GET", "/v3/clusters").json["data"][0]["cluster_id"]
    path = f"/v3/clusters/{cluster_id}/topics/orders/records"
    reply = place.call("POST", path, text.encode(), content_type="application/json")
    return [json.loads(line) for line in reply.body.splitlines()]


def check_heard(caller: Caller, shown: list[Any]) -> None:
    """Answers and records have no order between them."""
    heard = [caller.hear() for _ in shown]
    for each in shown:
        assert any(fits(each, answer) for answer in heard), (each, heard)
