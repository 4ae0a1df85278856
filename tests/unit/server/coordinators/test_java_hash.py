import pytest

from ottla.server.coordinators.java_hash import java_hash, partition_for


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", 0),
        ("a", 97),
        ("hello", 99162322),
        ("console-consumer-12345", 158455506),
        ("polygenelubricants", -2147483648),
        ("\U0001f600", 1772899),
    ],
)
def test_it_is_javas_hash(text: str, value: int) -> None:
    assert java_hash(text) == value


def test_the_partition_is_never_negative() -> None:
    assert partition_for("polygenelubricants", 50) == 0
    assert all(0 <= partition_for(f"group-{n}", 50) < 50 for n in range(1000))
