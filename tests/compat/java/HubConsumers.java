import com.azure.core.amqp.exception.AmqpErrorCondition;
import com.azure.core.amqp.exception.AmqpException;
import com.azure.messaging.eventhubs.CheckpointStore;
import com.azure.messaging.eventhubs.EventData;
import com.azure.messaging.eventhubs.EventHubProducerClient;
import com.azure.messaging.eventhubs.EventProcessorClient;
import com.azure.messaging.eventhubs.EventProcessorClientBuilder;
import com.azure.messaging.eventhubs.LoadBalancingStrategy;
import com.azure.messaging.eventhubs.models.Checkpoint;
import com.azure.messaging.eventhubs.models.EventPosition;
import com.azure.messaging.eventhubs.models.LastEnqueuedEventProperties;
import com.azure.messaging.eventhubs.models.PartitionEvent;
import com.azure.messaging.eventhubs.models.PartitionOwnership;
import com.azure.messaging.eventhubs.models.ReceiveOptions;
import com.azure.messaging.eventhubs.models.SendOptions;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.stream.Stream;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;

/** Features of reading event hubs: positions, owners, and processors that share the partitions. */
final class HubConsumers {
    static final Map<String, Feature> FEATURES = Map.of(
        "positions", HubConsumers::positions,
        "invalid-position", HubConsumers::invalidPosition,
        "last-enqueued-event", HubConsumers::lastEnqueuedEvent,
        "owner-level", HubConsumers::ownerLevel,
        "balancing", HubConsumers::balancing);

    private HubConsumers() { }

    private static void positions(Visit visit) throws Exception {
        HubVisit hub = new HubVisit(visit);
        EventHubProducerClient producer = hub.producer();
        producer.send(HubVisit.events("a", "b", "c"), HubVisit.ZERO);
        Check.pause(Duration.ofMillis(10));
        Instant between = Instant.now();
        Check.pause(Duration.ofMillis(10));
        producer.send(HubVisit.events("d"), HubVisit.ZERO);
        Instant ofD = producer.getPartitionProperties("0").getLastEnqueuedTime();
        Check.pause(Duration.ofMillis(10));
        producer.send(HubVisit.events("e"), HubVisit.ZERO);
        Map<EventPosition, String> expected = new LinkedHashMap<>();
        expected.put(EventPosition.earliest(), "abcde");
        expected.put(EventPosition.fromOffsetString("1"), "cde");
        expected.put(EventPosition.fromSequenceNumber(2), "de");
        expected.put(EventPosition.fromSequenceNumber(2, true), "cde");
        expected.put(EventPosition.fromEnqueuedTime(between), "de");
        expected.put(EventPosition.fromEnqueuedTime(ofD), "e");
        expected.put(EventPosition.fromEnqueuedTime(ofD.minusMillis(1)), "de");
        for (Map.Entry<EventPosition, String> one : expected.entrySet()) {
            List<PartitionEvent> read = hub.take("0", one.getValue().length(), one.getKey(), new ReceiveOptions());
            Check.same(one.getValue(), String.join("", HubVisit.bodies(read)));
        }
        HubVisit.Reading late = hub.read(EventPosition.latest(), 0);
        // The subscription does not say when it is open: one event after another, until one arrives.
        List<String> sent = new ArrayList<>();
        Check.until("an event after the end", () -> {
            sent.add("f" + sent.size());
            producer.send(HubVisit.events(sent.get(sent.size() - 1)), HubVisit.ZERO);
            return !late.events().isEmpty();
        });
        Check.until("the last event", () -> HubVisit.bodies(List.copyOf(late.events())).contains(sent.get(sent.size() - 1)));
        List<String> came = HubVisit.bodies(List.copyOf(late.events()));
        Check.same(sent.subList(sent.size() - came.size(), sent.size()), came);
    }

    private static void invalidPosition(Visit visit) throws Exception {
        HubVisit.Reading reading = new HubVisit(visit).read(EventPosition.fromOffsetString("17"), 0);
        Check.until("the refusal", () -> !reading.errors().isEmpty());
        AmqpException error = Check.inside(AmqpException.class, reading.errors().peek());
        Check.same(AmqpErrorCondition.ARGUMENT_ERROR, error.getErrorCondition());
        Check.contains("The supplied offset '17' is invalid. The last offset in the system is '-1'", error.getMessage());
    }

    private static void lastEnqueuedEvent(Visit visit) {
        HubVisit hub = new HubVisit(visit);
        hub.producer().send(HubVisit.events("a", "b", "c"), HubVisit.ZERO);
        LastEnqueuedEventProperties last = hub.take("0", 3, EventPosition.earliest(),
            new ReceiveOptions().setTrackLastEnqueuedEventProperties(true)).get(2).getLastEnqueuedEventProperties();
        Check.same(2L, last.getSequenceNumber());
        Check.same("2", last.getOffsetString());
        Check.that(!last.getEnqueuedTime().isAfter(last.getRetrievalTime()), "enqueued after it was reported");
    }

