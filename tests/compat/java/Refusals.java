import com.azure.core.amqp.exception.AmqpErrorCondition;
import com.azure.messaging.servicebus.ServiceBusClientBuilder;
import com.azure.messaging.servicebus.ServiceBusFailureReason;
import com.azure.messaging.servicebus.ServiceBusMessage;
import com.azure.messaging.servicebus.ServiceBusReceivedMessage;
import com.azure.messaging.servicebus.ServiceBusReceiverClient;
import com.azure.messaging.servicebus.ServiceBusSenderClient;
import com.azure.messaging.servicebus.ServiceBusSessionReceiverClient;
import java.util.List;
import java.util.Map;

/** Features of being refused: the reason of the error is what an application decides by. */
final class Refusals {
    static final Map<String, Feature> FEATURES = Map.of(
        "missing-queue", Refusals::missingQueue,
        "wrong-key", Refusals::wrongKey,
        "listen-only", Refusals::listenOnly,
        "message-too-large", Refusals::messageTooLarge,
        "send-disabled", Refusals::sendDisabled,
        "receive-disabled", Refusals::receiveDisabled,
        "session-required", Refusals::sessionRequired,
        "session-not-supported", Refusals::sessionNotSupported,
        "close", Refusals::close);

    private Refusals() { }

    private static void missingQueue(Visit visit) throws Exception {
        ServiceBusFailureReason reason = ServiceBusFailureReason.MESSAGING_ENTITY_NOT_FOUND;
        ServiceBusSenderClient sender = visit.senderTo(visit.entity + "-missing");
        Check.refused(reason, () -> sender.sendMessage(new ServiceBusMessage("lost")));
        ServiceBusReceiverClient receiver = visit.receiver(options -> options.queueName(visit.entity + "-missing"));
        // The SDK has no reason for what ends a receive, only the condition.
        Check.refused(AmqpErrorCondition.NOT_FOUND, () -> receiver.receiveMessages(1, Visit.PATIENCE).stream().toList());
        Check.refused(reason, () -> receiver.peekMessage());
        ServiceBusSessionReceiverClient sessions = visit.keep(visit.builder().sessionReceiver()
            .queueName(visit.entity + "-missing").buildClient());
        Check.refused(AmqpErrorCondition.NOT_FOUND, () -> sessions.acceptSession("red"));
        // The connection is none the worse for it.
        visit.send("found");
        Check.same(List.of("found"), Visit.bodies(visit.takeAndComplete(visit.receiver(), 1)));
    }

    private static void wrongKey(Visit visit) throws Exception {
        ServiceBusClientBuilder stranger =
            visit.connect(visit.target.connectionString().replaceFirst("SharedAccessKey=[^;]*", "SharedAccessKey=wrong"));
        ServiceBusSenderClient sender = visit.keep(stranger.sender().queueName(visit.entity).buildClient());
        Check.refused(ServiceBusFailureReason.UNAUTHORIZED, () -> sender.sendMessage(new ServiceBusMessage("forged")));
        ServiceBusReceiverClient receiver = visit.keep(stranger.receiver().queueName(visit.entity).buildClient());
        Check.refused(AmqpErrorCondition.UNAUTHORIZED_ACCESS,
            () -> receiver.receiveMessages(1, Visit.PATIENCE).stream().toList());
        Check.refused(ServiceBusFailureReason.UNAUTHORIZED, () -> receiver.peekMessage());
        visit.expectEmpty();
    }

    private static void listenOnly(Visit visit) throws Exception {
        visit.send("heard");
        ServiceBusClientBuilder listener = visit.connect(visit.target.listening());
        ServiceBusSenderClient sender = visit.keep(listener.sender().queueName(visit.entity).buildClient());
        Check.refused(ServiceBusFailureReason.UNAUTHORIZED, () -> sender.sendMessage(new ServiceBusMessage("no")));
        ServiceBusReceiverClient receiver = visit.keep(
            listener.receiver().disableAutoComplete().queueName(visit.entity).buildClient());
        Check.same(List.of("heard"), Visit.bodies(visit.takeAndComplete(receiver, 1)));
    }

    private static void messageTooLarge(Visit visit) throws Exception {
        ServiceBusMessage large = new ServiceBusMessage("x".repeat(300_000));
        // One message is measured by the SDK, by the limit that the broker gave for the link, and so is a list.
        Check.refused(ServiceBusFailureReason.MESSAGE_SIZE_EXCEEDED, () -> visit.sender().sendMessage(large));
        Check.refused(ServiceBusFailureReason.MESSAGE_SIZE_EXCEEDED, () -> visit.sender().sendMessages(List.of(large)));
        visit.send("small enough");
        Check.same(List.of("small enough"), Visit.bodies(visit.takeAndComplete(visit.receiver(), 1)));
    }

    private static void sendDisabled(Visit visit) throws Exception {
        Check.refused(ServiceBusFailureReason.MESSAGING_ENTITY_DISABLED, () -> visit.send("not now"));
        visit.expectEmpty();
    }

    private static void receiveDisabled(Visit visit) throws Exception {
        visit.send("kept");
        ServiceBusReceiverClient receiver = visit.receiver();
        Check.refused(AmqpErrorCondition.ENTITY_DISABLED_ERROR,
            () -> receiver.receiveMessages(1, Visit.PATIENCE).stream().toList());
    }

    /** A queue with sessions takes no message without one, and no receiver without one. */
    private static void sessionRequired(Visit visit) throws Exception {
        Check.notAllowed("The SessionId was not set on a message", () -> visit.send("astray"));
        ServiceBusReceiverClient receiver = visit.receiver();
        Check.notAllowed("an entity that requires sessions to create a non-sessionful message receiver",
            () -> receiver.receiveMessages(1, Visit.PATIENCE).stream().toList());
        visit.expectEmpty();
    }

    private static void sessionNotSupported(Visit visit) throws Exception {
        Check.notAllowed("A sessionful message receiver cannot be created on an entity that does not require sessions",
            () -> visit.sessions().acceptSession("red"));
    }

    private static void close(Visit visit) throws Exception {
        ServiceBusClientBuilder own = visit.connect();
        ServiceBusSenderClient sender = own.sender().queueName(visit.entity).buildClient();
        ServiceBusReceiverClient receiver = own.receiver().disableAutoComplete().queueName(visit.entity).buildClient();
        sender.sendMessages(List.of(new ServiceBusMessage("a"), new ServiceBusMessage("b")));
        List<ServiceBusReceivedMessage> taken = visit.take(receiver, 2);
        Check.same(List.of("a", "b"), Visit.bodies(taken));
        sender.close();
        receiver.close();
        // The SDK refuses by itself what its closed clients are asked for.
        Check.contains("sendMessage", Check.raised(IllegalStateException.class,
            () -> sender.sendMessage(new ServiceBusMessage("c"))).getMessage());
        Check.contains("peek", Check.raised(IllegalStateException.class, () -> receiver.peekMessage()).getMessage());
        Check.contains("The receiver client is terminated", Check.raised(RuntimeException.class,
            () -> receiver.receiveMessages(1, Visit.SILENCE).stream().toList()).getMessage());
        Check.raised(IllegalStateException.class, () -> receiver.complete(taken.get(0)));
        // Locks outlive the connection: nobody else gets the messages before their end.
        visit.expectSilence(visit.receiver());
        Check.same(List.of("a", "b"), Visit.bodies(visit.peekAll()));
    }
}
