import jakarta.jms.Message;
import jakarta.jms.MessageListener;
import jakarta.jms.TextMessage;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.springframework.jms.connection.CachingConnectionFactory;
import org.springframework.jms.core.JmsTemplate;
import org.springframework.jms.listener.DefaultMessageListenerContainer;
import org.springframework.jms.listener.adapter.MessageListenerAdapter;

/** Spring's JMS template and its listener container, on Qpid JMS. */
final class Templates {
    private Templates() { }

    static void add(Map<String, JmsTour.Feature> features) {
        features.put("template-send-and-receive", Templates::sendAndReceive);
        features.put("template-selected", Templates::selected);
        features.put("template-browse", Templates::browse);
        features.put("template-request-and-reply", Templates::requestAndReply);
        features.put("template-listener-rollback", Templates::listenerRollback);
    }

    private static JmsTemplate template(JmsTour.Visit visit, CachingConnectionFactory factory) {
        JmsTemplate template = new JmsTemplate(factory);
        template.setDefaultDestinationName(visit.name);
        template.setReceiveTimeout(JmsTour.PATIENCE_MS);
        return template;
    }

    /** What a feature does with a template. */
    private interface Use {
        void run(JmsTemplate template) throws Exception;
    }

    private static void with(JmsTour.Visit visit, Use use) throws Exception {
        CachingConnectionFactory factory = new CachingConnectionFactory(visit.factory);
        try {
            use.run(template(visit, factory));
        } finally {
            factory.destroy();
        }
    }

    private static void sendAndReceive(JmsTour.Visit visit) throws Exception {
        with(visit, template -> {
            Map<String, Object> sent = new HashMap<>(Map.of("n", 1, "s", "x"));
            template.convertAndSend(sent);
            template.convertAndSend("text");
            JmsTour.same(sent, template.receiveAndConvert());
            JmsTour.same("text", template.receiveAndConvert());
        });
    }

    private static void selected(JmsTour.Visit visit) throws Exception {
        with(visit, template -> {
            for (int number = 0; number < 10; number++) {
                int value = number;
                template.convertAndSend((Object) ("m" + number), message -> {
                    message.setIntProperty("number", value);
                    return message;
                });
            }
            // A consumer for each message.
            for (int number = 9; number >= 0; number--) {
                JmsTour.same("m" + number, template.receiveSelectedAndConvert("number = " + number));
            }
        });
    }

    private static void browse(JmsTour.Visit visit) throws Exception {
        with(visit, template -> {
            for (String text : List.of("a", "b", "c")) template.convertAndSend(text);
            int count = template.browse((session, browser) -> Collections.list(browser.getEnumeration()).size());
            JmsTour.same(3, count);
            JmsTour.same("a", template.receiveAndConvert());
        });
    }

    private static void requestAndReply(JmsTour.Visit visit) throws Exception {
        DefaultMessageListenerContainer container = new DefaultMessageListenerContainer();
        container.setConnectionFactory(visit.factory);
        container.setDestinationName(visit.name);
        container.setMessageListener(new MessageListenerAdapter(new Object() {
            public String handleMessage(String text) {
                return text + "-pong";
            }
        }));
        container.afterPropertiesSet();
        container.start();
        try {
            with(visit, template -> {
                // The answer comes by a temporary queue.
                for (int count = 0; count < 3; count++) {
                    Message answer = template.sendAndReceive(session -> session.createTextMessage("ping"));
                    JmsTour.same("ping-pong", ((TextMessage) answer).getText());
                }
            });
        } finally {
            container.shutdown();
        }
    }

    private static void listenerRollback(JmsTour.Visit visit) throws Exception {
        AtomicInteger attempts = new AtomicInteger();
        CountDownLatch done = new CountDownLatch(1);
        DefaultMessageListenerContainer container = new DefaultMessageListenerContainer();
        container.setConnectionFactory(visit.factory);
        container.setDestinationName(visit.name);
        container.setSessionTransacted(true);
        container.setErrorHandler(error -> { });
        container.setMessageListener((MessageListener) message -> {
            if (attempts.incrementAndGet() < 3) throw new IllegalStateException("on purpose");
            done.countDown();
        });
        container.afterPropertiesSet();
        container.start();
        try {
            with(visit, template -> template.convertAndSend("x"));
            JmsTour.that(done.await(JmsTour.PATIENCE_MS, TimeUnit.MILLISECONDS), "it came only " + attempts + " times");
        } finally {
            container.shutdown();
        }
    }
}