    private static void ownerLevel(Visit visit) throws Exception {
        HubVisit hub = new HubVisit(visit);
        EventHubProducerClient producer = hub.producer();
        HubVisit.Reading first = hub.read(EventPosition.earliest(), 1);
        producer.send(HubVisit.events("a"), HubVisit.ZERO);
        Check.until("the first event", () -> first.events().size() == 1);
        HubVisit.Reading second = hub.read(EventPosition.fromOffsetString("0"), 2);
        Check.until("the theft", () -> !first.errors().isEmpty());
        stolen(first, "with higher epoch of '2' is created");
        producer.send(HubVisit.events("b"), HubVisit.ZERO);
        Check.until("the second event", () -> second.events().size() == 1);
        HubVisit.Reading third = hub.read(EventPosition.earliest(), 0);
        Check.until("the refusal", () -> !third.errors().isEmpty());
        stolen(third, "with a higher epoch '2' already exists");
        Check.same(List.of(List.of("a"), List.of("b"), List.of()), Stream.of(first, second, third)
            .map(reading -> HubVisit.bodies(List.copyOf(reading.events()))).toList());
    }

    private static void stolen(HubVisit.Reading reading, String text) {
        AmqpException error = Check.inside(AmqpException.class, reading.errors().peek());
        Check.same(AmqpErrorCondition.LINK_STOLEN, error.getErrorCondition());
        Check.contains(text, error.getMessage());
    }

    private static void balancing(Visit visit) throws Exception {
        HubVisit hub = new HubVisit(visit);
        Store store = new Store();
        Member one = new Member(hub, store);
        send(hub, "first");
        Check.until("the first round", () -> one.bodies.size() == HubVisit.PARTITIONS);
        Member two = new Member(hub, store);
        Check.until("two partitions each", () -> one.partitions.size() == 2 && two.partitions.size() == 2);
        send(hub, "second");
        Check.until("the second round", () -> one.bodies.size() + two.bodies.size() >= 2 * HubVisit.PARTITIONS);
        two.processor.stop();
        Check.until("the other partitions", () -> one.partitions.size() == HubVisit.PARTITIONS);
        send(hub, "third");
        Check.until("the third round",
            () -> Stream.concat(one.bodies.stream(), two.bodies.stream()).distinct().count() == 3 * HubVisit.PARTITIONS);
        Check.that(two.bodies.size() >= 2, "the second member saw " + two.bodies);
        Check.same("nothing came twice: " + 3 * HubVisit.PARTITIONS,
            "nothing came twice: " + (one.bodies.size() + two.bodies.size()));
    }

    private static void send(HubVisit hub, String round) {
        EventHubProducerClient producer = hub.producer();
        for (int number = 0; number < HubVisit.PARTITIONS; number += 1) {
            producer.send(HubVisit.events(round + "-" + number), new SendOptions().setPartitionId("" + number));
        }
    }

    /** A processor that is one of several, with the partitions that it has and the events that it saw. */
    private static final class Member {
        final Set<String> partitions = ConcurrentHashMap.newKeySet();
        final Queue<String> bodies = new ConcurrentLinkedQueue<>();
        final EventProcessorClient processor;

        Member(HubVisit hub, CheckpointStore store) {
            Visit visit = hub.visit;
            EventProcessorClientBuilder builder = new EventProcessorClientBuilder()
                .connectionString(visit.address(), visit.entity).consumerGroup("$Default")
                .transportType(visit.transportType()).retryOptions(Visit.oneTry()).checkpointStore(store)
                .loadBalancingStrategy(LoadBalancingStrategy.BALANCED).loadBalancingUpdateInterval(Duration.ofMillis(500))
                .partitionOwnershipExpirationInterval(Duration.ofSeconds(10))
                .initialPartitionEventPosition(partition -> EventPosition.earliest())
                .processPartitionInitialization(context -> partitions.add(context.getPartitionContext().getPartitionId()))
                .processPartitionClose(context -> partitions.remove(context.getPartitionContext().getPartitionId()))
                .processError(context -> { })
                .processEvent(context -> {
                    EventData event = context.getEventData();
                    if (event == null) return;
                    // In this order: an event that counts as seen is not delivered to another member again.
                    context.updateCheckpoint();
                    bodies.add(event.getBodyAsString());
                });
            if (!visit.transport.equals("tcp")) builder.customEndpointAddress(visit.customEndpoint());
            processor = builder.buildEventProcessorClient();
            processor.start();
            visit.keep(processor::stop);
        }
    }

    /** A checkpoint store for one process: the contract of the SDK in its plainest form. */
    private static final class Store implements CheckpointStore {
        private final Map<String, PartitionOwnership> ownerships = new ConcurrentHashMap<>();
        private final Map<String, Checkpoint> checkpoints = new ConcurrentHashMap<>();

        @Override
        public Flux<PartitionOwnership> listOwnership(String namespace, String hub, String group) {
            return Flux.fromIterable(List.copyOf(ownerships.values()));
        }

        @Override
        public synchronized Flux<PartitionOwnership> claimOwnership(List<PartitionOwnership> wanted) {
            return Flux.fromIterable(wanted.stream().filter(one -> {
                PartitionOwnership known = ownerships.get(one.getPartitionId());
                return known == null || known.getETag().equals(one.getETag());
            }).map(one -> {
                one.setETag(UUID.randomUUID().toString()).setLastModifiedTime(System.currentTimeMillis());
                ownerships.put(one.getPartitionId(), one);
                return one;
            }).toList());
        }

        @Override
        public Flux<Checkpoint> listCheckpoints(String namespace, String hub, String group) {
            return Flux.fromIterable(List.copyOf(checkpoints.values()));
        }

        @Override
        public Mono<Void> updateCheckpoint(Checkpoint checkpoint) {
            checkpoints.put(checkpoint.getPartitionId(), checkpoint);
            return Mono.empty();
        }
    }
}
