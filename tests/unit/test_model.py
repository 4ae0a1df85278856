from __future__ import annotations

import pytest

from ottla.model import Address, TopicPartition, parse_addresses


@pytest.mark.parametrize(
    ("text", "addresses"),
    [
        ("localhost:9092", [Address("localhost", 9092)]),
        ("localhost", [Address("localhost", 9092)]),
        ("h1:1,h2:65535", [Address("h1", 1), Address("h2", 65535)]),
        (" h1:1 , h2:2 ,", [Address("h1", 1), Address("h2", 2)]),
        ("[::1]:9093", [Address("::1", 9093)]),
        ("[::1]", [Address("::1", 9092)]),
    ],
)
def test_addresses_are_read_as_people_write_them(text: str, addresses: list[Address]) -> None:
    assert list(parse_addresses(text)) == addresses


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "no broker address was given"),
        (" , ", "no broker address was given"),
        ("localhost:", '"" in "localhost:" is not a port'),
        ("localhost:kafka", '"kafka" in "localhost:kafka" is not a port'),
        ("localhost:0", '"0" in "localhost:0" is not a port'),
        ("localhost:65536", "is not a port: expected a number from 1 to 65535"),
        ("localhost:٣", "is not a port"),
        (":9092", '":9092" is not an address: expected HOST:PORT'),
        ("::1:9092", "write an IPv6 address in brackets"),
        ("[::1", '"[::1" is not an address'),
        ("[::1]x", '"[::1]x" is not an address'),
    ],
)
def test_a_bad_address_is_refused_with_a_sentence(text: str, sentence: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse_addresses(text)
    assert sentence in str(caught.value)


@pytest.mark.parametrize("text", ["localhost:9092", "[::1]:9092"])
def test_an_address_prints_as_it_is_written(text: str) -> None:
    assert [str(each) for each in parse_addresses(text)] == [text]


def test_a_partition_prints_as_its_directory_is_named() -> None:
    assert str(TopicPartition("orders", 3)) == "orders-3"
