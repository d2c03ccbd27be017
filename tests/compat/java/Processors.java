import com.azure.messaging.servicebus.ServiceBusClientBuilder.ServiceBusProcessorClientBuilder;
import com.azure.messaging.servicebus.ServiceBusMessage;
import com.azure.messaging.servicebus.ServiceBusProcessorClient;
import com.azure.messaging.servicebus.ServiceBusReceivedMessage;
import com.azure.messaging.servicebus.ServiceBusReceivedMessageContext;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Consumer;
import java.util.stream.IntStream;

/** Features of processors: the SDK calls a handler for each message. */
final class Processors {
    static final Map<String, Feature> FEATURES = Map.of(
        "subscribe-auto-complete", Processors::autoComplete,
        "subscribe-by-hand", Processors::byHand,
        "subscribe-handler-error", Processors::handlerError,
        "subscribe-concurrently", Processors::concurrently,
        "session-subscribe", Processors::session,
        "subscription-streaming", Processors::subscription);

    private Processors() { }

    /** What a handler saw, and the errors that were reported. */
    private record Seen(Queue<ServiceBusReceivedMessage> came, Queue<Throwable> errors) {
        Seen() {
            this(new ConcurrentLinkedQueue<>(), new ConcurrentLinkedQueue<>());
        }

        List<String> bodies() {
            return Visit.bodies(List.copyOf(came));
        }
    }

    private static ServiceBusProcessorClientBuilder processor(
            Visit visit, Seen seen, Consumer<ServiceBusReceivedMessageContext> handler) {
        return visit.builder().processor().queueName(visit.entity)
            .processMessage(context -> {
                seen.came().add(context.getMessage());
                handler.accept(context);
            })
            .processError(context -> seen.errors().add(context.getException()));
    }

    private static ServiceBusProcessorClient started(Visit visit, ServiceBusProcessorClient processor) {
        visit.keep(processor).start();
        return processor;
    }

    private static void expectEmptySoon(Visit visit) throws InterruptedException {
        Check.until("an empty queue", () -> visit.peekAll().isEmpty());
    }

    private static void autoComplete(Visit visit) throws Exception {
        Seen seen = new Seen();
        visit.send("a", "b");
        ServiceBusProcessorClient processor =
            started(visit, processor(visit, seen, context -> { }).buildProcessorClient());
        Check.until("two messages", () -> seen.came().size() == 2);
        visit.send("c");
        Check.until("a third message", () -> seen.came().size() == 3);
        expectEmptySoon(visit);
        processor.close();
        Check.same(List.of("a", "b", "c"), seen.bodies());
        Check.same(0, seen.errors().size());
        visit.send("d");
        Check.same(List.of("d"), Visit.bodies(visit.takeAndComplete(visit.receiver(), 1)));
    }

    private static void byHand(Visit visit) throws Exception {
        Seen seen = new Seen();
        visit.send("good", "bad");
        started(visit, processor(visit, seen, context -> {
            if (context.getMessage().getBody().toString().equals("good")) context.complete();
            else context.deadLetter();
        }).disableAutoComplete().buildProcessorClient());
        Check.same("bad", visit.takeAndComplete(visit.deadLetters(), 1).get(0).getBody().toString());
        expectEmptySoon(visit);
        Check.same(0, seen.errors().size());
    }

    private static void handlerError(Visit visit) throws Exception {
        Seen seen = new Seen();
        AtomicInteger calls = new AtomicInteger();
        visit.send("fails once");
        started(visit, processor(visit, seen, context -> {
            if (calls.incrementAndGet() == 1) throw new IllegalStateException("not today");
        }).buildProcessorClient());
        Check.until("a second delivery", () -> seen.came().size() == 2);
        expectEmptySoon(visit);
        Check.same(1, seen.errors().size());
        Check.same("not today", Check.inside(IllegalStateException.class, seen.errors().peek()).getMessage());
        Check.same(List.of(0L, 1L), seen.came().stream().map(ServiceBusReceivedMessage::getDeliveryCount).toList());
    }

    private static void concurrently(Visit visit) throws Exception {
        Seen seen = new Seen();
        CountDownLatch three = new CountDownLatch(3);
        AtomicInteger running = new AtomicInteger();
        AtomicInteger most = new AtomicInteger();
        visit.sender().sendMessages(IntStream.range(0, 9).mapToObj(number -> new ServiceBusMessage("" + number)).toList());
        started(visit, processor(visit, seen, context -> {
            most.accumulateAndGet(running.incrementAndGet(), Math::max);
            // The first three wait for each other: a server that gave less credit would be found out.
            three.countDown();
            try {
                three.await(Visit.PATIENCE.toSeconds(), TimeUnit.SECONDS);
            } catch (InterruptedException ended) {
                Thread.currentThread().interrupt();
            }
            running.decrementAndGet();
        }).maxConcurrentCalls(3).buildProcessorClient());
        Check.until("nine messages", () -> seen.came().size() == 9);
        Check.same(0L, three.getCount());
        expectEmptySoon(visit);
        Check.same(3, most.get());
        Check.same(0, seen.errors().size());
    }

    private static void session(Visit visit) throws Exception {
        Seen seen = new Seen();
        visit.sender().sendMessages(Visit.inSession("red", "a", "b", "c"));
        started(visit, visit.builder().sessionProcessor().queueName(visit.entity).maxConcurrentSessions(2)
            .processMessage(context -> seen.came().add(context.getMessage()))
            .processError(context -> seen.errors().add(context.getException())).buildProcessorClient());
        Check.until("three messages", () -> seen.came().size() == 3);
        Check.same(List.of("a", "b", "c"), seen.bodies());
        expectEmptySoon(visit);
        Check.same(0, seen.errors().size());
    }

    private static void subscription(Visit visit) throws Exception {
        Seen seen = new Seen();
        started(visit, visit.builder().processor().topicName(visit.entity).subscriptionName("Inventory")
            .processMessage(context -> seen.came().add(context.getMessage()))
            .processError(context -> seen.errors().add(context.getException())).buildProcessorClient());
        List<String> sent = IntStream.range(0, 10).mapToObj(Integer::toString).toList();
        visit.sender().sendMessages(sent.stream().map(ServiceBusMessage::new).toList());
        Check.until("ten copies", () -> seen.came().size() == 10);
        Check.same(sent, seen.bodies());
        Check.until("an empty subscription", () -> Visit.peekAll(visit.subscriber("Inventory")).isEmpty());
        Check.same(0, seen.errors().size());
    }
}
