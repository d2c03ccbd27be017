import com.azure.core.amqp.exception.AmqpErrorCondition;
import com.azure.messaging.servicebus.ServiceBusFailureReason;
import com.azure.messaging.servicebus.ServiceBusMessage;
import com.azure.messaging.servicebus.ServiceBusMessageBatch;
import com.azure.messaging.servicebus.ServiceBusReceivedMessage;
import com.azure.messaging.servicebus.ServiceBusReceiverClient;
import com.azure.messaging.servicebus.ServiceBusSenderClient;
import com.azure.messaging.servicebus.ServiceBusSessionReceiverClient;
import com.azure.messaging.servicebus.models.AbandonOptions;
import com.azure.messaging.servicebus.models.DeadLetterOptions;
import com.azure.messaging.servicebus.models.ServiceBusReceiveMode;
import com.azure.messaging.servicebus.models.SubQueue;
import java.time.OffsetDateTime;
import java.util.Arrays;
import java.util.List;
import java.util.Map;

/** Features of topics: one send, a copy in every subscription that selects it. */
final class Topics {
    static final Map<String, Feature> FEATURES = Map.of(
        "publish", Topics::publish,
        "publish-filtered", Topics::publishFiltered,
        "publish-scheduled", Topics::publishScheduled,
        "publish-duplicates", Topics::publishDuplicates,
        "subscription-settlement", Topics::subscriptionSettlement,
        "subscription-sessions", Topics::subscriptionSessions,
        "topic-refusals", Topics::topicRefusals);

    private Topics() { }

    private static List<String> left(Visit visit, String subscription) {
        return Visit.bodies(Visit.peekAll(visit.subscriber(subscription)));
    }

    private static void publish(Visit visit) {
        visit.send("a");
        visit.sender().sendMessages(List.of(new ServiceBusMessage("b"), new ServiceBusMessage("c")));
        ServiceBusMessageBatch batch = visit.sender().createMessageBatch();
        Check.that(batch.tryAddMessage(new ServiceBusMessage("d")) && batch.tryAddMessage(new ServiceBusMessage("e")),
            "two messages do not fit");
        visit.sender().sendMessages(batch);
        List<ServiceBusReceivedMessage> locked = visit.takeAndComplete(visit.subscriber("Inventory"), 5);
        List<ServiceBusReceivedMessage> deleted = visit.take(visit.subscriber(
            "Dashboard", options -> options.receiveMode(ServiceBusReceiveMode.RECEIVE_AND_DELETE)), 5);
        for (List<ServiceBusReceivedMessage> copies : List.of(locked, deleted)) {
            Check.same(List.of("a", "b", "c", "d", "e"), Visit.bodies(copies));
            Check.same(List.of(1L, 2L, 3L, 4L, 5L),
                copies.stream().map(ServiceBusReceivedMessage::getSequenceNumber).toList());
        }
        Check.same(List.of(), left(visit, "Inventory"));
        Check.same(List.of(), left(visit, "Dashboard"));
    }

    private static void publishFiltered(Visit visit) {
        for (String store : List.of("Store1", "Store2", "Store1")) {
            ServiceBusMessage message = new ServiceBusMessage(store);
            message.getApplicationProperties().put("StoreName", store);
            visit.sender().sendMessage(message);
        }
        Check.same(List.of("Store1", "Store2", "Store1"), left(visit, "Inventory"));
        Check.same(List.of("Store1", "Store1"), Visit.bodies(visit.takeAndComplete(visit.subscriber("Dashboard"), 2)));
        Check.same(List.of(), left(visit, "Dashboard"));
    }

    private static void publishScheduled(Visit visit) {
        long cancelled = visit.sender().scheduleMessage(new ServiceBusMessage("cancelled"), Visit.in(Visit.FAR));
        Check.same(List.of(), left(visit, "Inventory"));
        visit.sender().cancelScheduledMessage(cancelled);
        OffsetDateTime due = Visit.in(Visit.SOON);
        visit.sender().scheduleMessage(new ServiceBusMessage("kept"), due);
        for (String name : List.of("Inventory", "Dashboard")) {
            ServiceBusReceivedMessage copy = visit.takeAndComplete(visit.subscriber(name), 1).get(0);
            Check.same("kept", copy.getBody().toString());
            Check.that(!copy.getEnqueuedTime().isBefore(due), "enqueued before it was due");
            Check.same(List.of(), left(visit, name));
        }
    }

