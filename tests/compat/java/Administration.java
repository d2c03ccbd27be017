import com.azure.core.http.HttpPipelineCallContext;
import com.azure.core.http.HttpPipelineNextPolicy;
import com.azure.core.http.HttpResponse;
import com.azure.core.http.policy.FixedDelayOptions;
import com.azure.core.http.policy.HttpPipelinePolicy;
import com.azure.core.http.policy.RetryOptions;
import com.azure.core.http.rest.PagedResponse;
import com.azure.core.util.UrlBuilder;
import com.azure.messaging.servicebus.ServiceBusMessage;
import com.azure.messaging.servicebus.administration.ServiceBusAdministrationClient;
import com.azure.messaging.servicebus.administration.ServiceBusAdministrationClientBuilder;
import com.azure.messaging.servicebus.administration.models.AccessRights;
import com.azure.messaging.servicebus.administration.models.CorrelationRuleFilter;
import com.azure.messaging.servicebus.administration.models.CreateQueueOptions;
import com.azure.messaging.servicebus.administration.models.CreateRuleOptions;
import com.azure.messaging.servicebus.administration.models.CreateSubscriptionOptions;
import com.azure.messaging.servicebus.administration.models.CreateTopicOptions;
import com.azure.messaging.servicebus.administration.models.EntityStatus;
import com.azure.messaging.servicebus.administration.models.NamespaceProperties;
import com.azure.messaging.servicebus.administration.models.QueueProperties;
import com.azure.messaging.servicebus.administration.models.QueueRuntimeProperties;
import com.azure.messaging.servicebus.administration.models.RuleProperties;
import com.azure.messaging.servicebus.administration.models.SharedAccessAuthorizationRule;
import com.azure.messaging.servicebus.administration.models.SqlRuleAction;
import com.azure.messaging.servicebus.administration.models.SqlRuleFilter;
import com.azure.messaging.servicebus.administration.models.SubscriptionProperties;
import com.azure.messaging.servicebus.administration.models.TopicProperties;
import java.net.MalformedURLException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;
import reactor.core.publisher.Mono;

/** Features of the administration client. The entity of a visit is the prefix of the names that a feature makes. */
final class Administration {
    static final Map<String, Feature> FEATURES = Map.ofEntries(
        Map.entry("namespace", Administration::namespace),
        Map.entry("queue", Administration::queue),
        Map.entry("queue-defaults", Administration::queueDefaults),
        Map.entry("topic", Administration::topic),
        Map.entry("subscription", Administration::subscription),
        Map.entry("default-rule", Administration::defaultRule),
        Map.entry("rules", Administration::rules),
        Map.entry("forwarding", Administration::forwarding),
        Map.entry("authorization-rules", Administration::authorizationRules),
        Map.entry("lists", Administration::lists),
        Map.entry("pages", Administration::pages),
        Map.entry("counts", Administration::counts));

    private Administration() { }

    static ServiceBusAdministrationClient client(Visit visit) {
        return client(visit, visit.target.connectionString());
    }

    /** The SDK always asks for port 443; a policy of the HTTP pipeline leads the requests to the port of the broker. */
    static ServiceBusAdministrationClient client(Visit visit, String connectionString) {
        return new ServiceBusAdministrationClientBuilder()
            .connectionString(connectionString.replaceFirst("localhost:\\d+", "localhost"))
            .retryOptions(new RetryOptions(new FixedDelayOptions(0, Duration.ofMillis(1))))
            .addPolicy(new ToPort(visit.target.httpPort())).buildClient();
    }

    private record ToPort(int port) implements HttpPipelinePolicy {
        @Override
        public Mono<HttpResponse> process(HttpPipelineCallContext context, HttpPipelineNextPolicy next) {
            try {
                context.getHttpRequest().setUrl(
                    UrlBuilder.parse(context.getHttpRequest().getUrl()).setPort(port).toUrl());
            } catch (MalformedURLException impossible) {
                return Mono.error(impossible);
            }
            return next.process();
        }
    }

    private static void namespace(Visit visit) {
        NamespaceProperties namespace = client(visit).getNamespaceProperties();
        Check.same("sbemulatorns", namespace.getName());
        Check.same("Standard", namespace.getMessagingSku().toString());
    }

