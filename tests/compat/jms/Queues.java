import jakarta.jms.BytesMessage;
import jakarta.jms.DeliveryMode;
import jakarta.jms.InvalidDestinationException;
import jakarta.jms.JMSException;
import jakarta.jms.MapMessage;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.ObjectMessage;
import jakarta.jms.Queue;
import jakarta.jms.QueueBrowser;
import jakarta.jms.Session;
import jakarta.jms.StreamMessage;
import jakarta.jms.TemporaryQueue;
import jakarta.jms.TextMessage;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Enumeration;
import java.util.List;
import java.util.Map;

/** Queues by Qpid JMS. */
final class Queues {
    private Queues() { }

    static void add(Map<String, JmsTour.Feature> features) {
        features.put("message-types", Queues::messageTypes);
        features.put("header-fields", Queues::headerFields);
        features.put("browse", Queues::browse);
        features.put("selector", Queues::selector);
        features.put("selector-refused", Queues::selectorRefused);
        features.put("rollback", Queues::rollback);
        features.put("commit", Queues::commit);
        features.put("prefetched-messages", Queues::prefetchedMessages);
        features.put("recover", Queues::recover);
        features.put("temporary-queue", Queues::temporaryQueue);
        features.put("delivery-delay", Queues::deliveryDelay);
        features.put("anonymous-producer", Queues::anonymousProducer);
        features.put("missing-queue", Queues::missingQueue);
    }

    private static void messageTypes(JmsTour.Visit visit) throws Exception {
        Session session = visit.session();
        Queue queue = session.createQueue(visit.name);
        MessageProducer producer = session.createProducer(queue);
        TextMessage text = session.createTextMessage("größe");
        text.setStringProperty("colour", "red");
        text.setLongProperty("long", 1L << 40);
        text.setBooleanProperty("flag", true);
        text.setDoubleProperty("double", 0.5);
        producer.send(text);
        BytesMessage bytes = session.createBytesMessage();
        bytes.writeInt(7);
        bytes.writeUTF("x");
        producer.send(bytes);
        MapMessage map = session.createMapMessage();
        map.setInt("n", 3);
        map.setString("s", "t");
        producer.send(map);
        producer.send(session.createObjectMessage(new ArrayList<>(List.of("a", "b"))));
        StreamMessage stream = session.createStreamMessage();
        stream.writeInt(9);
        stream.writeString("end");
        producer.send(stream);
        producer.send(session.createMessage());
        MessageConsumer consumer = session.createConsumer(queue);
        TextMessage text2 = (TextMessage) consumer.receive(JmsTour.PATIENCE_MS);
        JmsTour.same("größe", text2.getText());
        JmsTour.same("red", text2.getStringProperty("colour"));
        JmsTour.same(1L << 40, text2.getLongProperty("long"));
        JmsTour.same(true, text2.getBooleanProperty("flag"));
        JmsTour.same(0.5, text2.getDoubleProperty("double"));
        BytesMessage bytes2 = (BytesMessage) consumer.receive(JmsTour.PATIENCE_MS);
        JmsTour.same(7, bytes2.readInt());
        JmsTour.same("x", bytes2.readUTF());
        MapMessage map2 = (MapMessage) consumer.receive(JmsTour.PATIENCE_MS);
        JmsTour.same(3, map2.getInt("n"));
        JmsTour.same("t", map2.getString("s"));
        ObjectMessage object = (ObjectMessage) consumer.receive(JmsTour.PATIENCE_MS);
        JmsTour.same(List.of("a", "b"), object.getObject());
        StreamMessage stream2 = (StreamMessage) consumer.receive(JmsTour.PATIENCE_MS);
        JmsTour.same(9, stream2.readInt());
        JmsTour.same("end", stream2.readString());
        JmsTour.that(!(consumer.receive(JmsTour.PATIENCE_MS) instanceof TextMessage), "a message without a body has one");
    }

    private static void headerFields(JmsTour.Visit visit) throws Exception {
        Session session = visit.session();
        Queue queue = session.createQueue(visit.name);
        MessageProducer producer = session.createProducer(queue);
        TextMessage sent = session.createTextMessage("x");
        sent.setJMSCorrelationID("correlation");
        sent.setJMSType("order");
        sent.setJMSReplyTo(session.createQueue("answers"));
        sent.setStringProperty("JMSXGroupID", "group");
        producer.send(sent, DeliveryMode.PERSISTENT, 7, 3_600_000);
        Message received = session.createConsumer(queue).receive(JmsTour.PATIENCE_MS);
        JmsTour.same(sent.getJMSMessageID(), received.getJMSMessageID());
        JmsTour.same("correlation", received.getJMSCorrelationID());
        JmsTour.same("order", received.getJMSType());
        JmsTour.same("answers", ((Queue) received.getJMSReplyTo()).getQueueName());
        JmsTour.same("group", received.getStringProperty("JMSXGroupID"));
        JmsTour.same(7, received.getJMSPriority());
        JmsTour.same(DeliveryMode.PERSISTENT, received.getJMSDeliveryMode());
        JmsTour.same(sent.getJMSExpiration(), received.getJMSExpiration());
        JmsTour.same(sent.getJMSTimestamp(), received.getJMSTimestamp());
        JmsTour.same(1, received.getIntProperty("JMSXDeliveryCount"));
        JmsTour.same(false, received.getJMSRedelivered());
    }

