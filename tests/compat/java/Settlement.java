import com.azure.messaging.servicebus.ServiceBusFailureReason;
import com.azure.messaging.servicebus.ServiceBusMessage;
import com.azure.messaging.servicebus.ServiceBusReceivedMessage;
import com.azure.messaging.servicebus.ServiceBusReceiverClient;
import com.azure.messaging.servicebus.models.AbandonOptions;
import com.azure.messaging.servicebus.models.DeadLetterOptions;
import com.azure.messaging.servicebus.models.DeferOptions;
import com.azure.messaging.servicebus.models.ServiceBusMessageState;
import java.time.Duration;
import java.time.OffsetDateTime;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.NoSuchElementException;

/** Features of peek-lock: what can be done with a locked message, and what happens when nothing is done. */
final class Settlement {
    static final Map<String, Feature> FEATURES = Map.ofEntries(
        Map.entry("complete", Settlement::complete),
        Map.entry("abandon", Settlement::abandon),
        Map.entry("defer", Settlement::defer),
        Map.entry("deferred-settlement", Settlement::deferredSettlement),
        Map.entry("deferred-receive-and-delete", Settlement::deferredReceiveAndDelete),
        Map.entry("dead-letter", Settlement::deadLetter),
        Map.entry("dead-letter-twice", Settlement::deadLetterTwice),
        Map.entry("max-delivery-count", Settlement::maxDeliveryCount),
        Map.entry("renew-lock", Settlement::renewLock),
        Map.entry("auto-renewal", Settlement::autoRenewal),
        Map.entry("lock-lost", Settlement::lockLost),
        Map.entry("settle-after-close", Settlement::settleAfterClose));

    private static final Map<String, Object> MODIFICATIONS = Map.of("colour", "red", "weight", 3, "ratio", 0.5, "heavy", true);
    private static final Map<String, Object> MODIFIED = modified();

    private Settlement() { }

    private static Map<String, Object> modified() {
        Map<String, Object> all = new HashMap<>(MODIFICATIONS);
        all.put("kept", "as sent");
        return all;
    }

    private static ServiceBusReceivedMessage sendAndTake(Visit visit, ServiceBusReceiverClient receiver) {
        ServiceBusMessage message = new ServiceBusMessage("hello").setMessageId("id of hello");
        message.getApplicationProperties().putAll(Map.of("kept", "as sent", "colour", "none"));
        visit.sender().sendMessage(message);
        return visit.takeOne(receiver);
    }

    private static void complete(Visit visit) {
        ServiceBusReceiverClient receiver = visit.receiver();
        receiver.complete(sendAndTake(visit, receiver));
        visit.expectEmpty();
        visit.expectSilence(receiver);
    }

    private static void abandon(Visit visit) {
        ServiceBusReceiverClient receiver = visit.receiver();
        ServiceBusReceivedMessage message = sendAndTake(visit, receiver);
        visit.send("behind it");
        receiver.abandon(message, new AbandonOptions().setPropertiesToModify(MODIFICATIONS));
        List<ServiceBusReceivedMessage> taken = visit.takeAndComplete(receiver, 2);
        Check.same(List.of("hello", "behind it"), Visit.bodies(taken));
        ServiceBusReceivedMessage again = taken.get(0);
        Check.same(message.getSequenceNumber(), again.getSequenceNumber());
        Check.same(message.getMessageId(), again.getMessageId());
        Check.same(List.of(0L, 1L), List.of(message.getDeliveryCount(), again.getDeliveryCount()));
        Check.that(!message.getLockToken().equals(again.getLockToken()), "the lock is the old one");
        Check.same(MODIFIED, again.getApplicationProperties());
    }