    private static void queueDefaults(Visit visit) {
        QueueProperties queue = client(visit).createQueue(visit.entity);
        Check.same(
            List.of(Duration.ofMinutes(1), 1024L, false, false, 10, true, EntityStatus.ACTIVE),
            List.of(queue.getLockDuration(), queue.getMaxSizeInMegabytes(), queue.isDuplicateDetectionRequired(),
                queue.isSessionRequired(), queue.getMaxDeliveryCount(), queue.isBatchedOperationsEnabled(),
                queue.getStatus()));
    }

    private static List<Object> chosen(QueueProperties queue) {
        return List.of(queue.getName(), queue.getLockDuration(), queue.getMaxSizeInMegabytes(),
            queue.isDuplicateDetectionRequired(), queue.isSessionRequired(), queue.getDefaultMessageTimeToLive(),
            queue.isDeadLetteringOnMessageExpiration(), queue.getDuplicateDetectionHistoryTimeWindow(),
            queue.getMaxDeliveryCount(), queue.isBatchedOperationsEnabled(), queue.getStatus(),
            queue.getAutoDeleteOnIdle(), queue.getUserMetadata(), queue.getMaxMessageSizeInKilobytes());
    }

    private static void queue(Visit visit) {
        ServiceBusAdministrationClient admin = client(visit);
        String name = visit.entity + "/region/queue";
        Duration life = Duration.parse("P1DT2H3M4.005S");
        String metadata = "for <tests> & \"more\" — with äöü";
        QueueProperties created = admin.createQueue(name, new CreateQueueOptions()
            .setLockDuration(Duration.ofSeconds(13)).setMaxSizeInMegabytes(3072).setDuplicateDetectionRequired(true)
            .setSessionRequired(true).setDefaultMessageTimeToLive(life).setDeadLetteringOnMessageExpiration(true)
            .setDuplicateDetectionHistoryTimeWindow(Duration.ofMinutes(12)).setMaxDeliveryCount(14)
            .setBatchedOperationsEnabled(false).setStatus(EntityStatus.RECEIVE_DISABLED)
            .setAutoDeleteOnIdle(Duration.ofMinutes(10)).setUserMetadata(metadata).setMaxMessageSizeInKilobytes(1024));
        List<Object> expected = List.of(name, Duration.ofSeconds(13), 3072L, true, true, life, true,
            Duration.ofMinutes(12), 14, false, EntityStatus.RECEIVE_DISABLED, Duration.ofMinutes(10), metadata, 1024L);
        Check.same(expected, chosen(created));
        QueueProperties fetched = admin.getQueue(name);
        Check.same(expected, chosen(fetched));
        admin.updateQueue(fetched.setMaxDeliveryCount(15).setStatus(EntityStatus.ACTIVE));
        Check.same(15, admin.getQueue(name).getMaxDeliveryCount());
        admin.deleteQueue(name);
        Check.that(!admin.getQueueExists(name), "the queue was not deleted");
    }

    private static void topic(Visit visit) {
        ServiceBusAdministrationClient admin = client(visit);
        TopicProperties created = admin.createTopic(visit.entity, new CreateTopicOptions()
            .setDefaultMessageTimeToLive(Duration.ofMinutes(11)).setMaxSizeInMegabytes(2048)
            .setDuplicateDetectionRequired(true).setStatus(EntityStatus.SEND_DISABLED).setUserMetadata("a topic"));
        Check.same(List.of(visit.entity, Duration.ofMinutes(11), 2048L, true, EntityStatus.SEND_DISABLED, "a topic"),
            List.of(created.getName(), created.getDefaultMessageTimeToLive(), created.getMaxSizeInMegabytes(),
                created.isDuplicateDetectionRequired(), created.getStatus(), created.getUserMetadata()));
        Check.same("changed", admin.updateTopic(admin.getTopic(visit.entity).setUserMetadata("changed")).getUserMetadata());
        admin.createSubscription(visit.entity, "all");
        admin.deleteTopic(visit.entity);
        Check.that(!admin.getTopicExists(visit.entity), "the topic was not deleted");
    }

