import com.azure.messaging.servicebus.ServiceBusReceivedMessageContext;
import com.azure.messaging.servicebus.models.DeadLetterOptions;
import com.azure.spring.messaging.servicebus.support.ServiceBusMessageHeaders;
import java.time.OffsetDateTime;
import java.util.Map;
import java.util.function.Consumer;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.boot.builder.SpringApplicationBuilder;
import org.springframework.cloud.stream.function.StreamBridge;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.messaging.Message;
import org.springframework.messaging.support.MessageBuilder;

/**
 * An application on the Service Bus binder of Spring Cloud Stream: Binder CONNECTION-STRING PREFIX COUNT.
 *
 * orders: manual settlement. billing and audit: subscriptions of the topic events; an error in billing dead-letters,
 * one in audit abandons. saga: sessions. reminders: scheduled messages.
 */
@Configuration(proxyBeanMethods = false)
@EnableAutoConfiguration
public class Binder {
    private static final long DELAY_MS = 1500;

    public static void main(String[] arguments) throws Exception {
        Journal.open();
        String prefix = arguments[1];
        int count = Integer.parseInt(arguments[2]);
        Map<String, Object> properties = new java.util.HashMap<>(Map.of(
            "spring.main.web-application-type", "none",
            "spring.jms.servicebus.enabled", "false",
            "spring.cloud.azure.servicebus.connection-string", arguments[0],
            "spring.cloud.function.definition", "orders;billing;audit;saga;reminders",
            "spring.cloud.stream.output-bindings", "toOrders;toEvents;toSaga;toReminders"));
        bindProducer(properties, "toOrders", prefix + "orders", "queue");
        bindProducer(properties, "toEvents", prefix + "events", "topic");
        bindProducer(properties, "toSaga", prefix + "saga", "queue");
        bindProducer(properties, "toReminders", prefix + "reminders", "queue");
        bindConsumer(properties, "orders", prefix + "orders", "auto-complete", "false", "max-concurrent-calls", "4");
        bindConsumer(properties, "billing", prefix + "events", "requeue-rejected", "true", "max-concurrent-calls", "4");
        bindConsumer(properties, "audit", prefix + "events", "max-concurrent-calls", "4");
        bindConsumer(properties, "saga", prefix + "saga", "session-enabled", "true", "max-concurrent-sessions", "4");
        bindConsumer(properties, "reminders", prefix + "reminders");
        properties.put("spring.cloud.stream.bindings.billing-in-0.group", "billing");
        properties.put("spring.cloud.stream.bindings.audit-in-0.group", "audit");

        ConfigurableApplicationContext context = new SpringApplicationBuilder(Binder.class).properties(properties).run();
        StreamBridge bridge = context.getBean(StreamBridge.class);
        Journal.sendAll("orders", count, number -> send(bridge, "toOrders", number, Map.of()));
        Journal.sendAll("events", count, number -> send(bridge, "toEvents", number, Map.of()));
        Journal.sendAll("saga", count, number ->
            send(bridge, "toSaga", number, Map.of(ServiceBusMessageHeaders.SESSION_ID, "customer-" + number % 3)));
        Journal.sendAll("reminders", count / 5, number -> {
            OffsetDateTime due = OffsetDateTime.now().plusNanos(DELAY_MS * 1_000_000);
            send(bridge, "toReminders", number, Map.of(
                ServiceBusMessageHeaders.SCHEDULED_ENQUEUE_TIME, due, "due", due.toInstant().toEpochMilli()));
        });
        Journal.waitForEnd();
        context.close();
        System.exit(0);
    }

    private static void bindProducer(Map<String, Object> properties, String name, String entity, String type) {
        properties.put("spring.cloud.stream.bindings." + name + "-out-0.destination", entity);
        String prefix = "spring.cloud.stream.servicebus.bindings." + name + "-out-0.producer.";
        properties.put(prefix + "entity-type", type);
        // Without it, `send` returns before the broker has confirmed anything.
        properties.put(prefix + "sync", "true");
    }

    private static void bindConsumer(Map<String, Object> properties, String name, String entity, String... settings) {
        properties.put("spring.cloud.stream.bindings." + name + "-in-0.destination", entity);
        for (int i = 0; i < settings.length; i += 2) {
            properties.put("spring.cloud.stream.servicebus.bindings." + name + "-in-0.consumer." + settings[i],
                settings[i + 1]);
        }
    }

    private static void send(StreamBridge bridge, String binding, int number, Map<String, ?> headers) {
        Message<String> message = MessageBuilder.withPayload(String.valueOf(number)).copyHeaders(headers).build();
        if (!bridge.send(binding + "-out-0", message)) {
            throw new IllegalStateException("not sent");
        }
    }

    @Bean
    Consumer<Message<String>> orders() {
        return message -> {
            int number = Integer.parseInt(message.getPayload());
            ServiceBusReceivedMessageContext context = (ServiceBusReceivedMessageContext) message.getHeaders()
                .get(ServiceBusMessageHeaders.RECEIVED_MESSAGE_CONTEXT);
            if (Journal.isPoisoned("orders", number)) {
                context.deadLetter(new DeadLetterOptions().setDeadLetterReason("poisoned"));
            } else if (Journal.failsNow("orders", number)) {
                context.abandon();
            } else {
                Journal.write("handled", "orders", number);
                context.complete();
            }
        };
    }

    @Bean
    Consumer<Message<String>> billing() {
        return message -> Journal.handle("billing", Integer.parseInt(message.getPayload()));
    }

    @Bean
    Consumer<Message<String>> audit() {
        return message -> Journal.handle("audit", Integer.parseInt(message.getPayload()));
    }

    @Bean
    Consumer<Message<String>> saga() {
        return message -> Journal.write("handled", "saga", Integer.parseInt(message.getPayload()));
    }

    @Bean
    Consumer<Message<String>> reminders() {
        return message -> Journal.handleReminder(Integer.parseInt(message.getPayload()),
            Long.parseLong(message.getHeaders().get("due", String.class)));
    }
}
