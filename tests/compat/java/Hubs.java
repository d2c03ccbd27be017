import com.azure.core.amqp.exception.AmqpErrorCondition;
import com.azure.messaging.eventhubs.EventData;
import com.azure.messaging.eventhubs.EventDataBatch;
import com.azure.messaging.eventhubs.EventHubBufferedProducerClient;
import com.azure.messaging.eventhubs.EventHubConsumerClient;
import com.azure.messaging.eventhubs.EventHubProducerClient;
import com.azure.messaging.eventhubs.EventHubProperties;
import com.azure.messaging.eventhubs.PartitionProperties;
import com.azure.messaging.eventhubs.models.CreateBatchOptions;
import com.azure.messaging.eventhubs.models.EventPosition;
import com.azure.messaging.eventhubs.models.PartitionEvent;
import com.azure.messaging.eventhubs.models.SendOptions;
import java.lang.reflect.Constructor;
import java.lang.reflect.Method;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.Set;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.stream.IntStream;

/** Features of sending to event hubs, and of asking about them. */
final class Hubs {
    static final Map<String, Feature> FEATURES = Map.ofEntries(
        Map.entry("send-and-read", Hubs::sendAndRead),
        Map.entry("batch", Hubs::batch),
        Map.entry("partitions", Hubs::partitions),
        Map.entry("partition-keys", Hubs::partitionKeys),
        Map.entry("properties", Hubs::properties),
        Map.entry("runtime-information", Hubs::runtimeInformation),
        Map.entry("buffered-producer", Hubs::bufferedProducer),
        Map.entry("unknown-entities", Hubs::unknownEntities),
        Map.entry("too-large", Hubs::tooLarge),
        Map.entry("many-events", Hubs::manyEvents));

    private Hubs() { }

    private static void sendAndRead(Visit visit) {
        HubVisit hub = new HubVisit(visit);
        List<String> bodies = IntStream.range(0, 120).mapToObj(number -> "event " + number).toList();
        hub.producer().send(bodies.stream().map(EventData::new).toList(), HubVisit.ZERO);
        List<PartitionEvent> read = hub.take("0", 120);
        Check.same(bodies, HubVisit.bodies(read));
        for (int at = 0; at < read.size(); at += 1) {
            EventData event = read.get(at).getData();
            Check.same(List.of((long) at, "" + at), List.of(event.getSequenceNumber(), event.getOffsetString()));
            HubVisit.expectRecent(event.getEnqueuedTime());
        }
        // The SDK sends bytes and nothing else.
        byte[] bytes = {0, -1, 7};
        hub.producer().send(List.of(new EventData(bytes)), new SendOptions().setPartitionId("1"));
        Check.that(Arrays.equals(bytes, hub.take("1", 1).get(0).getData().getBody()), "other bytes came back");
    }

    private static void batch(Visit visit) {
        HubVisit hub = new HubVisit(visit);
        EventHubProducerClient producer = hub.producer();
        EventDataBatch batch = producer.createBatch(new CreateBatchOptions().setPartitionId("1"));
        Check.same(1_048_576, batch.getMaxSizeInBytes());
        while (batch.tryAdd(new EventData(batch.getCount() + " " + "x".repeat(5_000)))) continue;
        Check.that(batch.getCount() > 150, "only " + batch.getCount() + " events fit");
        producer.send(batch);
        List<String> read = HubVisit.bodies(hub.take("1", batch.getCount()));
        for (int at = 0; at < read.size(); at += 1) Check.that(read.get(at).startsWith(at + " "), "out of order");
    }

    private static void partitions(Visit visit) throws Exception {
        HubVisit hub = new HubVisit(visit);
        EventHubProducerClient producer = hub.producer();
        for (int number = 0; number < HubVisit.PARTITIONS; number += 1) {
            producer.send(HubVisit.events("for " + number), new SendOptions().setPartitionId("" + number));
        }
        for (PartitionEvent event : hub.takeFromAll(HubVisit.PARTITIONS)) {
            Check.same("for " + event.getPartitionContext().getPartitionId(), event.getData().getBodyAsString());
        }
    }

