import com.azure.core.exception.ClientAuthenticationException;
import com.azure.core.exception.HttpResponseException;
import com.azure.core.exception.ResourceExistsException;
import com.azure.core.exception.ResourceNotFoundException;
import com.azure.messaging.servicebus.administration.ServiceBusAdministrationClient;
import com.azure.messaging.servicebus.administration.models.CreateQueueOptions;
import com.azure.messaging.servicebus.administration.models.CreateRuleOptions;
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
            () -> admin.createSubscription("missing", "all"));
        for (Check.Action action : actions) Check.raised(ResourceNotFoundException.class, action);
    }

    private static void conflict(Visit visit) throws Exception {
        ServiceBusAdministrationClient admin = withTopic(visit);
        List<Check.Action> actions = List.of(
            () -> admin.createQueue(visit.entity + "-queue"), () -> admin.createTopic(visit.entity),
            () -> admin.createSubscription(visit.entity, "all"),
            () -> admin.createRule(visit.entity, "$Default", "all", new CreateRuleOptions()));
        for (Check.Action action : actions) Check.raised(ResourceExistsException.class, action);
    }

    private static void badValues(Visit visit) throws Exception {
        ServiceBusAdministrationClient admin = Administration.client(visit);
        HttpResponseException error = Check.raised(HttpResponseException.class, () -> admin.createQueue(
            visit.entity, new CreateQueueOptions().setLockDuration(Duration.ofDays(25))));
        Check.same(400, error.getResponse().getStatusCode());
        Check.that(error.getMessage().contains("LockDuration"), error.getMessage());
        Check.raised(HttpResponseException.class, () -> admin.createQueue(visit.entity + "$"));
    }

    private static void unauthorized(Visit visit) throws Exception {
        String wrong = visit.target.connectionString().replaceFirst("SharedAccessKey=[^;]*", "SharedAccessKey=wrong");
        Check.raised(ClientAuthenticationException.class,
            () -> Administration.client(visit, wrong).createQueue(visit.entity));
        Check.raised(ClientAuthenticationException.class,
            () -> Administration.client(visit, visit.target.listening()).createQueue(visit.entity));
        Check.that(!Administration.client(visit).getQueueExists(visit.entity), "a refused queue was made");
    }
}
