import com.azure.core.amqp.exception.AmqpErrorCondition;
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
import java.util.ArrayList;
import java.util.Date;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.function.UnaryOperator;
import java.util.stream.IntStream;
import java.util.stream.Stream;

/** Features of rules, through the manager that the SDK has for them: over AMQP, and not over HTTP. */
final class Rules {
    static final Map<String, Feature> FEATURES = Map.of(
        "rule-manager", Rules::ruleManager,
        "rule-correlation", Rules::ruleCorrelation,
        "rule-types", Rules::ruleTypes,
        "rule-true-and-false", Rules::ruleTrueAndFalse,
        "rule-actions", Rules::ruleActions,
        "rule-errors", Rules::ruleErrors,
        "rule-pages", Rules::rulePages);

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
        Check.that(rules.listRules().stream().toList().get(0).getFilter() instanceof TrueRuleFilter, "another filter");
        send(visit, "before", Map.of("n", 0));
        rules.createRule("large", sql("n > 10 AND colour IN ('red', 'blue')"));
        rules.deleteRule("$Default");
        Check.same(List.of("large"), names(rules));
        send(visit, "small", Map.of("n", 10, "colour", "red"));
        send(visit, "large", Map.of("n", 11, "colour", "red"));
        send(visit, "green", Map.of("n", 11, "colour", "green"));
        Check.same(List.of("before", "large"), Visit.bodies(received(visit, 2)));
        RuleProperties large = rules.listRules().stream().toList().get(0);
        Check.same("n > 10 AND colour IN ('red', 'blue')", ((SqlRuleFilter) large.getFilter()).getSqlExpression());
        Check.same(null, large.getAction());
        rules.deleteRule("large");
        Check.same(List.of(), names(rules));
    }

    /** The SDK asks for all rules in one request: more than the hundred that a page holds for others. */
    private static void rulePages(Visit visit) {
        ServiceBusRuleManagerClient rules = manager(visit);
        List<String> expected = IntStream.range(0, 110).mapToObj(number -> String.format("rule-%03d", number)).toList();
        for (int number = 0; number < expected.size(); number += 1) {
            rules.createRule(expected.get(number), sql("n = " + number));
        }
        Check.same(Stream.concat(Stream.of("$Default"), expected.stream()).toList(), names(rules));
        rules.listRules().stream().filter(rule -> rule.getName().startsWith("rule-")).forEach(rule -> Check.same(
            "n = " + Integer.parseInt(rule.getName().substring(5)), ((SqlRuleFilter) rule.getFilter()).getSqlExpression()));
    }

    /** What a correlation filter can name. */
    private static final List<String> SYSTEM_PROPERTIES = List.of("correlation id", "message id", "to", "reply to",
        "subject", "session id", "reply to session id", "content type");

    private static CorrelationRuleFilter correlation(Map<String, Object> properties) {
        CorrelationRuleFilter filter = new CorrelationRuleFilter("correlation id").setMessageId("message id").setTo("to")
            .setReplyTo("reply to").setLabel("subject").setSessionId("session id")
            .setReplyToSessionId("reply to session id").setContentType("content type");
        filter.getProperties().putAll(properties);
        return filter;
    }

    /** A message that the filter selects, unless one of its system properties is changed. */
    private static ServiceBusMessage correlated(String body, Map<String, Object> properties, String changed) {
        UnaryOperator<String> value = name -> name.equals(changed) ? name.toUpperCase(Locale.ROOT) : name;
        ServiceBusMessage message = new ServiceBusMessage(body).setCorrelationId(value.apply("correlation id"))
            .setMessageId(value.apply("message id")).setTo(value.apply("to")).setReplyTo(value.apply("reply to"))
            .setSubject(value.apply("subject")).setSessionId(value.apply("session id"))
            .setReplyToSessionId(value.apply("reply to session id")).setContentType(value.apply("content type"));
        message.getApplicationProperties().putAll(properties);
        return message;
    }

    private static Map<String, Object> with(Map<String, Object> properties, String name, Object value) {
        Map<String, Object> changed = new HashMap<>(properties);
        changed.put(name, value);
        return changed;
    }

    private static void ruleCorrelation(Visit visit) {
        ServiceBusRuleManagerClient rules = manager(visit);
        rules.deleteRule("$Default");
        Map<String, Object> properties = Map.of("text", "x", "number", 7, "half", 0.5, "flag", true);
        rules.createRule("whole", new CreateRuleOptions(correlation(properties)));
        CorrelationRuleFilter found = (CorrelationRuleFilter) rules.listRules().stream().toList().get(0).getFilter();
        Check.same(SYSTEM_PROPERTIES, List.of(found.getCorrelationId(), found.getMessageId(), found.getTo(),
            found.getReplyTo(), found.getLabel(), found.getSessionId(), found.getReplyToSessionId(),
            found.getContentType()));
        Check.same(texts(properties), found.getProperties());
        List<ServiceBusMessage> sent = new ArrayList<>();
        sent.add(correlated("whole", properties, ""));
        for (String name : SYSTEM_PROPERTIES) sent.add(correlated("other " + name, properties, name));
        sent.add(correlated("number as text", with(properties, "number", "7"), ""));
        sent.add(correlated("flag as text", with(properties, "flag", "true"), ""));
        sent.add(correlated("other text", with(properties, "text", "X"), ""));
        sent.add(correlated("without properties", Map.of(), ""));
        sent.add(new ServiceBusMessage("without to").setCorrelationId("correlation id").setMessageId("message id"));
        sent.add(correlated("more", with(properties, "more", 1), ""));
        sent.forEach(visit.sender()::sendMessage);
        Check.same(List.of("whole", "more"), Visit.bodies(received(visit, 2)));
    }

    /** The values as the SDK reads them out of a rule: as text, whatever their type was. */
    static Map<String, Object> texts(Map<String, Object> values) {
        Map<String, Object> texts = new HashMap<>();
        values.forEach((name, value) -> texts.put(name, value.toString()));
        return texts;
    }

    private static void ruleTypes(Visit visit) {
        ServiceBusRuleManagerClient rules = manager(visit);
        rules.deleteRule("$Default");
        Map<String, Object> values = new LinkedHashMap<>();
        values.put("text", "1");
        values.put("one", 1);
        values.put("minus", -1);
        values.put("large", 1L << 40);
        values.put("half", 1.5);
        values.put("truth", true);
        values.put("lie", false);
        values.put("date", new Date(1_700_000_000_123L));
        values.forEach((name, value) -> {
            CorrelationRuleFilter filter = new CorrelationRuleFilter();
            filter.getProperties().put("value", value);
            rules.createRule(name,
                new CreateRuleOptions(filter).setAction(new SqlRuleAction("SET rule = '" + name + "'")));
        });
        values.forEach((name, value) -> send(visit, name, Map.of("value", value)));
        // Of another type, or of another value: no rule selects these.
        List.of("1.5", "true", 2, -1.5, "1099511627776", new Date(1_700_000_000_124L))
            .forEach(value -> send(visit, "astray", Map.of("value", value)));
        List<ServiceBusReceivedMessage> found = received(visit, values.size());
        Check.same(List.copyOf(values.keySet()), Visit.bodies(found));
        for (ServiceBusReceivedMessage message : found) {
            String name = message.getBody().toString();
            Check.same(Map.of("value", values.get(name), "rule", name, "RuleName", name),
                message.getApplicationProperties());
        }
        Map<String, Object> listed = new HashMap<>();
        rules.listRules().forEach(rule -> listed.put(
            rule.getName(), ((CorrelationRuleFilter) rule.getFilter()).getProperties().get("value")));
        Check.same(texts(values), listed);
    }

    private static void ruleTrueAndFalse(Visit visit) {
        ServiceBusRuleManagerClient rules = manager(visit);
        rules.deleteRule("$Default");
        rules.createRule("nothing", new CreateRuleOptions(new FalseRuleFilter()));
        send(visit, "unseen", Map.of());
        rules.createRule("everything", new CreateRuleOptions(new TrueRuleFilter()));
        send(visit, "seen", Map.of());
        Check.same(List.of("seen"), Visit.bodies(received(visit, 1)));
        Map<String, Class<?>> kinds = new HashMap<>();
        rules.listRules().forEach(rule -> kinds.put(rule.getName(), rule.getFilter().getClass()));
        Check.same(Map.of("nothing", FalseRuleFilter.class, "everything", TrueRuleFilter.class), kinds);
    }

    private static void ruleActions(Visit visit) {
        ServiceBusRuleManagerClient rules = manager(visit);
        String action = "SET priority = 'high'; REMOVE secret; SET sys.Label = 'raised'";
        rules.createRule("raise", sql("n > 10").setAction(new SqlRuleAction(action)));
        CorrelationRuleFilter twenty = new CorrelationRuleFilter();
        twenty.getProperties().put("n", 20);
        rules.createRule("also", new CreateRuleOptions(twenty));
        ServiceBusMessage sent = new ServiceBusMessage("x").setSubject("plain");
        sent.getApplicationProperties().putAll(Map.of("n", 20, "secret", "s"));
        visit.sender().sendMessage(sent);
        // One copy for all rules without an action, one for each rule with one.
        List<ServiceBusReceivedMessage> found = received(visit, 2);
        ServiceBusReceivedMessage changed = found.stream()
            .filter(message -> "raise".equals(message.getApplicationProperties().get("RuleName"))).findFirst().get();
        Check.same(Map.of("n", 20, "priority", "high", "RuleName", "raise"), changed.getApplicationProperties());
        Check.same("raised", changed.getSubject());
        ServiceBusReceivedMessage plain = found.stream().filter(message -> message != changed).findFirst().get();
        Check.same(Map.of("n", 20, "secret", "s"), plain.getApplicationProperties());
        Check.same("plain", plain.getSubject());
        RuleProperties raise = rules.listRules().stream().filter(rule -> rule.getName().equals("raise")).findFirst().get();
        Check.same(action, ((SqlRuleAction) raise.getAction()).getSqlExpression());
    }

    private static void ruleErrors(Visit visit) throws Exception {
        ServiceBusRuleManagerClient rules = manager(visit);
        Check.refused(ServiceBusFailureReason.MESSAGING_ENTITY_ALREADY_EXISTS,
            () -> rules.createRule("$Default", sql("1=1")));
        Check.refused(ServiceBusFailureReason.MESSAGING_ENTITY_NOT_FOUND, () -> rules.deleteRule("missing"));
        Check.contains("n = = 1\n", Check.refused(AmqpErrorCondition.ARGUMENT_ERROR,
            () -> rules.createRule("bad", sql("n = = 1"))));
        Check.contains("SET n\n", Check.refused(AmqpErrorCondition.ARGUMENT_ERROR,
            () -> rules.createRule("bad", sql("1=1").setAction(new SqlRuleAction("SET n")))));
        Check.same(List.of("$Default"), names(rules));
        Check.refused(AmqpErrorCondition.NOT_FOUND, () -> names(manager(visit, "Missing")));
    }
}
