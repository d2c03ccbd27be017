import com.azure.messaging.servicebus.ServiceBusMessage;
import com.azure.messaging.servicebus.ServiceBusReceivedMessage;
import com.azure.messaging.servicebus.models.ServiceBusMessageState;
import java.time.OffsetDateTime;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;

/** Features of messages that come later. */
final class Scheduling {
    static final Map<String, Feature> FEATURES = Map.of(
        "schedule", Scheduling::schedule,
        "schedule-by-property", Scheduling::scheduleByProperty,
        "cancel-scheduled", Scheduling::cancelScheduled);

    private Scheduling() { }

    private static void schedule(Visit visit) {
        OffsetDateTime far = Visit.in(Visit.FAR);
        long number = visit.sender().scheduleMessage(new ServiceBusMessage("a"), far);
        List<Long> numbers = new ArrayList<>(List.of(number));
        numbers.addAll(scheduled(visit, far, "b"));
        List<ServiceBusReceivedMessage> peeked = visit.peekAll();
        Check.same(List.of("a", "b"), Visit.bodies(peeked));
        Check.same(numbers, peeked.stream().map(ServiceBusReceivedMessage::getSequenceNumber).toList());
        for (ServiceBusReceivedMessage message : peeked) {
            Check.same(List.of(ServiceBusMessageState.SCHEDULED, far),
                List.of(message.getState(), message.getScheduledEnqueueTime()));
        }
        visit.sender().cancelScheduledMessages(numbers);
        OffsetDateTime due = Visit.in(Visit.SOON);
        scheduled(visit, due, "c", "d");
        List<ServiceBusReceivedMessage> taken = visit.takeAndComplete(visit.receiver(), 2);
        Check.same(List.of("c", "d"), Visit.bodies(taken));
        taken.forEach(message -> Check.that(!message.getEnqueuedTime().isBefore(due), "enqueued before it was due"));
        visit.expectEmpty();
    }

    private static void scheduleByProperty(Visit visit) {
        visit.sender().sendMessage(new ServiceBusMessage("far").setScheduledEnqueueTime(Visit.in(Visit.FAR)));
        visit.send("now");
        Check.same(List.of("now"), Visit.bodies(visit.takeAndComplete(visit.receiver(), 1)));
        OffsetDateTime due = Visit.in(Visit.SOON);
        visit.sender().sendMessage(new ServiceBusMessage("soon").setScheduledEnqueueTime(due));
        ServiceBusReceivedMessage soon = visit.takeAndComplete(visit.receiver(), 1).get(0);
        Check.same("soon", soon.getBody().toString());
        Check.that(!soon.getEnqueuedTime().isBefore(due), "enqueued before it was due");
        List<ServiceBusReceivedMessage> left = visit.peekAll();
        Check.same(List.of("far"), Visit.bodies(left));
        Check.same(ServiceBusMessageState.SCHEDULED, left.get(0).getState());
    }

    /** The SDK schedules when its answer is iterated over, and not before. */
    private static List<Long> scheduled(Visit visit, OffsetDateTime due, String... bodies) {
        List<Long> numbers = new ArrayList<>();
        visit.sender().scheduleMessages(Stream.of(bodies).map(ServiceBusMessage::new).toList(), due)
            .forEach(numbers::add);
        return numbers;
    }

    private static void cancelScheduled(Visit visit) {
        List<Long> numbers = scheduled(visit, Visit.in(Visit.FAR), "kept", "first", "second");
        visit.sender().cancelScheduledMessages(numbers.subList(1, 3));
        Check.same(List.of("kept"), Visit.bodies(visit.peekAll()));
        visit.sender().cancelScheduledMessage(numbers.get(0));
        visit.expectEmpty();
        // The SDK takes the answer that there is no such message for a success.
        visit.sender().cancelScheduledMessage(numbers.get(0));
    }
}
