"""`tandem diagnose` against a broker that is well, and where there is none."""

from __future__ import annotations

from pathlib import Path

from tandem.connection_string import ConnectionString
from tandem.server.health.facet import Facet
from tandem.testing import Broker, Bus
from tests.cli.program import Commands, serving, tandem_here
from tests.markers import mission


@mission("M38")
def test_a_broker_that_is_well_is_shown_with_its_facets_and_limits(tmp_path: Path) -> None:
    with serving(tmp_path / "data", "--dev", "--tls", "off") as broker:
        connection_string = ConnectionString("127.0.0.1", broker.http_port)
        shown = tandem_here("diagnose", connection_string=str(connection_string))
        assert shown.returncode == 0, shown.stderr
        for facet in Facet:
            assert facet.value in shown.stdout
        assert "2,000 ms" in shown.stdout
        assert "All is well." in shown.stdout
        found = Commands(connection_string, "diagnose").json()
        assert (found["is_answering"], found["status"], found["is_supervised"]) == (True, "well", True)
        assert all(facet["limit"] for facet in found["facets"])


def test_where_nobody_answers_and_nothing_was_written_the_command_says_what_to_do(tmp_path: Path) -> None:
    nobody = str(ConnectionString("127.0.0.1", 1))
    shown = tandem_here("diagnose", "--data-dir", tmp_path, connection_string=nobody)
    assert shown.returncode == 1
    assert "the broker does not answer" in shown.stderr
    assert "--data-dir" in shown.stderr


@mission("M13")
def test_the_test_doubles_refuse_nothing_by_themselves(tmp_path: Path) -> None:
    with Broker(tmp_path / "data") as broker:
        found = broker.request("GET", "/$api/v1/diagnosis")
        assert not found["is_supervised"]
        assert [facet["limit"] for facet in found["facets"]] == [None] * len(Facet)
    with Bus() as bus:
        assert not bus._running.monitor.settings.is_supervising
