"""Ports of tests that run at the same time, and stop and start their brokers meanwhile."""

from __future__ import annotations

import socket
import subprocess
import sys

import pytest

from tandem.testing import ports
from tandem.testing.ports import HOST, PortReservation

# Five ports, chosen by another process from the same ten.
CHOOSE = """
from tandem.testing import ports
ports.FIRST_PORT, ports.LAST_PORT = 19_000, 19_009
with ports.PortReservation(5) as reservation:
    print(*reservation.ports)
"""


@pytest.fixture
def ten_ports(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many ports as there are, for everybody: whoever takes one that another holds is found out."""
    monkeypatch.setattr(ports, "FIRST_PORT", 19_000)
    monkeypatch.setattr(ports, "LAST_PORT", 19_009)


@pytest.mark.usefixtures("ten_ports")
def test_a_port_stays_reserved_while_nobody_listens_on_it() -> None:
    with PortReservation(5) as mine, PortReservation(5) as other:
        assert len({*mine.ports, *other.ports}) == 10


@pytest.mark.usefixtures("ten_ports")
def test_another_process_sees_what_is_reserved() -> None:
    with PortReservation(5) as mine:
        others = subprocess.run([sys.executable, "-c", CHOOSE], capture_output=True, text=True, check=True).stdout
    assert len({*mine.ports, *map(int, others.split())}) == 10


@pytest.mark.usefixtures("ten_ports")
def test_a_port_on_which_anybody_listens_is_not_chosen() -> None:
    with socket.create_server((HOST, 19_004)), PortReservation(9) as reservation:
        assert 19_004 not in reservation.ports


def test_a_certain_port_is_reserved_once() -> None:
    with PortReservation(1) as reservation:
        [port] = reservation.ports
        assert PortReservation.of(port) is None
    mine = PortReservation.of(port)
    assert mine is not None
    with mine:
        assert mine.ports == [port]
        assert PortReservation.of(port) is None


def test_a_certain_port_on_which_anybody_listens_is_not_reserved() -> None:
    with PortReservation(1) as reservation:
        [port] = reservation.ports
    with socket.create_server((HOST, port)):
        assert PortReservation.of(port) is None


@pytest.mark.usefixtures("ten_ports")
def test_closed_reservations_leave_their_ports_to_others() -> None:
    for _ in range(3):
        with PortReservation(10) as reservation:
            assert len(set(reservation.ports)) == 10
        reservation.close()
