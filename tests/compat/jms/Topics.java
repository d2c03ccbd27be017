import jakarta.jms.Connection;
import jakarta.jms.JMSException;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.Session;
import jakarta.jms.TemporaryTopic;
import jakarta.jms.TextMessage;
import jakarta.jms.Topic;
import java.util.List;
import java.util.Map;

/** Topics by Qpid JMS: every consumer receives from a subscription. */
final class Topics {
    private Topics() { }

    static void add(Map<String, JmsTour.Feature> features) {
        features.put("topic", Topics::topic);
        features.put("topic-selector", Topics::topicSelector);
        features.put("durable-subscription", Topics::durableSubscription);
        features.put("shared-subscription", Topics::sharedSubscription);
        features.put("shared-durable-subscription", Topics::sharedDurableSubscription);
        features.put("no-local-refused", Topics::noLocalRefused);
        features.put("temporary-topic", Topics::temporaryTopic);
    }

    private static void publish(Session session, Topic topic, String... colours) throws JMSException {
        MessageProducer producer = session.createProducer(topic);
        for (String colour : colours) {
            TextMessage message = session.createTextMessage(colour);
            message.setStringProperty("colour", colour);
            producer.send(message);
        }
        producer.close();
    }

    private static void receives(MessageConsumer consumer, String... texts) throws JMSException {
        for (String text : texts) {
            Message message = consumer.receive(JmsTour.PATIENCE_MS);
            JmsTour.that(message != null, text + " did not come");
            JmsTour.same(text, ((TextMessage) message).getText());
        }
    }

    private static void topic(JmsTour.Visit visit) throws Exception {
        Session session = visit.session();
        Topic topic = session.createTopic(visit.name);
        publish(session, topic, "before");
        MessageConsumer first = session.createConsumer(topic);
        MessageConsumer second = session.createConsumer(topic);
        publish(session, topic, "one", "two");
        receives(first, "one", "two");
        receives(second, "one", "two");
        first.close();
        publish(session, topic, "three");
        receives(second, "three");
        JmsTour.same(null, second.receiveNoWait());
    }

    private static void topicSelector(JmsTour.Visit visit) throws Exception {
        Session session = visit.session();
        Topic topic = session.createTopic(visit.name);
        MessageConsumer red = session.createConsumer(topic, "colour = 'red'");
        publish(session, topic, "red", "blue", "red");
        receives(red, "red", "red");
        JmsTour.same(null, red.receiveNoWait());
    }

    private static void durableSubscription(JmsTour.Visit visit) throws Exception {
        Session publisher = visit.session();
        Topic topic = publisher.createTopic(visit.name);
        try (Connection connection = visit.connectionOf("client-1")) {
            Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            MessageConsumer consumer = session.createDurableSubscriber(topic, "audit", "colour <> 'blue'", false);
            publish(publisher, topic, "red", "blue");
            receives(consumer, "red");
            consumer.close();
        }
        publish(publisher, topic, "green", "blue", "red");
        try (Connection connection = visit.connectionOf("client-1")) {
            Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            MessageConsumer consumer = session.createDurableSubscriber(topic, "audit", "colour <> 'blue'", false);
            receives(consumer, "green", "red");
            consumer.close();
            session.unsubscribe("audit");
            publish(publisher, topic, "lost");
            MessageConsumer again = session.createDurableSubscriber(topic, "audit");
            publish(publisher, topic, "blue");
            receives(again, "blue");
            again.close();
            session.unsubscribe("audit");
            try {
                session.unsubscribe("audit");
            } catch (JMSException gone) {
                return;
            }
        }
        throw new AssertionError("a subscription was there after its end");
    }

    private static void sharedSubscription(JmsTour.Visit visit) throws Exception {
        share(visit, false);
    }

    private static void sharedDurableSubscription(JmsTour.Visit visit) throws Exception {
        share(visit, true);
    }

    private static void share(JmsTour.Visit visit, boolean isDurable) throws Exception {
        Session session = visit.session();
        Topic topic = session.createTopic(visit.name);
        List<MessageConsumer> consumers = List.of(shared(session, topic, isDurable), shared(session, topic, isDurable));
        publish(session, topic, "a", "b", "c", "d");
        int count = 0;
        long deadline = System.nanoTime() + JmsTour.PATIENCE_MS * 1_000_000;
        while (count < 4 && System.nanoTime() < deadline) {
            for (MessageConsumer consumer : consumers) {
                while (consumer.receiveNoWait() != null) count++;
            }
        }
        JmsTour.same(4, count);
        for (MessageConsumer consumer : consumers) consumer.close();
        if (isDurable) {
            publish(session, topic, "kept");
            MessageConsumer later = shared(session, topic, true);
            receives(later, "kept");
            later.close();
            session.unsubscribe("together");
        }
    }

    private static MessageConsumer shared(Session session, Topic topic, boolean isDurable) throws JMSException {
        return isDurable ? session.createSharedDurableConsumer(topic, "together") : session.createSharedConsumer(topic, "together");
    }

    private static void noLocalRefused(JmsTour.Visit visit) throws Exception {
        Session session = visit.session();
        try {
            session.createConsumer(session.createTopic(visit.name), null, true);
        } catch (JMSException refused) {
            return;
        }
        throw new AssertionError("no-local is not applied, and was accepted");
    }

    private static void temporaryTopic(JmsTour.Visit visit) throws Exception {
        Session session = visit.session();
        TemporaryTopic topic = session.createTemporaryTopic();
        MessageConsumer consumer = session.createConsumer(topic);
        publish(session, topic, "x");
        receives(consumer, "x");
        consumer.close();
        topic.delete();
    }
}
