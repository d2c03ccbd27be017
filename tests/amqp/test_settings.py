"""What an endpoint announces unless told otherwise, and the settings that make no sense."""

from __future__ import annotations

import pytest

from tandem import limits
from tandem.amqp.settings import ANONYMOUS, EXTERNAL, MSSBCBS, PLAIN, Settings
from tandem.errors import UsageError
from tests.markers import spec


def test_what_is_not_given_is_the_limit_of_the_same_name() -> None:
    settings = Settings("c")
    assert settings.container_id == "c"
    assert settings.max_frame_size == limits.MAX_FRAME_SIZE_BYTES
    assert settings.channel_max == limits.MAX_CHANNEL
    assert settings.handle_max == limits.MAX_HANDLE
    assert settings.idle_timeout_ms == limits.IDLE_TIMEOUT_MS
    assert settings.incoming_window == limits.INCOMING_WINDOW_TRANSFERS
    assert settings.outgoing_window == limits.OUTGOING_WINDOW_TRANSFERS
    assert settings.max_message_size == limits.MAX_MESSAGE_SIZE_BYTES
    assert settings.max_incomplete == limits.MAX_INCOMPLETE_BYTES
    assert settings.max_undecided_bytes == limits.MAX_UNDECIDED_BYTES
    assert settings.max_unsettled == limits.MAX_UNSETTLED_DELIVERIES
    assert settings.max_credit_overrun == limits.MAX_CREDIT_OVERRUN_DELIVERIES
    assert settings.hostname is None
    assert settings.properties is None
    assert settings.user is None
    assert settings.password is None
    assert settings.is_sasl_required is False


def test_what_is_given_is_kept() -> None:
    settings = Settings(
        "c",
        hostname="h",
        max_frame_size=512,
        channel_max=1,
        handle_max=2,
        idle_timeout_ms=3,
        incoming_window=4,
        outgoing_window=5,
        max_message_size=6,
        max_incomplete=7,
        max_unsettled=8,
        max_credit_overrun=9,
        max_undecided_bytes=10,
        properties={"product": "test"},
        sasl_mechanisms=(PLAIN,),
        is_sasl_required=True,
        user="u",
        password="p",
    )
    assert (settings.hostname, settings.properties) == ("h", {"product": "test"})
    assert (settings.max_frame_size, settings.channel_max, settings.handle_max) == (512, 1, 2)
    assert (settings.idle_timeout_ms, settings.incoming_window, settings.outgoing_window) == (3, 4, 5)
    assert (settings.max_message_size, settings.max_incomplete) == (6, 7)
    assert (settings.max_unsettled, settings.max_credit_overrun, settings.max_undecided_bytes) == (8, 9, 10)
    assert (settings.sasl_mechanisms, settings.is_sasl_required) == ((PLAIN,), True)
    assert (settings.user, settings.password) == ("u", "p")


def test_a_server_offers_the_mechanisms_of_the_service_in_its_order() -> None:
    assert Settings("c").sasl_mechanisms == (MSSBCBS, PLAIN, ANONYMOUS, EXTERNAL)


@spec("amqp:2.7.1")
def test_a_frame_size_below_512_is_refused() -> None:
    assert Settings("c", max_frame_size=512).max_frame_size == 512
    with pytest.raises(UsageError, match="max_frame_size 511 is below 512"):
        Settings("c", max_frame_size=511)


@pytest.mark.parametrize("user, password", [("u", None), (None, "p")])
def test_a_user_without_a_password_or_the_reverse_is_refused(user: str | None, password: str | None) -> None:
    with pytest.raises(UsageError, match="user and password come together"):
        Settings("c", user=user, password=password)


def test_an_empty_user_and_password_are_a_user_and_a_password() -> None:
    assert Settings("c", user="", password="").user == ""


def test_a_password_is_not_shown() -> None:
    assert "secret" not in repr(Settings("c", user="u", password="secret"))


@pytest.mark.parametrize("text", ["a\x00b", "lone \ud800"])
def test_credentials_that_plain_cannot_carry_are_refused_without_being_repeated(text: str) -> None:
    for user, password in ((text, "p"), ("u", text)):
        with pytest.raises(UsageError, match="without NUL") as refused:
            Settings("c", user=user, password=password)
        assert text not in str(refused.value)
