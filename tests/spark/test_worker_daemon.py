"""Workers whose rows nobody wants any more."""

from __future__ import annotations

import socket

import pytest

from tandem.spark import worker_daemon


@pytest.mark.parametrize("error", [BrokenPipeError(), ConnectionResetError()])
def test_a_worker_ends_in_silence_when_spark_has_rows_enough(
    monkeypatch: pytest.MonkeyPatch, error: Exception, capfd: pytest.CaptureFixture[str]
) -> None:
    def write_too_much(sock: socket.socket, authenticated: bool) -> int:
        raise error

    monkeypatch.setattr(worker_daemon, "_run_worker", write_too_much)
    with socket.socket() as sock:
        assert worker_daemon.run_worker(sock, True) == 1
    assert capfd.readouterr().err == ""


def test_any_other_error_of_a_worker_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(sock: socket.socket, authenticated: bool) -> int:
        raise OSError("the disk is full")

    monkeypatch.setattr(worker_daemon, "_run_worker", fail)
    with socket.socket() as sock, pytest.raises(OSError, match="the disk is full"):
        worker_daemon.run_worker(sock, True)
