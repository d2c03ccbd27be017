"""What a user of Spark may say, and how it is refused if it cannot be."""

from __future__ import annotations

from pathlib import Path

import pytest

from tandem.spark.given_options import OptionError
from tandem.spark.hub_choice import HubChoice
from tandem.spark.options import AMQP, ARROW, EventHubsOptions, means_several_hubs
from tandem.spark.positions import EARLIEST, LATEST, Position, PositionKind
from tests.markers import mission

LOCAL = "Endpoint=sb://localhost:5672;SharedAccessKeyName=root;SharedAccessKey=verysecret;UseDevelopmentEmulator=true"
CLOUD = "Endpoint=sb://contoso.servicebus.windows.net;SharedAccessKeyName=root;SharedAccessKey=verysecret"
BASE = {"connectionString": LOCAL, "eventHub": "orders"}


def parse(**more: str) -> EventHubsOptions:
    return EventHubsOptions.parse({**BASE, **more}, environment={})


def parse_stream(**more: str) -> EventHubsOptions:
    return EventHubsOptions.parse({**BASE, **more}, is_stream=True, environment={})


@mission("M30")
@pytest.mark.parametrize(
    "spelling", ["eventHub", "eventhubs.eventHub", "EVENTHUBS.NAME", "path", "topic", "eventHubName"]
)
def test_every_spelling_of_a_name_means_the_same(spelling: str) -> None:
    options = EventHubsOptions.parse({"eventhubs.connectionString": LOCAL, spelling: "orders"}, environment={})
    assert options.event_hub == "orders"


def test_an_unknown_option_is_refused_with_the_nearest_that_is_known() -> None:
    with pytest.raises(OptionError, match=r"no option 'maxEventPerTrigger'; did you mean maxEventsPerTrigger\?"):
        parse(maxEventPerTrigger="5")
    with pytest.raises(OptionError, match="did you mean startingOffsets"):
        parse(**{"eventhubs.startingOfsets": "latest"})


def test_one_option_in_two_spellings_must_not_have_two_values() -> None:
    with pytest.raises(OptionError, match="topic are one option"):
        parse(topic="invoices")
    assert parse(topic="orders").event_hub == "orders"


