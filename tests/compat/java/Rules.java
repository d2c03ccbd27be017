import com.azure.messaging.servicebus.ServiceBusFailureReason;
import com.azure.messaging.servicebus.ServiceBusMessage;
import com.azure.messaging.servicebus.ServiceBusReceivedMessage;
import com.azure.messaging.servicebus.ServiceBusReceiverClient;
import com.azure.messaging.servicebus.ServiceBusRuleManagerClient;
import com.azure.messaging.servicebus.administration.models.CorrelationRuleFilter;
import com.azure.messaging.servicebus.administration.models.CreateRuleOptions;
import com.azure.messaging.servicebus.administration.models.FalseRuleFilter;
import com.azure.messaging.servicebus.administration.models.RuleProperties;
import com.azure.messaging.servicebus.administration.models.SqlRuleAction;
import com.azure.messaging.servicebus.administration.models.SqlRuleFilter;
import com.azure.messaging.servicebus.administration.models.TrueRuleFilter;
import com.azure.messaging.servicebus.models.ServiceBusReceiveMode;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Features of rules, through the manager that the SDK has for them: over AMQP, and not over HTTP. */
final class Rules {
    static final Map<String, Feature> FEATURES = Map.of(
        "rule-manager", Rules::ruleManager,
        "rule-correlation", Rules::ruleCorrelation,
        "rule-types", Rules::ruleTypes,
        "rule-true-and-false", Rules::ruleTrueAndFalse,
        "rule-actions", Rules::ruleActions,
        "rule-errors", Rules::ruleErrors);

    private static final String SUBSCRIPTION = "Inventory";

    private Rules() { }

    private static ServiceBusRuleManagerClient manager(Visit visit, String subscription) {
        return visit.keep(visit.builder().ruleManager().topicName(visit.entity).subscriptionName(subscription).buildClient());
    }

    private static ServiceBusRuleManagerClient manager(Visit visit) {
        return manager(visit, SUBSCRIPTION);
    }

    private static CreateRuleOptions sql(String expression) {
        return new CreateRuleOptions(new SqlRuleFilter(expression));
    }

    private static List<String> names(ServiceBusRuleManagerClient rules) {
        return rules.listRules().stream().map(RuleProperties::getName).sorted().toList();
    }

    private static void send(Visit visit, String body, Map<String, Object> properties) {
        ServiceBusMessage message = new ServiceBusMessage(body);
        message.getApplicationProperties().putAll(properties);
        visit.sender().sendMessage(message);
    }

    private static List<ServiceBusReceivedMessage> received(Visit visit, int count) {
        ServiceBusReceiverClient receiver = visit.subscriber(
            SUBSCRIPTION, options -> options.receiveMode(ServiceBusReceiveMode.RECEIVE_AND_DELETE));
        List<ServiceBusReceivedMessage> taken = visit.take(receiver, count);
        Check.same(List.of(), Visit.bodies(Visit.peekAll(receiver)));
        return taken;
    }

    private static void ruleManager(Visit visit) {
        ServiceBusRuleManagerClient rules = manager(visit);
        Check.same(List.of("$Default"), names(rules));
        send(visit, "before", Map.of("n", 0));
        rules.createRule("large", sql("n > 10 AND colour IN ('red', 'blue')"));
        rules.deleteRule("$Default");
        Check.same(List.of("large"), names(rules));
        send(visit, "small", Map.of("n", 10, "colour", "red"));
        send(visit, "large", Map.of("n", 11, "colour", "red"));
        Check.same(List.of("before", "large"), Visit.bodies(received(visit, 2)));
        SqlRuleFilter filter = (SqlRuleFilter) rules.listRules().stream().toList().get(0).getFilter();
        Check.same("n > 10 AND colour IN ('red', 'blue')", filter.getSqlExpression());
    }