    private static void defer(Visit visit) throws Exception {
        ServiceBusReceiverClient receiver = visit.receiver();
        ServiceBusReceivedMessage message = sendAndTake(visit, receiver);
        receiver.defer(message, new DeferOptions().setPropertiesToModify(MODIFICATIONS));
        visit.expectSilence(receiver);
        Check.same(ServiceBusMessageState.DEFERRED, visit.peekAll().get(0).getState());
        ServiceBusReceivedMessage deferred = receiver.receiveDeferredMessage(message.getSequenceNumber());
        Check.same(MODIFIED, deferred.getApplicationProperties());
        Check.same(List.of("hello", ServiceBusMessageState.DEFERRED, 1L),
            List.of(deferred.getBody().toString(), deferred.getState(), deferred.getDeliveryCount()));
        receiver.complete(deferred);
        visit.expectEmpty();
        // The SDK takes the answer that there is no such message for an empty one, of which it wants the last element.
        Check.raised(NoSuchElementException.class, () -> receiver.receiveDeferredMessage(message.getSequenceNumber()));
        Check.same(List.of(), Visit.bodies(
            receiver.receiveDeferredMessageBatch(List.of(message.getSequenceNumber())).stream().toList()));
    }

    private static void deferredSettlement(Visit visit) {
        ServiceBusReceiverClient receiver = visit.receiver();
        ServiceBusReceivedMessage message = sendAndTake(visit, receiver);
        long number = message.getSequenceNumber();
        receiver.defer(message);
        ServiceBusReceivedMessage deferred = receiver.receiveDeferredMessage(number);
        OffsetDateTime locked = deferred.getLockedUntil();
        Check.that(!receiver.renewMessageLock(deferred).isBefore(locked), "the renewed lock ends earlier");
        receiver.abandon(deferred, new AbandonOptions().setPropertiesToModify(MODIFICATIONS));
        deferred = receiver.receiveDeferredMessage(number);
        Check.same(MODIFIED, deferred.getApplicationProperties());
        Check.same(List.of(ServiceBusMessageState.DEFERRED, 2L), List.of(deferred.getState(), deferred.getDeliveryCount()));
        receiver.defer(deferred, new DeferOptions().setPropertiesToModify(Map.of("colour", "blue")));
        deferred = receiver.receiveDeferredMessage(number);
        Check.same("blue", deferred.getApplicationProperties().get("colour"));
        receiver.deadLetter(deferred, new DeadLetterOptions().setDeadLetterReason("why")
            .setDeadLetterErrorDescription("how").setPropertiesToModify(Map.of("extra", 1)));
        visit.expectEmpty();
        ServiceBusReceivedMessage dead = visit.takeAndComplete(visit.deadLetters(), 1).get(0);
        Check.same(List.of("why", "how", 1), List.of(dead.getDeadLetterReason(), dead.getDeadLetterErrorDescription(),
            dead.getApplicationProperties().get("extra")));
    }

    private static void deferredReceiveAndDelete(Visit visit) {
        ServiceBusReceiverClient receiver = visit.receiver();
        ServiceBusReceivedMessage message = sendAndTake(visit, receiver);
        receiver.defer(message);
        Check.same("hello",
            visit.deletingReceiver().receiveDeferredMessage(message.getSequenceNumber()).getBody().toString());
        visit.expectEmpty();
    }

    private static void deadLetter(Visit visit) {
        ServiceBusReceiverClient receiver = visit.receiver();
        receiver.deadLetter(sendAndTake(visit, receiver), new DeadLetterOptions().setDeadLetterReason("unreadable")
            .setDeadLetterErrorDescription("no such colour").setPropertiesToModify(MODIFICATIONS));
        visit.expectEmpty();
        ServiceBusReceivedMessage dead = visit.takeAndComplete(visit.deadLetters(), 1).get(0);
        // Being dead-lettered is not a failed delivery.
        Check.same(List.of("hello", "id of hello", "unreadable", "no such colour", 0L),
            List.of(dead.getBody().toString(), dead.getMessageId(), dead.getDeadLetterReason(),
                dead.getDeadLetterErrorDescription(), dead.getDeliveryCount()));
        Map<String, Object> properties = new HashMap<>(MODIFIED);
        properties.put("DeadLetterReason", "unreadable");
        properties.put("DeadLetterErrorDescription", "no such colour");
        Check.same(properties, dead.getApplicationProperties());
        Check.same(List.of(), Visit.bodies(Visit.peekAll(visit.deadLetters())));
    }

