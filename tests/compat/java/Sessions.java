import com.azure.core.amqp.AmqpRetryOptions;
import com.azure.core.amqp.exception.AmqpErrorCondition;
import com.azure.core.amqp.exception.AmqpException;
import com.azure.messaging.servicebus.ServiceBusFailureReason;
import com.azure.messaging.servicebus.ServiceBusMessage;
import com.azure.messaging.servicebus.ServiceBusReceivedMessage;
import com.azure.messaging.servicebus.ServiceBusReceiverClient;
import com.azure.messaging.servicebus.ServiceBusSessionReceiverClient;
import com.azure.messaging.servicebus.models.AbandonOptions;
import com.azure.messaging.servicebus.models.DeadLetterOptions;
import com.azure.messaging.servicebus.models.DeferOptions;
import com.azure.messaging.servicebus.models.ServiceBusReceiveMode;
import java.time.Duration;
import java.nio.charset.StandardCharsets;
import java.time.OffsetDateTime;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicReference;
import java.util.stream.IntStream;

/** Features of sessions: one receiver at a time, its messages in order, and a state beside them. */
final class Sessions {
    static final Map<String, Feature> FEATURES = Map.ofEntries(
        Map.entry("accept-session", Sessions::acceptSession),
        Map.entry("session-order", Sessions::sessionOrder),
        Map.entry("accept-next-session", Sessions::acceptNextSession),
        Map.entry("next-session-waits", Sessions::nextSessionWaits),
        Map.entry("next-session-timeout", Sessions::nextSessionTimeout),
        Map.entry("session-cannot-be-locked", Sessions::sessionCannotBeLocked),
        Map.entry("session-handover", Sessions::sessionHandover),
        Map.entry("session-state", Sessions::sessionState),
        Map.entry("renew-session-lock", Sessions::renewSessionLock),
        Map.entry("session-lock-lost", Sessions::sessionLockLost),
        Map.entry("session-settlement", Sessions::sessionSettlement),
        Map.entry("session-peek", Sessions::sessionPeek),
        Map.entry("session-receive-and-delete", Sessions::sessionReceiveAndDelete),
        Map.entry("session-schedule", Sessions::sessionSchedule));

    private Sessions() { }

    private static ServiceBusSessionReceiverClient withoutRenewal(Visit visit) {
        return visit.keep(visit.builder().sessionReceiver().disableAutoComplete().queueName(visit.entity)
            .maxAutoLockRenewDuration(Duration.ZERO).buildClient());
    }

    private static void acceptSession(Visit visit) {
        visit.sender().sendMessages(Visit.inSession("red", "r1", "r2"));
        visit.sender().sendMessages(Visit.inSession("blue", "b1"));
        OffsetDateTime before = Visit.now();
        ServiceBusReceiverClient red = visit.session("red");
        Check.same("red", red.getSessionId());
        List<ServiceBusReceivedMessage> taken = visit.takeAndComplete(red, 2);
        Check.same(List.of("r1", "r2"), Visit.bodies(taken));
        // The lock of a message is that of its session.
        Visit.expectMinuteLock(taken.get(0).getLockedUntil(), before);
        for (ServiceBusReceivedMessage message : taken) Check.same("red", message.getSessionId());
        visit.expectSilence(red);
        Check.same(List.of("b1"), Visit.bodies(visit.peekAll()));
    }

    private static void sessionOrder(Visit visit) {
        visit.sender().sendMessages(IntStream.range(0, 50).mapToObj(number ->
            new ServiceBusMessage("" + number).setSessionId(number % 2 == 0 ? "even" : "odd")).toList());
        ServiceBusReceiverClient odd = visit.session("odd");
        ServiceBusReceiverClient even = visit.session("even");
        Check.same(IntStream.range(0, 25).mapToObj(number -> "" + (2 * number + 1)).toList(),
            Visit.bodies(visit.takeAndComplete(odd, 25)));
        Check.same(IntStream.range(0, 25).mapToObj(number -> "" + 2 * number).toList(),
            Visit.bodies(visit.takeAndComplete(even, 25)));
        visit.expectEmpty();
    }

