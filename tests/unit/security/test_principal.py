from ottla.security.principal import ANONYMOUS, Principal


def test_a_principal_is_written_as_kafka_writes_it() -> None:
    assert str(Principal("User", "CN=alice,O=Shop")) == "User:CN=alice,O=Shop"
    assert str(ANONYMOUS) == "User:ANONYMOUS"