    private static void deadLetterTwice(Visit visit) throws Exception {
        ServiceBusReceiverClient receiver = visit.receiver();
        receiver.deadLetter(sendAndTake(visit, receiver));
        ServiceBusReceiverClient deadLetters = visit.deadLetters();
        ServiceBusReceivedMessage dead = visit.takeOne(deadLetters);
        // A receiver that did not receive the message asks the management node, and learns of the refusal.
        ServiceBusReceiverClient other = visit.deadLetters();
        Check.notAllowed("A message of a dead-letter queue cannot be dead-lettered again", () -> other.deadLetter(dead));
        // On the link of the message the SDK takes the refusal for a success: both are the outcome "rejected".
        deadLetters.deadLetter(dead);
        Check.same(List.of("hello"), Visit.bodies(Visit.peekAll(visit.deadLetters())));
    }

    private static void maxDeliveryCount(Visit visit) {
        ServiceBusReceiverClient receiver = visit.receiver();
        receiver.abandon(sendAndTake(visit, receiver));
        ServiceBusReceivedMessage last = visit.takeOne(receiver);
        Check.same(1L, last.getDeliveryCount());
        receiver.abandon(last);
        Check.same("MaxDeliveryCountExceeded",
            visit.takeAndComplete(visit.deadLetters(), 1).get(0).getDeadLetterReason());
        visit.expectEmpty();
    }

    private static void renewLock(Visit visit) throws Exception {
        ServiceBusReceiverClient receiver = visit.receiver(options -> options.maxAutoLockRenewDuration(Duration.ZERO));
        ServiceBusReceivedMessage message = sendAndTake(visit, receiver);
        OffsetDateTime before = message.getLockedUntil();
        Check.pause(Duration.ofMillis(20));
        Check.rising(before, receiver.renewMessageLock(message));
        receiver.complete(message);
        Check.refused(ServiceBusFailureReason.MESSAGE_LOCK_LOST, () -> receiver.renewMessageLock(message));
    }

    /** The lock of the queue lasts 10 s. */
    private static void autoRenewal(Visit visit) throws Exception {
        ServiceBusReceiverClient receiver = visit.receiver();
        ServiceBusReceivedMessage message = sendAndTake(visit, receiver);
        OffsetDateTime end = message.getLockedUntil();
        receiver.renewMessageLock(message, Duration.ofMinutes(1), error -> { });
        Check.until("the end of the first lock", () -> OffsetDateTime.now().isAfter(end.plusNanos(500_000_000)));
        receiver.complete(message);
        visit.expectEmpty();
    }

    /** The lock of the queue lasts 1 s. */
    private static void lockLost(Visit visit) throws Exception {
        ServiceBusReceiverClient receiver = visit.receiver(options -> options.maxAutoLockRenewDuration(Duration.ZERO));
        ServiceBusReceivedMessage message = sendAndTake(visit, receiver);
        ServiceBusReceiverClient other = visit.receiver(options -> options.maxAutoLockRenewDuration(Duration.ZERO));
        ServiceBusReceivedMessage again = visit.takeOne(other);
        Check.same(message.getDeliveryCount() + 1, again.getDeliveryCount());
        Check.that(!message.getLockToken().equals(again.getLockToken()), "the lock is the old one");
        Check.refused(ServiceBusFailureReason.MESSAGE_LOCK_LOST, () -> receiver.complete(message));
        Check.same(List.of("hello"), Visit.bodies(visit.peekAll()));
    }

    /** The lock outlives the link: another receiver settles through the management node. */
    private static void settleAfterClose(Visit visit) {
        ServiceBusReceiverClient receiver = visit.receiver();
        ServiceBusReceivedMessage abandoned = sendAndTake(visit, receiver);
        ServiceBusReceivedMessage completed = sendAndTake(visit, receiver);
        ServiceBusReceiverClient kept = visit.receiver();
        receiver.close();
        kept.complete(completed);
        kept.abandon(abandoned, new AbandonOptions().setPropertiesToModify(MODIFICATIONS));
        ServiceBusReceivedMessage again = visit.takeAndComplete(kept, 1).get(0);
        Check.same(List.of(abandoned.getSequenceNumber(), 1L), List.of(again.getSequenceNumber(), again.getDeliveryCount()));
        Check.same(MODIFIED, again.getApplicationProperties());
        visit.expectEmpty();
    }
}