    private static void ruleCorrelation(Visit visit) {
        ServiceBusRuleManagerClient rules = manager(visit);
        rules.deleteRule("$Default");
        CorrelationRuleFilter filter = new CorrelationRuleFilter("a").setMessageId("b").setTo("c").setReplyTo("d")
            .setLabel("e").setContentType("h");
        filter.getProperties().putAll(Map.of("text", "x", "number", 7));
        rules.createRule("whole", new CreateRuleOptions(filter));
        CorrelationRuleFilter found = (CorrelationRuleFilter) rules.listRules().stream().toList().get(0).getFilter();
        Check.same(List.of("a", "b", "c", "d", "e", "h"), List.of(found.getCorrelationId(), found.getMessageId(),
            found.getTo(), found.getReplyTo(), found.getLabel(), found.getContentType()));
        // The SDK reads every value of a property as text.
        filter.getProperties().forEach((name, value) -> Check.same("" + value, "" + found.getProperties().get(name)));
        for (String subject : List.of("e", "E")) {
            ServiceBusMessage message = new ServiceBusMessage(subject).setCorrelationId("a").setMessageId("b").setTo("c")
                .setReplyTo("d").setSubject(subject).setContentType("h");
            message.getApplicationProperties().putAll(filter.getProperties());
            visit.sender().sendMessage(message);
        }
        Check.same(List.of("e"), Visit.bodies(received(visit, 1)));
    }

    private static void ruleTypes(Visit visit) {
        ServiceBusRuleManagerClient rules = manager(visit);
        rules.deleteRule("$Default");
        Map<String, Object> values = new LinkedHashMap<>();
        values.put("text", "1");
        values.put("one", 1);
        values.put("large", 1L << 40);
        values.put("half", 1.5);
        values.put("truth", true);
        values.forEach((name, value) -> {
            CorrelationRuleFilter filter = new CorrelationRuleFilter();
            filter.getProperties().put("value", value);
            rules.createRule(name,
                new CreateRuleOptions(filter).setAction(new SqlRuleAction("SET rule = '" + name + "'")));
        });
        values.forEach((name, value) -> send(visit, name, Map.of("value", value)));
        for (ServiceBusReceivedMessage message : received(visit, values.size())) {
            Check.same(message.getBody().toString(), message.getApplicationProperties().get("rule"));
        }
    }

    private static void ruleTrueAndFalse(Visit visit) {
        ServiceBusRuleManagerClient rules = manager(visit);
        rules.deleteRule("$Default");
        rules.createRule("nothing", new CreateRuleOptions(new FalseRuleFilter()));
        send(visit, "unseen", Map.of());
        rules.createRule("everything", new CreateRuleOptions(new TrueRuleFilter()));
        send(visit, "seen", Map.of());
        Check.same(List.of("seen"), Visit.bodies(received(visit, 1)));
    }

    private static void ruleActions(Visit visit) {
        ServiceBusRuleManagerClient rules = manager(visit);
        String action = "SET priority = 'high'; REMOVE secret; SET sys.Label = 'raised'";
        rules.createRule("raise", sql("n > 10").setAction(new SqlRuleAction(action)));
        send(visit, "x", Map.of("n", 20, "secret", "s"));
        List<ServiceBusReceivedMessage> found = received(visit, 2);
        ServiceBusReceivedMessage changed = found.stream()
            .filter(message -> "raise".equals(message.getApplicationProperties().get("RuleName"))).findFirst().get();
        Check.same(Map.of("n", 20, "priority", "high", "RuleName", "raise"), changed.getApplicationProperties());
        Check.same("raised", changed.getSubject());
        RuleProperties raise = rules.listRules().stream().filter(rule -> rule.getName().equals("raise")).findFirst().get();
        Check.same(action, ((SqlRuleAction) raise.getAction()).getSqlExpression());
    }

    private static void ruleErrors(Visit visit) throws Exception {
        ServiceBusRuleManagerClient rules = manager(visit);
        Check.refused(ServiceBusFailureReason.MESSAGING_ENTITY_ALREADY_EXISTS,
            () -> rules.createRule("$Default", sql("1=1")));
        Check.refused(ServiceBusFailureReason.MESSAGING_ENTITY_NOT_FOUND, () -> rules.deleteRule("missing"));
        Check.raised(Exception.class, () -> rules.createRule("bad", sql("n = = 1")));
        Check.same(List.of("$Default"), names(rules));
        Check.raised(Exception.class, () -> names(manager(visit, "Missing")));
    }
}