    private static void send(Session session, Queue queue, String... colours) throws JMSException {
        MessageProducer producer = session.createProducer(queue);
        for (String colour : colours) {
            TextMessage message = session.createTextMessage(colour);
            message.setStringProperty("colour", colour);
            producer.send(message);
        }
        producer.close();
    }

    private static List<String> browsed(QueueBrowser browser) throws JMSException {
        List<String> texts = new ArrayList<>();
        for (Enumeration<?> all = browser.getEnumeration(); all.hasMoreElements();) {
            texts.add(((TextMessage) all.nextElement()).getText());
        }
        return texts;
    }

    private static void browse(JmsTour.Visit visit) throws Exception {
        Session session = visit.session();
        Queue queue = session.createQueue(visit.name);
        String[] many = Collections.nCopies(1_500, "many").toArray(new String[0]);
        send(session, queue, "red", "blue", "red");
        JmsTour.same(List.of("red", "blue", "red"), browsed(session.createBrowser(queue)));
        JmsTour.same(List.of("blue"), browsed(session.createBrowser(queue, "colour = 'blue'")));
        send(session, queue, many);
        // More than the client prefetches.
        JmsTour.same(1_503, browsed(session.createBrowser(queue)).size());
        MessageConsumer consumer = session.createConsumer(queue);
        for (int left = 1_503; left > 0; left--) {
            Message message = consumer.receive(JmsTour.PATIENCE_MS);
            JmsTour.that(message != null, "a browser took " + left + " messages away");
            JmsTour.same(1, message.getIntProperty("JMSXDeliveryCount"));
        }
        JmsTour.same(List.of(), browsed(session.createBrowser(queue)));
    }

    private static void selector(JmsTour.Visit visit) throws Exception {
        Session session = visit.session();
        Queue queue = session.createQueue(visit.name);
        send(session, queue, "red", "blue", "red", "green");
        MessageConsumer red = session.createConsumer(queue, "colour = 'red'");
        for (int count = 0; count < 2; count++) {
            JmsTour.same("red", ((TextMessage) red.receive(JmsTour.PATIENCE_MS)).getText());
        }
        JmsTour.same(null, red.receiveNoWait());
        send(session, queue, "red");
        JmsTour.same("red", ((TextMessage) red.receive(JmsTour.PATIENCE_MS)).getText());
        red.close();
        MessageConsumer rest = session.createConsumer(queue, "colour IN ('blue', 'green') AND JMSCorrelationID IS NULL");
        JmsTour.same("blue", ((TextMessage) rest.receive(JmsTour.PATIENCE_MS)).getText());
        JmsTour.same("green", ((TextMessage) rest.receive(JmsTour.PATIENCE_MS)).getText());
    }

    private static void selectorRefused(JmsTour.Visit visit) throws Exception {
        Session session = visit.session();
        Queue queue = session.createQueue(visit.name);
        try {
            session.createConsumer(queue, "JMSPriority > 4");
        } catch (JMSException refused) {
            JmsTour.that(refused.getMessage().contains("JMSPriority"), "the error does not say why: " + refused);
            return;
        }
        throw new AssertionError("a selector that is not applied was accepted");
    }

    private static void rollback(JmsTour.Visit visit) throws Exception {
        Session session = visit.connection().createSession(true, Session.SESSION_TRANSACTED);
        Queue queue = session.createQueue(visit.name);
        MessageConsumer consumer = session.createConsumer(queue);
        MessageProducer producer = session.createProducer(queue);
        producer.send(session.createTextMessage("one"));
        producer.send(session.createTextMessage("two"));
        session.commit();
        producer.send(session.createTextMessage("never"));
        for (int attempt = 1; attempt <= 3; attempt++) {
            long started = System.nanoTime();
            for (String text : List.of("one", "two")) {
                TextMessage message = (TextMessage) consumer.receive(JmsTour.PATIENCE_MS);
                JmsTour.that(message != null, "the message did not come back");
                JmsTour.same(text, message.getText());
                JmsTour.same(attempt, message.getIntProperty("JMSXDeliveryCount"));
                JmsTour.same(attempt > 1, message.getJMSRedelivered());
            }
            // Locks of the queue last for five minutes.
            JmsTour.that(System.nanoTime() - started < 240_000_000_000L, "messages came back with the end of their locks");
            session.rollback();
        }
        consumer.receive(JmsTour.PATIENCE_MS);
        consumer.receive(JmsTour.PATIENCE_MS);
        session.commit();
        JmsTour.same(null, consumer.receiveNoWait());
    }

