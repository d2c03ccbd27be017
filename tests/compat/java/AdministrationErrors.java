import com.azure.core.exception.ClientAuthenticationException;
import com.azure.core.exception.HttpResponseException;
import com.azure.core.exception.ResourceExistsException;
import com.azure.core.exception.ResourceNotFoundException;
import com.azure.messaging.servicebus.administration.ServiceBusAdministrationClient;
import com.azure.messaging.servicebus.administration.models.CreateQueueOptions;
import com.azure.messaging.servicebus.administration.models.CreateRuleOptions;
import com.azure.messaging.servicebus.administration.models.QueueProperties;
import java.time.Duration;
import java.util.List;
import java.util.Map;

/** Features of the administration client: what it learns about entities that are missing, taken, wrong or forbidden. */
final class AdministrationErrors {
    static final Map<String, Feature> FEATURES = Map.of(
        "exists", AdministrationErrors::exists,
        "missing", AdministrationErrors::missing,
        "conflict", AdministrationErrors::conflict,
        "bad-values", AdministrationErrors::badValues,
        "unauthorized", AdministrationErrors::unauthorized);

    private AdministrationErrors() { }

    private static ServiceBusAdministrationClient withTopic(Visit visit) {
        ServiceBusAdministrationClient admin = Administration.client(visit);
        admin.createQueue(visit.entity + "-queue");
        admin.createTopic(visit.entity);
        admin.createSubscription(visit.entity, "all");
        return admin;
    }

    private static void exists(Visit visit) {
        ServiceBusAdministrationClient admin = withTopic(visit);
        Check.same(List.of(true, false, true, false, true, false), List.of(
            admin.getQueueExists(visit.entity + "-queue"), admin.getQueueExists("missing"),
            admin.getTopicExists(visit.entity), admin.getTopicExists("missing"),
            admin.getSubscriptionExists(visit.entity, "all"), admin.getSubscriptionExists(visit.entity, "missing")));
    }

    private static void missing(Visit visit) throws Exception {
        ServiceBusAdministrationClient admin = withTopic(visit);
        List<Check.Action> actions = List.of(
            () -> admin.getQueue("missing"), () -> admin.getTopic("missing"),
            () -> admin.getSubscription(visit.entity, "missing"), () -> admin.getRule(visit.entity, "all", "missing"),
            () -> admin.deleteQueue("missing"), () -> admin.deleteTopic("missing"),
            () -> admin.deleteSubscription(visit.entity, "missing"),
            () -> admin.createSubscription("missing", "all"), () -> admin.getQueueRuntimeProperties("missing"),
            () -> admin.deleteRule(visit.entity, "missing", "missing"));
        for (Check.Action action : actions) Check.raised(ResourceNotFoundException.class, action);
        QueueProperties gone = admin.getQueue(visit.entity + "-queue");
        admin.deleteQueue(visit.entity + "-queue");
        Check.raised(ResourceNotFoundException.class, () -> admin.updateQueue(gone));
    }

    private static void conflict(Visit visit) throws Exception {
        ServiceBusAdministrationClient admin = withTopic(visit);
        List<Check.Action> actions = List.of(
            () -> admin.createQueue(visit.entity + "-queue"), () -> admin.createTopic(visit.entity),
            () -> admin.createTopic(visit.entity + "-queue"), () -> admin.createSubscription(visit.entity, "all"),
            () -> admin.createRule(visit.entity, "$Default", "all", new CreateRuleOptions()));
        for (Check.Action action : actions) Check.raised(ResourceExistsException.class, action);
    }

    private static void badValues(Visit visit) throws Exception {
        ServiceBusAdministrationClient admin = Administration.client(visit);
        refused(400, "LockDuration is P25D", () -> admin.createQueue(
            visit.entity, new CreateQueueOptions().setLockDuration(Duration.ofDays(25))));
        refused(400, "MaxDeliveryCount is 0",
            () -> admin.createQueue(visit.entity, new CreateQueueOptions().setMaxDeliveryCount(0)));
        refused(400, "Name", () -> admin.createQueue(visit.entity + "$"));
        Check.that(!admin.getQueueExists(visit.entity), "a refused queue was made");
    }

    /** Insist on an answer with this status, and with this part of a sentence. */
    private static void refused(int status, String text, Check.Action action) throws Exception {
        HttpResponseException error = Check.raised(HttpResponseException.class, action);
        Check.same(status, error.getResponse().getStatusCode());
        Check.contains(text, error.getMessage());
    }

    private static void unauthorized(Visit visit) throws Exception {
        String wrong = visit.target.connectionString().replaceFirst("SharedAccessKey=[^;]*", "SharedAccessKey=wrong");
        Check.raised(ClientAuthenticationException.class,
            () -> Administration.client(visit, wrong).getNamespaceProperties());
        Check.raised(ClientAuthenticationException.class,
            () -> Administration.client(visit, wrong).createQueue(visit.entity));
        ServiceBusAdministrationClient listener = Administration.client(visit, visit.target.listening());
        Check.contains("'Manage' claim", Check.raised(ClientAuthenticationException.class,
            () -> listener.createQueue(visit.entity)).getMessage());
        Check.raised(ClientAuthenticationException.class, () -> listener.listQueues().stream().toList());
        Check.that(!Administration.client(visit).getQueueExists(visit.entity), "a refused queue was made");
    }
}
