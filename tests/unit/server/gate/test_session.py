from ottla.security.principal import ANONYMOUS, Principal
from ottla.server.gate.session import UNKNOWN_SOFTWARE, ClientSoftware, Session


def test_a_new_session_knows_where_it_comes_from_and_nothing_else() -> None:
    session = Session("PLAINTEXT", "::1", 40123)
    assert (session.listener, session.host, session.port, session.peer) == (
        "PLAINTEXT",
        "::1",
        40123,
        "::1:40123",
    )
    assert (session.client_id, session.software) == (None, UNKNOWN_SOFTWARE)
    assert (str(session.principal), session.principal) == ("User:ANONYMOUS", ANONYMOUS)
    assert (session.authenticated_until_ms, session.throttled_until_ms) == (None, None)


def test_a_session_takes_over_what_its_client_says_of_itself() -> None:
    session = Session("PLAINTEXT", "127.0.0.1", 1)
    session.is_called("shop")
    session.runs(ClientSoftware("librdkafka", "2.6.0"))
    assert (session.client_id, session.software) == ("shop", ("librdkafka", "2.6.0"))
    session.is_called(None)
    assert session.client_id is None


def test_a_session_takes_over_whom_its_client_has_proved_to_be() -> None:
    session, alice = Session("SSL", "127.0.0.1", 1), Principal("User", "alice")
    session.authenticated_as(alice, until_ms=5_000)
    assert (session.principal, session.authenticated_until_ms) == (alice, 5_000)
    session.authenticated_as(alice)
    assert session.authenticated_until_ms is None


def test_two_sessions_of_the_same_address_are_two() -> None:
    first, second = (Session("PLAINTEXT", "127.0.0.1", 1) for _ in range(2))
    assert first != second
    assert len({first, second}) == 2


def test_a_closed_session_calls_each_callback_once() -> None:
    session, told = Session("PLAINTEXT", "127.0.0.1", 1), list[str]()
    session.call_when_closed("beats", lambda: told.append("first"))
    session.call_when_closed("beats", lambda: told.append("second"))
    session.close()
    session.close()
    assert told == ["second"]