    private static void acceptNextSession(Visit visit) {
        visit.sender().sendMessages(Visit.inSession("red", "r1"));
        visit.sender().sendMessages(Visit.inSession("blue", "b1"));
        ServiceBusReceiverClient one = visit.keep(visit.sessions().acceptNextSession());
        ServiceBusReceiverClient other = visit.keep(visit.sessions().acceptNextSession());
        Check.same(Set.of("red", "blue"), Set.of(one.getSessionId(), other.getSessionId()));
        for (ServiceBusReceiverClient receiver : List.of(one, other)) {
            Check.same(receiver.getSessionId(), visit.takeAndComplete(receiver, 1).get(0).getSessionId());
        }
    }

    private static void nextSessionWaits(Visit visit) throws Exception {
        ServiceBusSessionReceiverClient sessions = visit.sessions();
        CompletableFuture<ServiceBusReceiverClient> waiting =
            CompletableFuture.supplyAsync(() -> visit.keep(sessions.acceptNextSession()));
        Thread.sleep(200);
        visit.sender().sendMessages(Visit.inSession("late", "l1"));
        Check.same("late", waiting.get().getSessionId());
        Check.same(List.of("l1"), Visit.bodies(visit.takeAndComplete(waiting.get(), 1)));
    }

    private static void nextSessionTimeout(Visit visit) throws Exception {
        ServiceBusSessionReceiverClient sessions = visit.keep(visit.connect()
            .retryOptions(new AmqpRetryOptions().setMaxRetries(0).setTryTimeout(Duration.ofSeconds(5)))
            .sessionReceiver().queueName(visit.entity).buildClient());
        // The answer of the broker: the SDK reports its own timer in another way.
        Check.refused(AmqpErrorCondition.TIMEOUT_ERROR, sessions::acceptNextSession);
        // The wait has left nothing behind that could take the next session.
        visit.sender().sendMessages(Visit.inSession("red", "r1"));
        Check.same("red", visit.keep(visit.sessions().acceptNextSession()).getSessionId());
    }

    private static void sessionCannotBeLocked(Visit visit) throws Exception {
        ServiceBusReceiverClient holder = visit.session("red");
        ServiceBusSessionReceiverClient other = elsewhere(visit);
        Check.refused(AmqpErrorCondition.SESSION_CANNOT_BE_LOCKED, () -> other.acceptSession("red"));
        holder.close();
        Check.same("red", acceptedSoon(visit, other).getSessionId());
    }

    /** Sessions over a connection of their own: on the same one the SDK may accept a session by a link that is closing. */
    private static ServiceBusSessionReceiverClient elsewhere(Visit visit) {
        return visit.keep(visit.connect().sessionReceiver().queueName(visit.entity).buildClient());
    }

    /** Accept the session "red", which another receiver has closed: the SDK does not wait for the confirmation. */
    private static ServiceBusReceiverClient acceptedSoon(Visit visit, ServiceBusSessionReceiverClient sessions)
            throws InterruptedException {
        AtomicReference<ServiceBusReceiverClient> accepted = new AtomicReference<>();
        Check.until("the session", () -> {
            try {
                accepted.set(visit.keep(sessions.acceptSession("red")));
                return true;
            } catch (AmqpException refusal) {
                Check.same(AmqpErrorCondition.SESSION_CANNOT_BE_LOCKED, refusal.getErrorCondition());
                return false;
            }
        });
        return accepted.get();
    }

    private static void sessionHandover(Visit visit) {
        visit.sender().sendMessages(Visit.inSession("red", "r1", "r2", "r3"));
        ServiceBusReceiverClient holder = visit.session("red");
        holder.complete(visit.take(holder, 2).get(0));
        holder.close();
        ServiceBusReceiverClient next = visit.keep(visit.sessions().acceptNextSession());
        Check.same("red", next.getSessionId());
        List<ServiceBusReceivedMessage> taken = visit.takeAndComplete(next, 2);
        Check.same(List.of("r2", "r3"), Visit.bodies(taken));
        // Closing a session is not a failed delivery; a lock that ends is one.
        Check.same(List.of(0L, 0L), taken.stream().map(ServiceBusReceivedMessage::getDeliveryCount).toList());
        visit.expectEmpty();
    }

    private static void sessionState(Visit visit) throws Exception {
        ServiceBusReceiverClient receiver = visit.session("red");
        Check.that(receiver.getSessionState() == null, "a new session has a state");
        byte[] state = {0, 1, -1};
        receiver.setSessionState("replaced".getBytes(StandardCharsets.UTF_8));
        receiver.setSessionState(state);
        Check.that(Arrays.equals(state, receiver.getSessionState()), "another state came back");
        receiver.close();
        ServiceBusReceiverClient next = acceptedSoon(visit, elsewhere(visit));
        Check.that(Arrays.equals(state, next.getSessionState()), "the next receiver sees another state");
        next.setSessionState(null);
        Check.that(next.getSessionState() == null, "the state was not cleared");
    }