    /** The partition of a key by the SDK's own hash, which its buffered producer uses and its callers cannot reach. */
    private static String partitionOf(String key) throws Exception {
        Class<?> resolver = Class.forName("com.azure.messaging.eventhubs.PartitionResolver");
        Constructor<?> constructor = resolver.getDeclaredConstructor();
        constructor.setAccessible(true);
        Method assign = resolver.getDeclaredMethod("assignForPartitionKey", String.class, String[].class);
        assign.setAccessible(true);
        return (String) assign.invoke(constructor.newInstance(), key, new String[] {"0", "1", "2", "3"});
    }

    /**
     * A key leads to the partition that the SDK's own hash names, and comes back with the event. That hash takes bytes above
     * 127 for negative numbers, as those of other SDKs do not: for such keys the numbers are JavaScript's.
     */
    private static void partitionKeys(Visit visit) throws Exception {
        HubVisit hub = new HubVisit(visit);
        EventHubProducerClient producer = hub.producer();
        Map<String, String> foreign = Map.of("Straße", "2", "鍵", "0");
        List<String> keys = List.of("a", "customer-17", "Straße", "鍵", "x".repeat(128));
        for (int round = 0; round < 2; round += 1) {
            for (String key : keys) producer.send(HubVisit.events(key), new SendOptions().setPartitionKey(key));
        }
        Map<String, Integer> counts = new HashMap<>();
        for (PartitionEvent event : hub.takeFromAll(2 * keys.size())) {
            String key = event.getData().getPartitionKey();
            Check.same(event.getData().getBodyAsString(), key);
            String partition = foreign.containsKey(key) ? foreign.get(key) : partitionOf(key);
            Check.same(partition, event.getPartitionContext().getPartitionId());
            counts.merge(key, 1, Integer::sum);
        }
        for (String key : keys) Check.same(2, counts.get(key));
    }

    private static void properties(Visit visit) throws Exception {
        HubVisit hub = new HubVisit(visit);
        EventData event = new EventData("x").setContentType("text/plain").setCorrelationId("correlated")
            .setMessageId("an-id");
        Map<String, Object> properties = new HashMap<>(Map.of("text", "Grüße", "number", 17, "real", 0.5, "flag", true));
        properties.put("nothing", null);
        event.getProperties().putAll(properties);
        hub.producer().send(List.of(event), new SendOptions().setPartitionKey("k"));
        EventData read = hub.takeFromAll(1).get(0).getData();
        Check.same(List.of("text/plain", "correlated", "an-id", "k"), List.of(read.getContentType(),
            read.getCorrelationId(), read.getMessageId(), read.getPartitionKey()));
        Check.same(properties, read.getProperties());
        HubVisit.expectRecent(read.getEnqueuedTime());
        Check.same(Set.of("x-opt-enqueued-time", "x-opt-offset", "x-opt-partition-key", "x-opt-sequence-number",
            "x-opt-sequence-number-epoch"), read.getRawAmqpMessage().getMessageAnnotations().keySet());
    }

    private static void runtimeInformation(Visit visit) {
        EventHubProducerClient producer = new HubVisit(visit).producer();
        EventHubProperties hub = producer.getEventHubProperties();
        Check.same(visit.entity, hub.getName());
        Check.same(List.of("0", "1", "2", "3"), hub.getPartitionIds().stream().toList());
        HubVisit.expectRecent(hub.getCreatedAt());
        PartitionProperties empty = producer.getPartitionProperties("2");
        Check.same(List.of(true, -1L, -1L, "-1"), List.of(empty.isEmpty(), empty.getBeginningSequenceNumber(),
            empty.getLastEnqueuedSequenceNumber(), empty.getLastEnqueuedOffset()));
        producer.send(HubVisit.events("a", "b"), new SendOptions().setPartitionId("2"));
        PartitionProperties filled = producer.getPartitionProperties("2");
        Check.same(List.of(false, 0L, 1L, "1"), List.of(filled.isEmpty(), filled.getBeginningSequenceNumber(),
            filled.getLastEnqueuedSequenceNumber(), filled.getLastEnqueuedOffset()));
        HubVisit.expectRecent(filled.getLastEnqueuedTime());
    }

