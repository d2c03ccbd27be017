import jakarta.jms.ConnectionFactory;
import jakarta.jms.JMSException;
import jakarta.jms.Session;
import jakarta.jms.TextMessage;
import java.util.Map;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.boot.builder.SpringApplicationBuilder;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.context.annotation.Configuration;
import org.springframework.jms.annotation.EnableJms;
import org.springframework.jms.annotation.JmsListener;
import org.springframework.jms.core.JmsTemplate;
import org.springframework.jms.listener.DefaultMessageListenerContainer;
import org.springframework.jms.listener.SessionAwareMessageListener;

/**
 * An application on the JMS starter of Spring Cloud Azure: Jms CONNECTION-STRING PREFIX COUNT.
 *
 * orders: transacted listeners, which roll back what fails. tasks: acknowledged or rejected by the listener. billing: a
 * subscription of the topic events, by its address. audit: a durable subscription of the same topic. reminders: messages
 * with a delivery delay.
 */
@Configuration(proxyBeanMethods = false)
@EnableAutoConfiguration
@EnableJms
public class Jms {
    private static final int REJECTED = 2;
    private static final long DELAY_MS = 1500;

    public static void main(String[] arguments) throws Exception {
        Journal.open();
        int count = Integer.parseInt(arguments[2]);
        Map<String, Object> properties = Map.of(
            "spring.main.web-application-type", "none",
            "spring.jms.servicebus.connection-string", arguments[0],
            "spring.jms.servicebus.pricing-tier", "standard",
            "spring.jms.servicebus.topic-client-id", "shop",
            "spring.jms.cache.enabled", "true",
            "prefix", arguments[1]);
        ConfigurableApplicationContext context = new SpringApplicationBuilder(Jms.class).properties(properties).run();
        ConnectionFactory factory = context.getBean(ConnectionFactory.class);
        DefaultMessageListenerContainer tasks = listenToTasks(factory, arguments[1] + "tasks");
        JmsTemplate queues = new JmsTemplate(factory);
        JmsTemplate topics = new JmsTemplate(factory);
        topics.setPubSubDomain(true);
        for (String queue : new String[] {"orders", "tasks"}) {
            Journal.sendAll(queue, count, number ->
                queues.convertAndSend(arguments[1] + queue, String.valueOf(number)));
        }
        Journal.sendAll("events", count, number ->
            topics.convertAndSend(arguments[1] + "events", String.valueOf(number)));
        JmsTemplate delayed = new JmsTemplate(factory);
        delayed.setDeliveryDelay(DELAY_MS);
        Journal.sendAll("reminders", count / 5, number -> {
            long due = System.currentTimeMillis() + DELAY_MS;
            delayed.convertAndSend(arguments[1] + "reminders", String.valueOf(number), message -> {
                message.setLongProperty("due", due);
                return message;
            });
        });
        Journal.waitForEnd();
        tasks.shutdown();
        context.close();
        System.exit(0);
    }

    @JmsListener(destination = "${prefix}orders", concurrency = "2")
    void orders(String number) {
        Journal.handle("orders", Integer.parseInt(number));
    }

    private static DefaultMessageListenerContainer listenToTasks(ConnectionFactory connections, String queue) {
        DefaultMessageListenerContainer container = new DefaultMessageListenerContainer();
        container.setConnectionFactory(connections);
        container.setDestinationName(queue);
        container.setSessionAcknowledgeMode(Session.CLIENT_ACKNOWLEDGE);
        container.setMessageListener((SessionAwareMessageListener<TextMessage>) Jms::handleTask);
        container.afterPropertiesSet();
        container.start();
        return container;
    }

    private static void handleTask(TextMessage message, Session session) throws JMSException {
        int number = Integer.parseInt(message.getText());
        if (Journal.isPoisoned("tasks", number)) {
            // A property of Qpid JMS, on which the starter is built: the broker dead-letters what is rejected.
            message.setIntProperty("JMS_AMQP_ACK_TYPE", REJECTED);
            message.acknowledge();
        } else if (Journal.failsNow("tasks", number)) {
            // The client delivers it again by itself, without asking the broker.
            session.recover();
        } else {
            Journal.write("handled", "tasks", number);
            message.acknowledge();
        }
    }

    @JmsListener(destination = "${prefix}reminders")
    void reminders(TextMessage message) throws JMSException {
        Journal.handleReminder(Integer.parseInt(message.getText()), message.getLongProperty("due"));
    }

    @JmsListener(destination = "${prefix}events/Subscriptions/billing")
    void billing(String number) {
        Journal.handle("billing", Integer.parseInt(number));
    }

    @JmsListener(destination = "${prefix}events", containerFactory = "topicJmsListenerContainerFactory",
        subscription = "audit")
    void audit(String number) {
        Journal.handle("audit", Integer.parseInt(number));
    }
}
