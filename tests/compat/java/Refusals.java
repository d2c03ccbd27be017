import com.azure.core.amqp.exception.AmqpErrorCondition;
import com.azure.messaging.servicebus.ServiceBusClientBuilder;
import com.azure.messaging.servicebus.ServiceBusFailureReason;
import com.azure.messaging.servicebus.ServiceBusMessage;
import com.azure.messaging.servicebus.ServiceBusReceiverClient;
import com.azure.messaging.servicebus.ServiceBusSenderClient;
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
        Check.refused(reason, () -> receiver.peekMessage());
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
        Check.raised(Exception.class, () -> visit.sender().sendMessage(large));
        visit.send("small enough");
        Check.same(List.of("small enough"), Visit.bodies(visit.takeAndComplete(visit.receiver(), 1)));
    }

    private static void sendDisabled(Visit visit) throws Exception {
        Check.refused(ServiceBusFailureReason.MESSAGING_ENTITY_DISABLED, () -> visit.send("not now"));
    }

    private static void receiveDisabled(Visit visit) throws Exception {
        visit.send("kept");
        ServiceBusReceiverClient receiver = visit.receiver();
        Check.refused(AmqpErrorCondition.ENTITY_DISABLED_ERROR,
            () -> receiver.receiveMessages(1, Visit.PATIENCE).stream().toList());
    }

    private static void sessionRequired(Visit visit) throws Exception {
        Check.raised(Exception.class, () -> visit.send("astray"));
        ServiceBusReceiverClient receiver = visit.receiver();
        Check.raised(Exception.class, () -> receiver.receiveMessages(1, Visit.PATIENCE).stream().toList());
        visit.expectEmpty();
    }

    private static void sessionNotSupported(Visit visit) throws Exception {
        Check.raised(Exception.class, () -> visit.sessions().acceptSession("red"));
    }

    private static void close(Visit visit) throws Exception {
        ServiceBusClientBuilder own = visit.connect();
        ServiceBusSenderClient sender = own.sender().queueName(visit.entity).buildClient();
        ServiceBusReceiverClient receiver = own.receiver().disableAutoComplete().queueName(visit.entity).buildClient();
        sender.sendMessage(new ServiceBusMessage("a"));
        visit.take(receiver, 1);
        sender.close();
        receiver.close();
        Check.raised(Exception.class, () -> sender.sendMessage(new ServiceBusMessage("b")));
        Check.raised(Exception.class, () -> receiver.peekMessage());
        // The lock outlives the connection: nobody else gets the message before its end.
        visit.expectSilence(visit.receiver());
        Check.same(List.of("a"), Visit.bodies(visit.peekAll()));
    }
}
