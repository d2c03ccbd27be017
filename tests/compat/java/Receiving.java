import com.azure.messaging.servicebus.ServiceBusMessage;
import com.azure.messaging.servicebus.ServiceBusReceivedMessage;
import com.azure.messaging.servicebus.ServiceBusReceiverClient;
import com.azure.messaging.servicebus.models.ServiceBusMessageState;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.stream.IntStream;

/** Features of asking for messages: how many, for how long, and without taking them. */
final class Receiving {
    static final Map<String, Feature> FEATURES = Map.of(
        "receive-and-delete", Receiving::receiveAndDelete,
        "receive-in-order", Receiving::receiveInOrder,
        "receive-nothing", Receiving::receiveNothing,
        "receive-fewer", Receiving::receiveFewer,
        "receive-waits", Receiving::receiveWaits,
        "competing-receivers", Receiving::competingReceivers,
        "prefetch", Receiving::prefetch,
        "iterator", Receiving::iterator,
        "peek", Receiving::peek);

    private Receiving() { }

    private static void receiveAndDelete(Visit visit) {
        visit.send("a", "b");
        List<ServiceBusReceivedMessage> taken = visit.take(visit.deletingReceiver(), 2);
        Check.same(List.of("a", "b"), Visit.bodies(taken));
        // How the SDK shows that there is none.
        for (ServiceBusReceivedMessage message : taken) Check.same(new UUID(0, 0).toString(), message.getLockToken());
        visit.expectEmpty();
    }

    private static List<String> numbers(int count) {
        return IntStream.range(0, count).mapToObj(Integer::toString).toList();
    }

    private static void sendNumbers(Visit visit, int count) {
        visit.sender().sendMessages(numbers(count).stream().map(ServiceBusMessage::new).toList());
    }

    private static void receiveInOrder(Visit visit) {
        sendNumbers(visit, 300);
        Check.same(numbers(300), Visit.bodies(visit.takeAndComplete(visit.receiver(), 300)));
        visit.expectEmpty();
    }

    private static void receiveNothing(Visit visit) {
        ServiceBusReceiverClient receiver = visit.receiver();
        long started = System.nanoTime();
        visit.expectSilence(receiver);
        Check.that(System.nanoTime() - started >= Visit.SILENCE.toNanos(), "the wait was too short");
        // What comes now is for whoever asks next, and has not been delivered before.
        visit.send("later");
        ServiceBusReceivedMessage later = visit.takeAndComplete(visit.receiver(), 1).get(0);
        Check.same(List.of("later", 0L), List.of(later.getBody().toString(), later.getDeliveryCount()));
        // And the link can be used again.
        visit.send("last");
        Check.same(List.of("last"), Visit.bodies(visit.takeAndComplete(receiver, 1)));
    }

    private static void receiveFewer(Visit visit) {
        sendNumbers(visit, 2);
        ServiceBusReceiverClient receiver = visit.receiver();
        List<ServiceBusReceivedMessage> taken = receiver.receiveMessages(10, java.time.Duration.ofSeconds(5))
            .stream().toList();
        Check.same(numbers(2), Visit.bodies(taken));
        taken.forEach(receiver::complete);
        visit.expectEmpty();
    }

    private static void receiveWaits(Visit visit) throws Exception {
        ServiceBusReceiverClient receiver = visit.deletingReceiver();
        CompletableFuture<ServiceBusReceivedMessage> waiting =
            CompletableFuture.supplyAsync(() -> visit.takeOne(receiver));
        Thread.sleep(200);
        visit.send("at last");
        Check.same("at last", waiting.get().getBody().toString());
    }

    private static void competingReceivers(Visit visit) {
        sendNumbers(visit, 20);
        ServiceBusReceiverClient other = visit.keep(
            visit.connect().receiver().disableAutoComplete().queueName(visit.entity).buildClient());
        List<String> taken = new ArrayList<>();
        taken.addAll(Visit.bodies(visit.takeAndComplete(visit.receiver(), 10)));
        taken.addAll(Visit.bodies(visit.takeAndComplete(other, 10)));
        Check.same(numbers(20), taken.stream().sorted(java.util.Comparator.comparing(Integer::parseInt)).toList());
    }

    private static void prefetch(Visit visit) {
        sendNumbers(visit, 50);
        ServiceBusReceiverClient receiver = visit.receiver(options -> options.prefetchCount(50));
        Check.same(numbers(50), Visit.bodies(visit.takeAndComplete(receiver, 50)));
        visit.expectEmpty();
    }

    private static void iterator(Visit visit) {
        sendNumbers(visit, 3);
        ServiceBusReceiverClient receiver = visit.receiver();
        List<String> came = new ArrayList<>();
        for (ServiceBusReceivedMessage message : receiver.receiveMessages(3, Visit.PATIENCE)) {
            came.add(message.getBody().toString());
            receiver.complete(message);
        }
        Check.same(numbers(3), came);
        visit.expectEmpty();
    }

    private static void peek(Visit visit) throws Exception {
        ServiceBusReceiverClient receiver = visit.receiver();
        Check.same(null, receiver.peekMessage());
        visit.send("a", "b", "c", "d");
        // Each call goes on where the last one ended.
        List<ServiceBusReceivedMessage> first = receiver.peekMessages(2).stream().toList();
        Check.same(List.of("a", "b"), Visit.bodies(first));
        Check.same(List.of("c", "d"), Visit.bodies(receiver.peekMessages(10).stream().toList()));
        Check.same(List.of(), Visit.bodies(receiver.peekMessages(10).stream().toList()));
        Check.same(List.of("b", "c"), Visit.bodies(receiver.peekMessages(2, 2).stream().toList()));
        Check.same(ServiceBusMessageState.ACTIVE, first.get(0).getState());
        Check.same(null, first.get(0).getLockToken());
        Check.notAllowed("not supported for peeked messages", () -> receiver.complete(first.get(0)));
        // Peeking takes nothing away, and a locked message is seen too.
        visit.takeOne(receiver);
        Check.same(List.of("a", "b", "c", "d"), Visit.bodies(visit.peekAll()));
    }
}
