import com.azure.messaging.eventhubs.EventData;
import com.azure.messaging.eventhubs.EventHubBufferedProducerClientBuilder;
import com.azure.messaging.eventhubs.EventHubClientBuilder;
import com.azure.messaging.eventhubs.EventHubConsumerAsyncClient;
import com.azure.messaging.eventhubs.EventHubConsumerClient;
import com.azure.messaging.eventhubs.EventHubProducerClient;
import com.azure.messaging.eventhubs.models.EventPosition;
import com.azure.messaging.eventhubs.models.PartitionEvent;
import com.azure.messaging.eventhubs.models.ReceiveOptions;
import com.azure.messaging.eventhubs.models.SendOptions;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.stream.Stream;

/** Producers and consumers of the hub of a visit. */
final class HubVisit {
    static final int PARTITIONS = 4;
    static final SendOptions ZERO = new SendOptions().setPartitionId("0");

    final Visit visit;

    HubVisit(Visit visit) {
        this.visit = visit;
    }

    EventHubClientBuilder builder(String hub, String group) {
        EventHubClientBuilder builder = new EventHubClientBuilder().connectionString(visit.address(), hub)
            .consumerGroup(group).transportType(visit.transportType()).retryOptions(Visit.oneTry());
        return visit.transport.equals("tcp") ? builder : builder.customEndpointAddress(visit.customEndpoint());
    }

    EventHubClientBuilder builder() {
        return builder(visit.entity, EventHubClientBuilder.DEFAULT_CONSUMER_GROUP_NAME);
    }

    EventHubBufferedProducerClientBuilder bufferedBuilder() {
        EventHubBufferedProducerClientBuilder builder = new EventHubBufferedProducerClientBuilder()
            .connectionString(visit.address(), visit.entity).transportType(visit.transportType())
            .retryOptions(Visit.oneTry());
        return visit.transport.equals("tcp") ? builder : builder.customEndpointAddress(visit.customEndpoint());
    }

    EventHubProducerClient producer() {
        return visit.keep(builder().buildProducerClient());
    }

    EventHubConsumerClient consumer() {
        return visit.keep(builder().buildConsumerClient());
    }

    static List<EventData> events(String... bodies) {
        return Stream.of(bodies).map(EventData::new).toList();
    }

    /** Read exactly so many events of a partition, in the order of their arrival. */
    List<PartitionEvent> take(String partition, int count, EventPosition position, ReceiveOptions options) {
        List<PartitionEvent> taken = new ArrayList<>();
        consumer().receiveFromPartition(partition, count, position, Visit.PATIENCE, options).forEach(taken::add);
        Check.that(taken.size() == count, "expected " + count + " events, got " + bodies(taken));
        return taken;
    }

    List<PartitionEvent> take(String partition, int count) {
        return take(partition, count, EventPosition.earliest(), new ReceiveOptions());
    }

    /** Read exactly so many events, whatever their partition. */
    List<PartitionEvent> takeFromAll(int count) throws InterruptedException {
        Reading reading = new Reading();
        EventHubConsumerAsyncClient client = visit.keep(builder().buildAsyncConsumerClient());
        visit.keep(client.receive(true).subscribe(reading.events()::add, reading.errors()::add)::dispose);
        Check.until(count + " events", () -> reading.events().size() >= count || !reading.errors().isEmpty());
        Check.same(List.of(), List.copyOf(reading.errors()));
        return List.copyOf(reading.events());
    }

    /** A subscription to partition 0, and what it received. */
    Reading read(EventPosition position, long ownerLevel) {
        Reading reading = new Reading();
        EventHubConsumerAsyncClient client = visit.keep(builder().buildAsyncConsumerClient());
        visit.keep(client.receiveFromPartition("0", position, new ReceiveOptions().setOwnerLevel(ownerLevel))
            .subscribe(reading.events()::add, reading.errors()::add)::dispose);
        return reading;
    }

    /** Insist on a time of this run: the clocks are the same, and the machine may be busy. */
    static void expectRecent(Instant moment) {
        Check.that(Duration.between(moment, Instant.now()).abs().compareTo(Duration.ofMinutes(10)) < 0, "at " + moment);
    }

    static List<String> bodies(List<PartitionEvent> events) {
        return events.stream().map(event -> event.getData().getBodyAsString()).toList();
    }

    /** The events and errors of a subscription. */
    record Reading(Queue<PartitionEvent> events, Queue<Throwable> errors) {
        Reading() {
            this(new ConcurrentLinkedQueue<>(), new ConcurrentLinkedQueue<>());
        }
    }
}
