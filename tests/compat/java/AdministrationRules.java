import com.azure.messaging.servicebus.administration.ServiceBusAdministrationClient;
import com.azure.messaging.servicebus.administration.models.CorrelationRuleFilter;
import com.azure.messaging.servicebus.administration.models.CreateRuleOptions;
import com.azure.messaging.servicebus.administration.models.CreateSubscriptionOptions;
import com.azure.messaging.servicebus.administration.models.RuleProperties;
import com.azure.messaging.servicebus.administration.models.SqlRuleAction;
import com.azure.messaging.servicebus.administration.models.SqlRuleFilter;
import com.azure.messaging.servicebus.administration.models.TrueRuleFilter;
import java.util.List;
import java.util.Map;

/** Features of the administration client that make and read rules: over HTTP, where the rule manager uses AMQP. */
final class AdministrationRules {
    static final Map<String, Feature> FEATURES = Map.of(
        "default-rule", AdministrationRules::defaultRule,
        "rules", AdministrationRules::rules);

    private AdministrationRules() { }

    private static void defaultRule(Visit visit) {
        ServiceBusAdministrationClient admin = Administration.client(visit);
        admin.createTopic(visit.entity);
        admin.createSubscription(visit.entity, "some", "mine", new CreateSubscriptionOptions(),
            new CreateRuleOptions(new SqlRuleFilter("n = 1")));
        List<RuleProperties> rules = admin.listRules(visit.entity, "some").stream().toList();
        Check.same(List.of("mine"), rules.stream().map(RuleProperties::getName).toList());
        Check.same("n = 1", ((SqlRuleFilter) rules.get(0).getFilter()).getSqlExpression());
    }

    private static void rules(Visit visit) {
        ServiceBusAdministrationClient admin = Administration.client(visit);
        admin.createTopic(visit.entity);
        admin.createSubscription(visit.entity, "all");
        RuleProperties everything = admin.getRule(visit.entity, "all", "$Default");
        Check.that(everything.getFilter() instanceof TrueRuleFilter, "another filter: " + everything.getFilter());
        SqlRuleFilter filter = new SqlRuleFilter("a = @text AND b > @int");
        Map<String, Object> values = Map.of("text", "it's <a> & \"b\" ü", "int", 5, "long", 1L << 40, "double", 1.5,
            "yes", true, "no", false);
        values.forEach((name, value) -> filter.getParameters().put("@" + name, value));
        SqlRuleAction action = new SqlRuleAction("SET x = @double");
        action.getParameters().putAll(filter.getParameters());
        admin.createRule(visit.entity, "typed", "all", new CreateRuleOptions(filter).setAction(action));
        RuleProperties typed = admin.getRule(visit.entity, "all", "typed");
        Check.same("typed", typed.getName());
        // The SDK writes and reads every value as text.
        Check.same(filter.getSqlExpression(), ((SqlRuleFilter) typed.getFilter()).getSqlExpression());
        Check.same(Rules.texts(filter.getParameters()), ((SqlRuleFilter) typed.getFilter()).getParameters());
        Check.same(action.getSqlExpression(), ((SqlRuleAction) typed.getAction()).getSqlExpression());
        Check.same(Rules.texts(action.getParameters()), ((SqlRuleAction) typed.getAction()).getParameters());
        CorrelationRuleFilter correlation = new CorrelationRuleFilter("c").setMessageId("m").setTo("t").setReplyTo("r")
            .setLabel("l").setSessionId("s").setReplyToSessionId("rs").setContentType("text/plain");
        correlation.getProperties().putAll(values);
        admin.createRule(visit.entity, "correlation", "all", new CreateRuleOptions(correlation));
        RuleProperties fetched = admin.getRule(visit.entity, "all", "correlation");
        CorrelationRuleFilter found = (CorrelationRuleFilter) fetched.getFilter();
        Check.same(List.of("c", "m", "t", "r", "l", "s", "rs", "text/plain"), List.of(found.getCorrelationId(),
            found.getMessageId(), found.getTo(), found.getReplyTo(), found.getLabel(), found.getSessionId(),
            found.getReplyToSessionId(), found.getContentType()));
        Check.same(Rules.texts(values), found.getProperties());
        admin.updateRule(visit.entity, "all",
            fetched.setFilter(new SqlRuleFilter("n = 2")).setAction(new SqlRuleAction("REMOVE n")));
        RuleProperties updated = admin.getRule(visit.entity, "all", "correlation");
        Check.same("n = 2", ((SqlRuleFilter) updated.getFilter()).getSqlExpression());
        Check.same("REMOVE n", ((SqlRuleAction) updated.getAction()).getSqlExpression());
        admin.deleteRule(visit.entity, "all", "$Default");
        Check.same(List.of("correlation", "typed"), admin.listRules(visit.entity, "all").stream()
            .map(RuleProperties::getName).sorted().toList());
    }
}