    private static void publishDuplicates(Visit visit) {
        for (String body : List.of("first", "again")) {
            visit.sender().sendMessage(new ServiceBusMessage(body).setMessageId("one"));
        }
        visit.sender().sendMessage(new ServiceBusMessage("second").setMessageId("two"));
        Check.same(List.of("first", "second"), left(visit, "Inventory"));
        Check.same(List.of("first", "second"), left(visit, "Dashboard"));
    }

    private static void subscriptionSettlement(Visit visit) {
        visit.send("complete", "abandon", "defer", "dead");
        ServiceBusReceiverClient receiver = visit.subscriber("Inventory");
        List<ServiceBusReceivedMessage> taken = visit.take(receiver, 4);
        OffsetDateTime before = taken.get(0).getLockedUntil();
        Check.that(!receiver.renewMessageLock(taken.get(0)).isBefore(before), "the renewed lock ends earlier");
        receiver.complete(taken.get(0));
        receiver.abandon(taken.get(1), new AbandonOptions().setPropertiesToModify(Map.of("tried", true)));
        receiver.defer(taken.get(2));
        receiver.deadLetter(taken.get(3),
            new DeadLetterOptions().setDeadLetterReason("why").setDeadLetterErrorDescription("because"));
        ServiceBusReceivedMessage again = visit.takeAndComplete(receiver, 1).get(0);
        Check.same(List.of("abandon", 1L, true), List.of(again.getBody().toString(), again.getDeliveryCount(),
            again.getApplicationProperties().get("tried")));
        ServiceBusReceivedMessage deferred = receiver.receiveDeferredMessage(taken.get(2).getSequenceNumber());
        Check.same("defer", deferred.getBody().toString());
        receiver.complete(deferred);
        ServiceBusReceiverClient deadLetters = visit.subscriber(
            "Inventory", options -> options.subQueue(SubQueue.DEAD_LETTER_QUEUE));
        ServiceBusReceivedMessage dead = visit.takeAndComplete(deadLetters, 1).get(0);
        Check.same(List.of("dead", "why", "because"), List.of(dead.getBody().toString(), dead.getDeadLetterReason(),
            dead.getDeadLetterErrorDescription()));
        Check.same(List.of(), left(visit, "Inventory"));
        // The copies of others stay as they are.
        Check.same(List.of("complete", "abandon", "defer", "dead"), left(visit, "Dashboard"));
    }

    private static void subscriptionSessions(Visit visit) {
        visit.sender().sendMessages(Visit.inSession("red", "r1", "r2"));
        visit.sender().sendMessages(Visit.inSession("blue", "b1"));
        ServiceBusSessionReceiverClient sessions = visit.keep(visit.builder().sessionReceiver().disableAutoComplete()
            .topicName(visit.entity).subscriptionName("Sessions").buildClient());
        ServiceBusReceiverClient red = visit.keep(sessions.acceptSession("red"));
        Check.same(List.of("r1", "r2"), Visit.bodies(visit.takeAndComplete(red, 2)));
        red.setSessionState(new byte[] {1, 2});
        Check.that(Arrays.equals(new byte[] {1, 2}, red.getSessionState()), "another state came back");
        Check.same("blue", visit.keep(sessions.acceptNextSession()).getSessionId());
        visit.send("without");
        ServiceBusReceivedMessage dead = visit.takeAndComplete(visit.subscriber(
            "Sessions", options -> options.subQueue(SubQueue.DEAD_LETTER_QUEUE)), 1).get(0);
        Check.same(List.of("without", "Session ID is null"),
            List.of(dead.getBody().toString(), dead.getDeadLetterReason()));
        Check.same(List.of("r1", "r2", "b1", "without"), left(visit, "Plain"));
    }

    private static void topicRefusals(Visit visit) throws Exception {
        ServiceBusReceiverClient fromTopic = visit.receiver();
        Check.notAllowed("subscriptions", () -> fromTopic.receiveMessages(1, Visit.PATIENCE).stream().toList());
        ServiceBusSenderClient toSubscription = visit.senderTo(visit.entity + "/Subscriptions/Inventory");
        Check.notAllowed("send them to the topic", () -> toSubscription.sendMessage(new ServiceBusMessage("smuggled")));
        ServiceBusReceiverClient missing = visit.subscriber("Missing");
        Check.refused(AmqpErrorCondition.NOT_FOUND, () -> missing.receiveMessages(1, Visit.PATIENCE).stream().toList());
        Check.refused(ServiceBusFailureReason.MESSAGING_ENTITY_NOT_FOUND, () -> missing.peekMessage());
        Check.same(List.of(), left(visit, "Inventory"));
        // The connection is none the worse for it.
        visit.send("found");
        Check.same(List.of("found"), Visit.bodies(visit.takeAndComplete(visit.subscriber("Inventory"), 1)));
    }
}