    private static void subscription(Visit visit) {
        ServiceBusAdministrationClient admin = client(visit);
        admin.createTopic(visit.entity);
        admin.createSubscription(visit.entity, "all", new CreateSubscriptionOptions()
            .setLockDuration(Duration.ofSeconds(13)).setSessionRequired(true).setMaxDeliveryCount(14)
            .setDeadLetteringOnMessageExpiration(true).setUserMetadata("a subscription"));
        SubscriptionProperties fetched = admin.getSubscription(visit.entity, "all");
        Check.same(List.of(visit.entity, "all", Duration.ofSeconds(13), true, 14, true, "a subscription"),
            List.of(fetched.getTopicName(), fetched.getSubscriptionName(), fetched.getLockDuration(),
                fetched.isSessionRequired(), fetched.getMaxDeliveryCount(),
                fetched.isDeadLetteringOnMessageExpiration(), fetched.getUserMetadata()));
        Check.same(15, admin.updateSubscription(fetched.setMaxDeliveryCount(15)).getMaxDeliveryCount());
        Check.same(List.of("all"), admin.listSubscriptions(visit.entity).stream()
            .map(SubscriptionProperties::getSubscriptionName).toList());
        admin.deleteSubscription(visit.entity, "all");
        Check.that(!admin.getSubscriptionExists(visit.entity, "all"), "the subscription was not deleted");
    }

    private static void defaultRule(Visit visit) {
        ServiceBusAdministrationClient admin = client(visit);
        admin.createTopic(visit.entity);
        admin.createSubscription(visit.entity, "some", "mine", new CreateSubscriptionOptions(),
            new CreateRuleOptions(new SqlRuleFilter("n = 1")));
        List<RuleProperties> rules = admin.listRules(visit.entity, "some").stream().toList();
        Check.same(List.of("mine"), rules.stream().map(RuleProperties::getName).toList());
        Check.same("n = 1", ((SqlRuleFilter) rules.get(0).getFilter()).getSqlExpression());
    }

    private static void rules(Visit visit) {
        ServiceBusAdministrationClient admin = client(visit);
        admin.createTopic(visit.entity);
        admin.createSubscription(visit.entity, "all");
        SqlRuleFilter filter = new SqlRuleFilter("a = @text AND b > @int");
        Map<String, Object> parameters = Map.of("@text", "it's <a> & \"b\" ü", "@int", 5, "@long", 1L << 40,
            "@double", 1.5);
        filter.getParameters().putAll(parameters);
        admin.createRule(visit.entity, "typed", "all",
            new CreateRuleOptions(filter).setAction(new SqlRuleAction("SET x = 1")));
        RuleProperties typed = admin.getRule(visit.entity, "all", "typed");
        Check.same(filter.getSqlExpression(), ((SqlRuleFilter) typed.getFilter()).getSqlExpression());
        Map<String, Object> came = ((SqlRuleFilter) typed.getFilter()).getParameters();
        // The SDK reads every parameter as text.
        parameters.forEach((name, value) -> Check.same("" + value, "" + came.get(name)));
        Check.same("SET x = 1", ((SqlRuleAction) typed.getAction()).getSqlExpression());
        CorrelationRuleFilter correlation = new CorrelationRuleFilter("c").setMessageId("m").setTo("t").setReplyTo("r")
            .setLabel("l").setSessionId("s").setReplyToSessionId("rs").setContentType("text/plain");
        correlation.getProperties().putAll(Map.of("text", "x", "number", 7));
        admin.createRule(visit.entity, "correlation", "all", new CreateRuleOptions(correlation));
        RuleProperties fetched = admin.getRule(visit.entity, "all", "correlation");
        Check.same(correlation.toString(), fetched.getFilter().toString());
        correlation.getProperties().forEach((name, value) ->
            Check.same("" + value, "" + ((CorrelationRuleFilter) fetched.getFilter()).getProperties().get(name)));
        admin.updateRule(visit.entity, "all", fetched.setFilter(new SqlRuleFilter("n = 2")));
        Check.same("n = 2", ((SqlRuleFilter) admin.getRule(visit.entity, "all", "correlation").getFilter())
            .getSqlExpression());
        admin.deleteRule(visit.entity, "all", "$Default");
        Check.same(List.of("correlation", "typed"), admin.listRules(visit.entity, "all").stream()
            .map(RuleProperties::getName).sorted().toList());
    }