def test_a_connection_string_comes_from_an_option_a_file_or_the_environment(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text(f"{LOCAL}\n")
    from_file = EventHubsOptions.parse({"connectionStringFile": str(file), "eventHub": "orders"}, environment={})
    named = {"connectionStringVariable": "MY_BUS", "eventHub": "orders"}
    from_variable = EventHubsOptions.parse(named, environment={"MY_BUS": LOCAL})
    usual = EventHubsOptions.parse({"eventHub": "orders"}, environment={"TANDEM_CONNECTION_STRING": LOCAL})
    assert from_file == from_variable == usual == parse()
    with pytest.raises(OptionError, match="set MY_BUS in the environment"):
        EventHubsOptions.parse(named, environment={})
    with pytest.raises(OptionError, match="given together"):
        parse(connectionStringFile=str(file))


def test_nothing_that_is_printed_has_the_key() -> None:
    assert "verysecret" not in repr(parse())
    for broken in ({"connectionString": "verysecret"}, {"connectionString": LOCAL, "consumerGroup": " "}):
        with pytest.raises(OptionError) as refused:
            EventHubsOptions.parse({"eventHub": "orders", **broken}, environment={})
        assert "verysecret" not in str(refused.value)


def test_the_hub_may_be_named_by_the_connection_string() -> None:
    assert (
        EventHubsOptions.parse({"connectionString": f"{LOCAL};EntityPath=orders"}, environment={}).event_hub == "orders"
    )
    with pytest.raises(OptionError, match="eventHub is missing"):
        EventHubsOptions.parse({"connectionString": LOCAL}, environment={})
    with pytest.raises(OptionError, match="is for 'invoices' only"):
        parse(connectionString=f"{LOCAL};EntityPath=invoices")


def test_the_cloud_is_read_over_amqp_and_tandem_in_bulk() -> None:
    assert parse().transport == ARROW
    assert parse(connectionString=CLOUD).transport == AMQP
    assert parse(transport="AMQP").transport == AMQP
    with pytest.raises(OptionError, match="transport is 'smoke'; it must be arrow or amqp"):
        parse(transport="smoke")


def test_a_stream_begins_at_the_end_and_a_batch_at_the_start() -> None:
    assert parse_stream().starting.of("orders", "0") == LATEST
    assert parse().starting.of("orders", "0") == EARLIEST
    assert parse().ending.of("orders", "0") == LATEST


def test_single_positions_leave_all_other_partitions_as_they_were() -> None:
    options = parse_stream(
        startingPosition='{"offset": "-1"}', startingPositions='{"1": {"seqNo": 7, "isInclusive": false}}'
    )
    assert options.starting.of("orders", "0") == EARLIEST
    assert options.starting.of("orders", "1") == Position(PositionKind.SEQUENCE_NUMBER, 7, is_inclusive=False)


@pytest.mark.parametrize(
    "given, complaint",
    [
        ({"maxEventsPerTrigger": "0"}, "a whole number, 1 or more"),
        ({"maxEventsPerTrigger": "many"}, "maxEventsPerTrigger is 'many'"),
        ({"failOnDataLoss": "maybe"}, "it must be true or false"),
        ({"endingOffsets": "latest"}, "a stream has no end"),
        ({"filterPushdown": "true"}, "Spark pushes no filters to streams"),
        ({"startingOffsets": "soon"}, "startingOffsets is 'soon'; it is no JSON"),
        ({"startingOffsets": "latest", "startingPosition": "latest"}, "given together"),
        ({"startingPositions": '{"x": {"seqNo": 1}}'}, "a partition is named 'x'"),
        ({"partitions": "one"}, "write it as 0,3"),
        ({"operationTimeout": "soon"}, "write a time longer than nothing"),
        ({"maxBytesPerTrigger": "5", "transport": "amqp"}, "sizes are not told over AMQP"),
        ({"eventHub": ""}, "eventHub is empty"),
    ],
)
def test_what_cannot_be_is_refused_by_name_and_value(given: dict[str, str], complaint: str) -> None:
    with pytest.raises(OptionError, match=complaint):
        parse_stream(**given)


def test_limits_of_a_trigger_mean_nothing_for_a_batch() -> None:
    with pytest.raises(OptionError, match="it is for streams"):
        parse(maxOffsetsPerTrigger="5")


def test_options_of_other_connectors_that_have_no_meaning_here_are_taken() -> None:
    parse_stream(**{"eventhubs.receiverTimeout": "PT60S", "eventhubs.useExclusiveReceiver": "true"})


def test_times_and_partitions_can_be_written_in_several_ways() -> None:
    assert parse(operationTimeout="90").operation_timeout_s == parse(operationTimeout="PT1M30S").operation_timeout_s
    for given in ({"partitions": "3, 0"}, {"assign": '{"Orders": [0, 3]}'}):
        assert parse(**given).hubs.partitions_of("orders") == ("0", "3")
    assert parse().hubs.partitions_of("orders") is None


# --- several hubs ---------------------------------------------------------------------------------------------------


def choose(**given: str) -> HubChoice:
    return EventHubsOptions.parse({"connectionString": LOCAL, **given}, environment={}).hubs


def test_several_hubs_are_named_or_match_a_pattern() -> None:
    for spelling in ("eventHubs", "subscribe", "eventhubs.eventHubs"):
        listed = choose(**{spelling: "orders, Invoices"})
        assert (listed.names, listed.is_plural, str(listed)) == (("orders", "Invoices"), True, "'orders', 'Invoices'")
        assert listed.includes("invoices")
        assert not listed.includes("order")
    for spelling in ("eventHubsPattern", "subscribePattern"):
        matching = choose(**{spelling: "order.*"})
        assert matching.includes("Orders-2")
        assert not matching.includes("my-orders")
        assert (matching.is_plural, str(matching)) == (True, "/order.*/")
    assigned = choose(assign='{"orders": [0], "invoices": [1, 2]}')
    assert (assigned.names, assigned.is_plural) == (("orders", "invoices"), True)
    assert (assigned.partitions_of("orders"), assigned.partitions_of("Invoices")) == (("0",), ("1", "2"))
    assert not choose(assign='{"orders": [0]}').is_plural


@pytest.mark.parametrize(
    "given, complaint",
    [
        ({"eventHubs": "orders,,"}, "write each hub once"),
        ({"eventHubs": "orders,Orders"}, "write each hub once"),
        ({"eventHub": "orders", "eventHubs": "orders"}, "eventHub and eventHubs were given together"),
        ({"eventHubsPattern": "orders["}, "it is not a regular expression"),
        ({"eventHubs": "orders", "assign": '{"invoices": [0]}'}, "names the hub 'invoices'; what is read is 'orders'"),
        ({"eventHub": "orders", "startingOffsets": '{"invoices": {"0": 1}}'}, "names the hub 'invoices'"),
    ],
)
def test_hubs_that_cannot_be_meant_are_refused(given: dict[str, str], complaint: str) -> None:
    with pytest.raises(OptionError, match=complaint):
        choose(**given)


@pytest.mark.parametrize(
    "given, is_plural",
    [
        ({"eventHub": "orders"}, False),
        ({"eventhubs.subscribe": "orders"}, True),
        ({"eventHubsPattern": ".*"}, True),
        ({"assign": '{"a": [0], "b": [0]}'}, True),
        ({"assign": "nonsense"}, False),
        ({"owner": "of a table in SQL"}, False),
    ],
)
def test_rows_say_their_hub_if_there_may_be_several(given: dict[str, str], is_plural: bool) -> None:
    assert means_several_hubs(given) is is_plural


def test_a_table_is_written_to_one_hub() -> None:
    options = EventHubsOptions.parse({"connectionString": LOCAL, "eventHubs": "orders,invoices"}, environment={})
    with pytest.raises(OptionError, match="a table is written to one hub"):
        _ = options.event_hub


def test_a_position_may_be_for_one_hub_or_for_all() -> None:
    given = {
        "startingPositions": '{"0": {"seqNo": 7}, "{\\"ehName\\": \\"orders\\", \\"partitionId\\": 0}": {"seqNo": 9}}'
    }
    options = EventHubsOptions.parse(
        {"connectionString": LOCAL, "eventHubs": "orders,invoices", **given}, environment={}
    )
    assert options.starting.of("Orders", "0").number == 9
    assert options.starting.of("invoices", "0").number == 7
    assert options.starting.of("invoices", "1") == EARLIEST


@pytest.mark.parametrize("name", ["kafka.group.id", "groupIdPrefix", "kafka.bootstrap.servers"])
def test_options_that_promise_what_there_is_not_are_refused_with_the_reason(name: str) -> None:
    with pytest.raises(OptionError, match=r"in Spark's checkpoint|give the namespace by connectionString"):
        parse(**{name: "x"})
