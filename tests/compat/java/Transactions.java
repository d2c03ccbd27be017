import com.azure.messaging.servicebus.ServiceBusClientBuilder;
import com.azure.messaging.servicebus.ServiceBusMessage;
import com.azure.messaging.servicebus.ServiceBusReceivedMessage;
import com.azure.messaging.servicebus.ServiceBusReceiverClient;
import com.azure.messaging.servicebus.ServiceBusSenderClient;
import com.azure.messaging.servicebus.ServiceBusTransactionContext;
import com.azure.messaging.servicebus.models.CompleteOptions;
import java.util.List;
import java.util.Map;

/** Features of transactions: several operations, all or none. */
final class Transactions {
    static final Map<String, Feature> FEATURES = Map.of(
        "transaction-commit", Transactions::commit,
        "transaction-rollback", Transactions::rollback,
        "transaction-schedule", Transactions::schedule,
        "transaction-across-entities", Transactions::acrossEntities);

    private Transactions() { }

    private static void commit(Visit visit) {
        visit.send("old");
        ServiceBusReceiverClient receiver = visit.receiver();
        ServiceBusReceivedMessage old = visit.takeOne(receiver);
        ServiceBusTransactionContext transaction = visit.sender().createTransaction();
        visit.sender().sendMessage(new ServiceBusMessage("new"), transaction);
        receiver.complete(old, new CompleteOptions().setTransactionContext(transaction));
        Check.same(List.of("old"), Visit.bodies(visit.peekAll()));
        visit.sender().commitTransaction(transaction);
        Check.same(List.of("new"), Visit.bodies(visit.takeAndComplete(receiver, 1)));
        visit.expectEmpty();
    }

    private static void rollback(Visit visit) {
        visit.send("old");
        ServiceBusReceiverClient receiver = visit.receiver();
        ServiceBusReceivedMessage old = visit.takeOne(receiver);
        ServiceBusTransactionContext transaction = visit.sender().createTransaction();
        visit.sender().sendMessage(new ServiceBusMessage("new"), transaction);
        receiver.complete(old, new CompleteOptions().setTransactionContext(transaction));
        visit.sender().rollbackTransaction(transaction);
        Check.same(List.of("old"), Visit.bodies(visit.peekAll()));
    }

    private static void schedule(Visit visit) {
        ServiceBusTransactionContext transaction = visit.sender().createTransaction();
        visit.sender().scheduleMessage(new ServiceBusMessage("never"), Visit.in(Visit.FAR), transaction);
        visit.sender().rollbackTransaction(transaction);
        visit.expectEmpty();
        ServiceBusTransactionContext second = visit.sender().createTransaction();
        visit.sender().scheduleMessage(new ServiceBusMessage("later"), Visit.in(Visit.FAR), second);
        visit.sender().commitTransaction(second);
        Check.same(List.of("later"), Visit.bodies(visit.peekAll()));
    }

    /** From one queue to another: the message leaves the first and arrives in the second, or neither. */
    private static void acrossEntities(Visit visit) {
        visit.send("moved");
        ServiceBusClientBuilder builder = visit.connect().enableCrossEntityTransactions();
        ServiceBusReceiverClient receiver = visit.keep(
            builder.receiver().disableAutoComplete().queueName(visit.entity).buildClient());
        ServiceBusReceivedMessage message = visit.takeOne(receiver);
        ServiceBusSenderClient sender = visit.keep(builder.sender().queueName(visit.entity + "-target").buildClient());
        ServiceBusTransactionContext transaction = receiver.createTransaction();
        receiver.complete(message, new CompleteOptions().setTransactionContext(transaction));
        sender.sendMessage(new ServiceBusMessage(message), transaction);
        receiver.commitTransaction(transaction);
        visit.expectEmpty();
        Check.same(List.of("moved"), Visit.bodies(
            visit.takeAndComplete(visit.receiver(options -> options.queueName(visit.entity + "-target")), 1)));
    }
}