    private static void commit(JmsTour.Visit visit) throws Exception {
        Session session = visit.connection().createSession(true, Session.SESSION_TRANSACTED);
        Queue queue = session.createQueue(visit.name);
        session.createProducer(queue).send(session.createTextMessage("x"));
        Session other = visit.session();
        MessageConsumer consumer = other.createConsumer(queue);
        JmsTour.same(null, consumer.receiveNoWait());
        session.commit();
        JmsTour.same("x", ((TextMessage) consumer.receive(JmsTour.PATIENCE_MS)).getText());
    }

    private static void prefetchedMessages(JmsTour.Visit visit) throws Exception {
        Session session = visit.session();
        Queue queue = session.createQueue(visit.name);
        send(session, queue, "one", "two", "three");
        MessageConsumer first = session.createConsumer(queue);
        JmsTour.same("one", ((TextMessage) first.receive(JmsTour.PATIENCE_MS)).getText());
        // It has all three, and gives two of them back.
        first.close();
        MessageConsumer second = session.createConsumer(queue);
        for (String text : List.of("two", "three")) {
            TextMessage message = (TextMessage) second.receive(JmsTour.PATIENCE_MS);
            JmsTour.that(message != null, "what was prefetched did not come back");
            JmsTour.same(text, message.getText());
            JmsTour.same(1, message.getIntProperty("JMSXDeliveryCount"));
        }
    }

    private static void recover(JmsTour.Visit visit) throws Exception {
        Session session = visit.connection().createSession(false, Session.CLIENT_ACKNOWLEDGE);
        Queue queue = session.createQueue(visit.name);
        send(session, queue, "x");
        MessageConsumer consumer = session.createConsumer(queue);
        consumer.receive(JmsTour.PATIENCE_MS);
        session.recover();
        Message again = consumer.receive(JmsTour.PATIENCE_MS);
        JmsTour.same(true, again.getJMSRedelivered());
        // Not acknowledged: another session gets it at once.
        session.close();
        Session other = visit.session();
        Message last = other.createConsumer(queue).receive(JmsTour.PATIENCE_MS);
        JmsTour.that(last != null, "what was not acknowledged did not come back");
        JmsTour.same(true, last.getJMSRedelivered());
    }

    private static void temporaryQueue(JmsTour.Visit visit) throws Exception {
        Session session = visit.session();
        Queue queue = session.createQueue(visit.name);
        TemporaryQueue answers = session.createTemporaryQueue();
        TextMessage request = session.createTextMessage("ping");
        request.setJMSReplyTo(answers);
        session.createProducer(queue).send(request);
        TextMessage asked = (TextMessage) session.createConsumer(queue).receive(JmsTour.PATIENCE_MS);
        session.createProducer(asked.getJMSReplyTo()).send(session.createTextMessage(asked.getText() + "-pong"));
        MessageConsumer consumer = session.createConsumer(answers);
        JmsTour.same("ping-pong", ((TextMessage) consumer.receive(JmsTour.PATIENCE_MS)).getText());
        consumer.close();
        answers.delete();
        try {
            session.createProducer(session.createQueue(answers.getQueueName()));
        } catch (InvalidDestinationException gone) {
            return;
        }
        throw new AssertionError("a temporary queue was there after its end");
    }

    private static void deliveryDelay(JmsTour.Visit visit) throws Exception {
        Session session = visit.session();
        Queue queue = session.createQueue(visit.name);
        MessageProducer producer = session.createProducer(queue);
        MessageConsumer consumer = session.createConsumer(queue);
        producer.setDeliveryDelay(1_500);
        producer.send(session.createTextMessage("late"));
        producer.setDeliveryDelay(0);
        producer.send(session.createTextMessage("soon"));
        JmsTour.same("soon", ((TextMessage) consumer.receive(JmsTour.PATIENCE_MS)).getText());
        Message late = consumer.receive(JmsTour.PATIENCE_MS);
        JmsTour.same("late", ((TextMessage) late).getText());
        JmsTour.that(System.currentTimeMillis() >= late.getJMSDeliveryTime(), "the message came before its time");
        JmsTour.that(late.getJMSDeliveryTime() >= late.getJMSTimestamp() + 1_500, "its time is not what was asked for");
    }

    private static void anonymousProducer(JmsTour.Visit visit) throws Exception {
        Session session = visit.session();
        Queue queue = session.createQueue(visit.name);
        session.createProducer(null).send(queue, session.createTextMessage("x"));
        JmsTour.same("x", ((TextMessage) session.createConsumer(queue).receive(JmsTour.PATIENCE_MS)).getText());
    }

    private static void missingQueue(JmsTour.Visit visit) throws Exception {
        Session session = visit.session();
        try {
            session.createConsumer(session.createQueue(visit.name + "-missing"));
        } catch (InvalidDestinationException missing) {
            return;
        }
        throw new AssertionError("a queue that does not exist was received from");
    }
}