    /** The SDK reads ForwardTo as a URL with a scheme that it knows; what was read must be accepted again. */
    private static void forwarding(Visit visit) {
        ServiceBusAdministrationClient admin = client(visit);
        String target = visit.entity + "-target";
        admin.createQueue(target);
        admin.createQueue(visit.entity, new CreateQueueOptions().setForwardTo(target));
        QueueProperties queue = admin.getQueue(visit.entity);
        Check.that(queue.getForwardTo().endsWith(target), queue.getForwardTo());
        QueueProperties updated = admin.updateQueue(queue.setMaxDeliveryCount(7));
        Check.same(queue.getForwardTo(), updated.getForwardTo());
    }

    private static void authorizationRules(Visit visit) {
        ServiceBusAdministrationClient admin = client(visit);
        CreateQueueOptions options = new CreateQueueOptions();
        options.getAuthorizationRules().add(new SharedAccessAuthorizationRule("all", "YWxs", "YWxsMg==",
            List.of(AccessRights.LISTEN, AccessRights.MANAGE, AccessRights.SEND)));
        admin.createQueue(visit.entity, options);
        var rule = admin.getQueue(visit.entity).getAuthorizationRules().get(0);
        Check.same(List.of("all", "YWxs", "YWxsMg=="),
            List.of(rule.getKeyName(), rule.getPrimaryKey(), rule.getSecondaryKey()));
        Check.same(3, rule.getAccessRights().size());
    }

    /** More than a page of the service: a page holds a hundred. */
    private static void lists(Visit visit) {
        ServiceBusAdministrationClient admin = client(visit);
        List<String> expected = IntStream.range(0, 110)
            .mapToObj(number -> String.format("%s-many-%03d", visit.entity, number)).toList();
        expected.forEach(admin::createQueue);
        Check.same(expected, admin.listQueues().stream().map(QueueProperties::getName)
            .filter(name -> name.startsWith(visit.entity + "-many-")).toList());
        expected.forEach(admin::deleteQueue);
        admin.createTopic(visit.entity);
        Check.that(admin.listTopics().stream().anyMatch(topic -> topic.getName().equals(visit.entity)), "no topic");
    }

    /** A list goes on from where one stopped, by the token of a page. */
    private static void pages(Visit visit) {
        ServiceBusAdministrationClient admin = client(visit);
        List<String> names = IntStream.range(0, 110)
            .mapToObj(number -> String.format("%s-%03d", visit.entity, number)).toList();
        names.forEach(admin::createTopic);
        PagedResponse<TopicProperties> first = admin.listTopics().iterableByPage().iterator().next();
        Check.same(100, first.getValue().size());
        List<String> rest = new ArrayList<>();
        admin.listTopics().iterableByPage(first.getContinuationToken()).forEach(
            page -> page.getValue().forEach(topic -> rest.add(topic.getName())));
        Check.that(rest.contains(names.get(109)), "the last topic is missing behind the first page");
        first.getValue().forEach(topic -> Check.that(!rest.contains(topic.getName()), "listed twice"));
        names.forEach(admin::deleteTopic);
    }

    private static void counts(Visit visit) {
        ServiceBusAdministrationClient admin = client(visit);
        admin.createQueue(visit.entity);
        visit.send("one", "two");
        visit.sender().scheduleMessage(new ServiceBusMessage("later"), Visit.in(Visit.FAR));
        QueueRuntimeProperties counts = admin.getQueueRuntimeProperties(visit.entity);
        Check.same(List.of(3L, 2, 1, 0), List.of(counts.getTotalMessageCount(), counts.getActiveMessageCount(),
            counts.getScheduledMessageCount(), counts.getDeadLetterMessageCount()));
        String topic = visit.entity + "-topic";
        admin.createTopic(topic);
        admin.createSubscription(topic, "all");
        visit.senderTo(topic).sendMessage(new ServiceBusMessage("one"));
        Check.same(1, admin.getTopicRuntimeProperties(topic).getSubscriptionCount());
        Check.same(1, admin.getSubscriptionRuntimeProperties(topic, "all").getActiveMessageCount());
    }
}