    private static void renewSessionLock(Visit visit) throws Exception {
        ServiceBusReceiverClient receiver = visit.keep(withoutRenewal(visit).acceptSession("red"));
        OffsetDateTime first = receiver.renewSessionLock();
        Check.pause(Duration.ofMillis(20));
        Check.rising(first, receiver.renewSessionLock());
    }

    /** The lock of the queue lasts 10 s. */
    private static void sessionLockLost(Visit visit) throws Exception {
        visit.sender().sendMessages(Visit.inSession("red", "r1"));
        ServiceBusReceiverClient receiver = visit.keep(withoutRenewal(visit).acceptSession("red"));
        ServiceBusReceivedMessage message = visit.takeOne(receiver);
        ServiceBusReceiverClient next = visit.keep(visit.sessions().acceptNextSession());
        Check.refused(ServiceBusFailureReason.SESSION_LOCK_LOST, () -> receiver.complete(message));
        ServiceBusReceivedMessage again = visit.takeAndComplete(next, 1).get(0);
        Check.same("r1", again.getBody().toString());
        Check.same(message.getDeliveryCount() + 1, again.getDeliveryCount());
    }

    private static void sessionSettlement(Visit visit) {
        visit.sender().sendMessages(Visit.inSession("red", "abandoned", "deferred", "dead"));
        ServiceBusReceiverClient receiver = visit.session("red");
        List<ServiceBusReceivedMessage> taken = visit.take(receiver, 3);
        receiver.defer(taken.get(1), new DeferOptions().setPropertiesToModify(Map.of("colour", "red")));
        receiver.deadLetter(taken.get(2), new DeadLetterOptions().setDeadLetterReason("why")
            .setDeadLetterErrorDescription("how"));
        receiver.abandon(taken.get(0), new AbandonOptions().setPropertiesToModify(Map.of("colour", "red")));
        ServiceBusReceivedMessage again = visit.takeAndComplete(receiver, 1).get(0);
        Check.same("abandoned 1 red", again.getBody() + " " + again.getDeliveryCount() + " "
            + again.getApplicationProperties().get("colour"));
        ServiceBusReceivedMessage deferred = receiver.receiveDeferredMessage(taken.get(1).getSequenceNumber());
        Check.same("deferred red", deferred.getBody() + " " + deferred.getApplicationProperties().get("colour"));
        receiver.complete(deferred);
        ServiceBusReceivedMessage dead = visit.takeAndComplete(visit.deadLetters(), 1).get(0);
        Check.same(List.of("dead", "red", "why", "how"), List.of(dead.getBody().toString(), dead.getSessionId(),
            dead.getDeadLetterReason(), dead.getDeadLetterErrorDescription()));
        visit.expectEmpty();
    }

    private static void sessionPeek(Visit visit) {
        visit.sender().sendMessages(Visit.inSession("red", "r1"));
        visit.sender().sendMessages(Visit.inSession("blue", "b1"));
        visit.sender().sendMessages(Visit.inSession("red", "r2"));
        Check.same(List.of("r1", "r2"), Visit.bodies(visit.session("red").peekMessages(10).stream().toList()));
        Check.same(List.of("r1", "b1", "r2"), Visit.bodies(visit.peekAll()));
    }

    private static void sessionReceiveAndDelete(Visit visit) {
        visit.sender().sendMessages(Visit.inSession("red", "r1", "r2"));
        ServiceBusReceiverClient receiver = visit.keep(visit.keep(visit.builder().sessionReceiver()
            .queueName(visit.entity).receiveMode(ServiceBusReceiveMode.RECEIVE_AND_DELETE).buildClient())
            .acceptSession("red"));
        Check.same(List.of("r1", "r2"), Visit.bodies(visit.take(receiver, 2)));
        visit.expectEmpty();
    }

    private static void sessionSchedule(Visit visit) {
        visit.sender().scheduleMessage(Visit.inSession("red", "r1").get(0), Visit.in(Visit.SOON));
        ServiceBusReceiverClient receiver = visit.keep(visit.sessions().acceptNextSession());
        Check.same("red", receiver.getSessionId());
        Check.same(List.of("r1"), Visit.bodies(visit.takeAndComplete(receiver, 1)));
    }
}
