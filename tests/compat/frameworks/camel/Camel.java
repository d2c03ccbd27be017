import com.azure.core.amqp.AmqpRetryOptions;
import java.time.Duration;
import java.time.OffsetDateTime;
import java.util.Map;
import java.util.stream.Stream;
import org.apache.camel.Exchange;
import org.apache.camel.ProducerTemplate;
import org.apache.camel.builder.RouteBuilder;
import org.apache.camel.component.azure.servicebus.ServiceBusConstants;
import org.apache.camel.main.Main;

/**
 * An application on Camel's component azure-servicebus: Camel CONNECTION-STRING PREFIX COUNT.
 *
 * orders: a message that fails is tried again by the route, and dead-lettered after that; a second route reads the dead
 * letters. billing and audit: subscriptions of the topic events; an error in billing dead-letters, one in audit
 * abandons. saga: sessions. reminders: scheduled messages.
 */
public final class Camel {
    private static final int SESSIONS = 3;
    private static final long DELAY_MS = 1500;

    private Camel() { }

    public static void main(String[] arguments) throws Exception {
        Journal.open();
        String prefix = arguments[1];
        int count = Integer.parseInt(arguments[2]);
        Main main = new Main();
        // The SDK leaves a session when it has been idle for this long; 60 s unless set. The component has no option for it.
        main.bind("impatient", new AmqpRetryOptions().setTryTimeout(Duration.ofSeconds(3)));
        main.addProperty("tandem.connectionString", arguments[0]);
        main.configure().addRoutesBuilder(new Routes(prefix));
        main.start();
        ProducerTemplate template = main.getCamelContext().createProducerTemplate();
        Journal.sendAll("orders", count, number -> template.sendBody(uri(prefix + "orders"), number));
        Journal.sendAll("events", count, number ->
            template.sendBody(uri(prefix + "events", "serviceBusType=topic"), number));
        Journal.sendAll("saga", count, number ->
            template.sendBody(uri(prefix + "saga", "sessionId=customer-" + number % SESSIONS), number));
        Journal.sendAll("reminders", count / 5, number -> {
            OffsetDateTime due = OffsetDateTime.now().plusNanos(DELAY_MS * 1_000_000);
            template.sendBodyAndHeaders(uri(prefix + "reminders", "producerOperation=scheduleMessages"), number, Map.of(
                ServiceBusConstants.SCHEDULED_ENQUEUE_TIME, due, "due", due.toInstant().toEpochMilli()));
        });
        Journal.waitForEnd();
        main.stop();
        System.exit(0);
    }

    private static String uri(String entity, String... options) {
        String connection = "azure-servicebus:" + entity + "?connectionString=RAW({{tandem.connectionString}})";
        return String.join("&", Stream.concat(Stream.of(connection), Stream.of(options)).toList());
    }

    private static int number(Exchange exchange) {
        return Integer.parseInt(exchange.getIn().getBody(String.class));
    }

    /** The consumers. */
    private static final class Routes extends RouteBuilder {
        private final String prefix;

        Routes(String prefix) {
            this.prefix = prefix;
        }

        @Override
        public void configure() {
            from(uri(prefix + "orders", "maxConcurrentCalls=4", "enableDeadLettering=true"))
                .errorHandler(defaultErrorHandler().maximumRedeliveries(1).redeliveryDelay(10))
                .process(exchange -> Journal.handle("orders", number(exchange)));
            from(uri(prefix + "orders", "subQueue=DEAD_LETTER_QUEUE"))
                .process(exchange -> Journal.write("dead", "orders", number(exchange)));
            from(uri(prefix + "events", "serviceBusType=topic", "subscriptionName=billing", "enableDeadLettering=true"))
                .errorHandler(defaultErrorHandler().maximumRedeliveries(1).redeliveryDelay(10))
                .process(exchange -> Journal.handle("billing", number(exchange)));
            from(uri(prefix + "events", "serviceBusType=topic", "subscriptionName=audit", "maxConcurrentCalls=4"))
                .process(exchange -> Journal.handle("audit", number(exchange)));
            from(uri(prefix + "saga", "sessionEnabled=true", "amqpRetryOptions=#impatient"))
                .process(exchange -> Journal.write("handled", "saga", number(exchange)));
            from(uri(prefix + "reminders"))
                .process(exchange -> Journal.handleReminder(number(exchange), exchange.getIn().getHeader("due", Long.class)));
        }
    }
}
