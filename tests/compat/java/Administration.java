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
import com.azure.messaging.servicebus.administration.models.CreateQueueOptions;
import com.azure.messaging.servicebus.administration.models.CreateSubscriptionOptions;
import com.azure.messaging.servicebus.administration.models.CreateTopicOptions;
import com.azure.messaging.servicebus.administration.models.EntityStatus;
import com.azure.messaging.servicebus.administration.models.NamespaceProperties;
import com.azure.messaging.servicebus.administration.models.QueueProperties;
import com.azure.messaging.servicebus.administration.models.QueueRuntimeProperties;
import com.azure.messaging.servicebus.administration.models.SharedAccessAuthorizationRule;
import com.azure.messaging.servicebus.administration.models.SubscriptionProperties;
import com.azure.messaging.servicebus.administration.models.TopicProperties;
import java.net.MalformedURLException;
import java.time.Duration;
import java.time.OffsetDateTime;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Set;
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
        Map.entry("forwarding", Administration::forwarding),
        Map.entry("authorization-rules", Administration::authorizationRules),
        Map.entry("lists", Administration::lists),
        Map.entry("pages", Administration::pages),
        Map.entry("counts", Administration::counts));

    private static final int HTTPS_PORT = 443;
    /** The longest time that the service knows: 2^63 - 1 units of 100 ns. */
    private static final Duration FOR_EVER = Duration.parse("P10675199DT2H48M5.4775807S");

    private Administration() { }

    static ServiceBusAdministrationClient client(Visit visit) {
        return client(visit, visit.target.connectionString());
    }

    /** The SDK always asks for port 443. A policy of the HTTP pipeline leads the requests to a broker on another port. */
    static ServiceBusAdministrationClient client(Visit visit, String connectionString) {
        ServiceBusAdministrationClientBuilder builder = new ServiceBusAdministrationClientBuilder()
            .connectionString(connectionString.replaceFirst("localhost:\\d+", "localhost"))
            .retryOptions(new RetryOptions(new FixedDelayOptions(0, Duration.ofMillis(1))));
        int port = visit.target.httpPort();
        return (port == HTTPS_PORT ? builder : builder.addPolicy(new ToPort(port))).buildClient();
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
        Check.that(!namespace.getCreatedTime().isAfter(OffsetDateTime.now()), "made in the future");
    }

    private static void queueDefaults(Visit visit) {
        QueueProperties queue = client(visit).createQueue(visit.entity);
        // The SDK asks for a window of one minute by itself, where the default of the service is ten.
        Check.same(
            Arrays.asList(visit.entity, Duration.ofMinutes(1), 1024L, false, false, FOR_EVER, false,
                Duration.ofMinutes(1), 10, true, EntityStatus.ACTIVE, FOR_EVER, null, 256L),
            chosen(queue));
        Check.same(false, queue.isPartitioningEnabled());
        Check.same(Arrays.asList(null, null),
            Arrays.asList(queue.getForwardTo(), queue.getForwardDeadLetteredMessagesTo()));
        Check.same(List.of(), queue.getAuthorizationRules());
    }

    private static List<Object> chosen(QueueProperties queue) {
        return Arrays.asList(queue.getName(), queue.getLockDuration(), queue.getMaxSizeInMegabytes(),
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
        QueueProperties updated = admin.updateQueue(fetched.setMaxDeliveryCount(15)
            .setLockDuration(Duration.ofSeconds(15)).setStatus(EntityStatus.ACTIVE));
        List<Object> changed = List.of(name, Duration.ofSeconds(15), 3072L, true, true, life, true,
            Duration.ofMinutes(12), 15, false, EntityStatus.ACTIVE, Duration.ofMinutes(10), metadata, 1024L);
        Check.same(changed, chosen(updated));
        Check.same(changed, chosen(admin.getQueue(name)));
        admin.deleteQueue(name);
        Check.that(!admin.getQueueExists(name), "the queue was not deleted");
    }

    private static void topic(Visit visit) {
        ServiceBusAdministrationClient admin = client(visit);
        TopicProperties created = admin.createTopic(visit.entity, new CreateTopicOptions()
            .setDefaultMessageTimeToLive(Duration.ofMinutes(11)).setMaxSizeInMegabytes(2048)
            .setDuplicateDetectionRequired(true).setDuplicateDetectionHistoryTimeWindow(Duration.ofMinutes(12))
            .setBatchedOperationsEnabled(false).setStatus(EntityStatus.SEND_DISABLED).setOrderingSupported(true)
            .setAutoDeleteOnIdle(Duration.ofMinutes(10)).setUserMetadata("a topic"));
        List<Object> expected = List.of(visit.entity, Duration.ofMinutes(11), 2048L, true, Duration.ofMinutes(12), false,
            EntityStatus.SEND_DISABLED, true, Duration.ofMinutes(10), "a topic");
        Check.same(expected, chosen(created));
        Check.same(expected, chosen(admin.getTopic(visit.entity)));
        Check.same("changed", admin.updateTopic(admin.getTopic(visit.entity).setUserMetadata("changed")).getUserMetadata());
        admin.createSubscription(visit.entity, "all");
        admin.deleteTopic(visit.entity);
        Check.that(!admin.getTopicExists(visit.entity), "the topic was not deleted");
        // The service answers for a subscription of no topic with a list, as it does for the topic: the SDK cannot read it.
        admin.createTopic(visit.entity);
        Check.that(!admin.getSubscriptionExists(visit.entity, "all"), "its subscription was not deleted");
    }

    private static List<Object> chosen(TopicProperties topic) {
        return List.of(topic.getName(), topic.getDefaultMessageTimeToLive(), topic.getMaxSizeInMegabytes(),
            topic.isDuplicateDetectionRequired(), topic.getDuplicateDetectionHistoryTimeWindow(),
            topic.isBatchedOperationsEnabled(), topic.getStatus(), topic.isOrderingSupported(),
            topic.getAutoDeleteOnIdle(), topic.getUserMetadata());
    }

    private static void subscription(Visit visit) {
        ServiceBusAdministrationClient admin = client(visit);
        admin.createTopic(visit.entity);
        SubscriptionProperties created = admin.createSubscription(visit.entity, "all", new CreateSubscriptionOptions()
            .setLockDuration(Duration.ofSeconds(13)).setSessionRequired(true).setMaxDeliveryCount(14)
            .setDefaultMessageTimeToLive(Duration.ofMinutes(11)).setDeadLetteringOnMessageExpiration(true)
            .setEnableDeadLetteringOnFilterEvaluationExceptions(false).setBatchedOperationsEnabled(false)
            .setStatus(EntityStatus.RECEIVE_DISABLED).setAutoDeleteOnIdle(Duration.ofMinutes(10))
            .setUserMetadata("a subscription"));
        List<Object> expected = List.of(visit.entity, "all", Duration.ofSeconds(13), true, 14, Duration.ofMinutes(11),
            true, false, false, EntityStatus.RECEIVE_DISABLED, Duration.ofMinutes(10), "a subscription");
        Check.same(expected, chosen(created));
        SubscriptionProperties fetched = admin.getSubscription(visit.entity, "all");
        Check.same(expected, chosen(fetched));
        Check.same(15, admin.updateSubscription(fetched.setMaxDeliveryCount(15)).getMaxDeliveryCount());
        List<SubscriptionProperties> listed = admin.listSubscriptions(visit.entity).stream().toList();
        Check.same(1, listed.size());
        Check.same(List.of(visit.entity, "all", 15), List.of(listed.get(0).getTopicName(),
            listed.get(0).getSubscriptionName(), listed.get(0).getMaxDeliveryCount()));
        admin.deleteSubscription(visit.entity, "all");
        Check.that(!admin.getSubscriptionExists(visit.entity, "all"), "the subscription was not deleted");
    }

    private static List<Object> chosen(SubscriptionProperties one) {
        return List.of(one.getTopicName(), one.getSubscriptionName(), one.getLockDuration(), one.isSessionRequired(),
            one.getMaxDeliveryCount(), one.getDefaultMessageTimeToLive(), one.isDeadLetteringOnMessageExpiration(),
            one.isDeadLetteringOnFilterEvaluationExceptions(), one.isBatchedOperationsEnabled(), one.getStatus(),
            one.getAutoDeleteOnIdle(), one.getUserMetadata());
    }

    /** The SDK reads ForwardTo as a URL with a scheme that it knows; what was read must be accepted again. */
    private static void forwarding(Visit visit) {
        ServiceBusAdministrationClient admin = client(visit);
        String target = visit.entity + "-target";
        admin.createQueue(target);
        admin.createQueue(visit.entity,
            new CreateQueueOptions().setForwardTo(target).setForwardDeadLetteredMessagesTo(target));
        QueueProperties queue = admin.getQueue(visit.entity);
        Check.that(queue.getForwardTo().matches("https://localhost(:\\d+)?/" + target), queue.getForwardTo());
        Check.same(queue.getForwardTo(), queue.getForwardDeadLetteredMessagesTo());
        QueueProperties updated = admin.updateQueue(queue.setMaxDeliveryCount(7));
        Check.same(List.of(queue.getForwardTo(), queue.getForwardTo(), 7), List.of(updated.getForwardTo(),
            updated.getForwardDeadLetteredMessagesTo(), updated.getMaxDeliveryCount()));
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
        Check.same(Set.of(AccessRights.LISTEN, AccessRights.MANAGE, AccessRights.SEND),
            Set.copyOf(rule.getAccessRights()));
        QueueProperties updated = admin.updateQueue(admin.getQueue(visit.entity));
        Check.same("YWxs", updated.getAuthorizationRules().get(0).getPrimaryKey());
    }

    /** More than a page of the service: a page holds a hundred. */
    private static void lists(Visit visit) throws Exception {
        ServiceBusAdministrationClient admin = client(visit);
        List<String> expected = IntStream.range(0, 110)
            .mapToObj(number -> String.format("%s-many-%03d", visit.entity, number)).toList();
        expected.forEach(admin::createQueue);
        // Others create and delete entities between two pages, and a page begins at a number.
        Check.until("a list of all queues", () -> expected.equals(admin.listQueues().stream()
            .map(QueueProperties::getName).filter(name -> name.startsWith(visit.entity + "-many-")).toList()));
        expected.forEach(admin::deleteQueue);
        admin.createTopic(visit.entity);
        Check.that(admin.listTopics().stream().anyMatch(topic -> topic.getName().equals(visit.entity)), "no topic");
        Check.same(List.of(), admin.listSubscriptions(visit.entity).stream().toList());
    }

    /** A list goes on from where one stopped, by the token of a page. */
    private static void pages(Visit visit) throws Exception {
        ServiceBusAdministrationClient admin = client(visit);
        List<String> names = IntStream.range(0, 110)
            .mapToObj(number -> String.format("%s-%03d", visit.entity, number)).toList();
        names.forEach(admin::createTopic);
        Check.until("two parts of a list", () -> {
            PagedResponse<TopicProperties> first = admin.listTopics().iterableByPage().iterator().next();
            Check.same(100, first.getValue().size());
            List<String> all = new ArrayList<>(first.getValue().stream().map(TopicProperties::getName).toList());
            admin.listTopics().iterableByPage(first.getContinuationToken()).forEach(
                page -> page.getValue().forEach(topic -> all.add(topic.getName())));
            return names.equals(all.stream().filter(name -> name.startsWith(visit.entity + "-")).toList());
        });
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
        Check.that(counts.getSizeInBytes() > 0, "two messages without a size");
        Check.that(!counts.getCreatedAt().isAfter(counts.getAccessedAt()), "used before it was made");
        Check.same(1, admin.getTopicRuntimeProperties(topic).getSubscriptionCount());
        Check.same(1, admin.getSubscriptionRuntimeProperties(topic, "all").getActiveMessageCount());
    }
}