    private static void bufferedProducer(Visit visit) throws Exception {
        HubVisit hub = new HubVisit(visit);
        Queue<Throwable> failed = new ConcurrentLinkedQueue<>();
        Queue<EventData> sent = new ConcurrentLinkedQueue<>();
        EventHubBufferedProducerClient producer = visit.keep(hub.bufferedBuilder().maxWaitTime(Duration.ofMillis(200))
            .onSendBatchFailed(context -> failed.add(context.getThrowable()))
            .onSendBatchSucceeded(context -> context.getEvents().forEach(sent::add)).buildClient());
        for (int number = 0; number < 300; number += 1) {
            producer.enqueueEvent(new EventData("" + number), new SendOptions().setPartitionKey("key-" + number % 3));
        }
        producer.flush();
        Check.until("300 acknowledged events", () -> sent.size() == 300 || !failed.isEmpty());
        Check.same(List.of(), List.copyOf(failed));
        List<List<Integer>> byKey = List.of(new ArrayList<>(), new ArrayList<>(), new ArrayList<>());
        for (String body : HubVisit.bodies(hub.takeFromAll(300))) {
            byKey.get(Integer.parseInt(body) % 3).add(Integer.parseInt(body));
        }
        for (List<Integer> numbers : byKey) Check.same(numbers.stream().sorted().toList(), numbers);
    }

    private static void unknownEntities(Visit visit) throws Exception {
        HubVisit hub = new HubVisit(visit);
        EventHubProducerClient missing = visit.keep(hub.builder("no-such-hub", "$Default").buildProducerClient());
        Check.contains("could not be found",
            Check.refused(AmqpErrorCondition.NOT_FOUND, () -> missing.send(HubVisit.events("x"))));
        EventHubConsumerClient group = visit.keep(hub.builder(visit.entity, "no-such-group").buildConsumerClient());
        Check.refused(AmqpErrorCondition.NOT_FOUND, () -> group.receiveFromPartition(
            "0", 1, EventPosition.earliest(), Visit.PATIENCE).stream().toList());
        Check.contains("The specified partition is invalid", Check.refused(AmqpErrorCondition.ARGUMENT_OUT_OF_RANGE_ERROR,
            () -> hub.producer().send(HubVisit.events("x"), new SendOptions().setPartitionId("4"))));
        Check.contains("The specified partition is invalid", Check.raised(IllegalArgumentException.class,
            () -> hub.producer().getPartitionProperties("4")).getMessage());
    }

    private static void tooLarge(Visit visit) throws Exception {
        EventHubProducerClient producer = new HubVisit(visit).producer();
        EventData large = new EventData("x".repeat(1_100_000));
        Check.refused(AmqpErrorCondition.LINK_PAYLOAD_SIZE_EXCEEDED, () -> producer.createBatch().tryAdd(large));
        Check.refused(AmqpErrorCondition.LINK_PAYLOAD_SIZE_EXCEEDED, () -> producer.send(List.of(large)));
    }

    private static void manyEvents(Visit visit) {
        HubVisit hub = new HubVisit(visit);
        EventHubProducerClient producer = hub.producer();
        List<String> bodies = IntStream.range(0, 5_000).mapToObj(Integer::toString).toList();
        for (int start = 0; start < 5_000; start += 500) {
            producer.send(bodies.subList(start, start + 500).stream().map(EventData::new).toList(), HubVisit.ZERO);
        }
        Check.same(bodies, HubVisit.bodies(hub.take("0", 5_000)));
    }
}
