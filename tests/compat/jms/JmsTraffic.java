import jakarta.jms.Connection;
import jakarta.jms.ConnectionFactory;
import jakarta.jms.JMSException;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageListener;
import jakarta.jms.MessageProducer;
import jakarta.jms.Queue;
import jakarta.jms.Session;
import jakarta.jms.TextMessage;
import org.apache.qpid.jms.JmsConnectionFactory;
import org.springframework.jms.JmsException;
import org.springframework.jms.connection.CachingConnectionFactory;
import org.springframework.jms.core.JmsTemplate;
import org.springframework.jms.listener.DefaultMessageListenerContainer;
import org.springframework.util.backoff.FixedBackOff;

/**
 * Numbered messages into one queue, each moved to another one in a transaction, while the broker dies.
 *
 * Arguments are host:port, key name, key, the two queues, the number of messages, and qpid or spring. It prints how many
 * sends it had to repeat, since their outcome was lost, when all are sent; and ends with its standard input.
 */
public final class JmsTraffic {
    private static final long RETRY_MS = 100;

    private JmsTraffic() { }

    public static void main(String[] arguments) throws Exception {
        ConnectionFactory factory = new JmsConnectionFactory(arguments[1], arguments[2], "amqp://" + arguments[0]);
        String from = arguments[3];
        String to = arguments[4];
        int count = Integer.parseInt(arguments[5]);
        boolean isSpring = arguments[6].equals("spring");
        if (isSpring) {
            listen(factory, from, to);
        } else {
            Thread mover = new Thread(() -> move(factory, from, to), "mover");
            mover.setDaemon(true);
            mover.start();
        }
        int repeats = isSpring ? sendByTemplate(factory, from, count) : send(factory, from, count);
        System.out.println("sent\t" + repeats);
        while (System.in.read() >= 0) { }
        System.exit(0);
    }

    // --- Qpid JMS --------------------------------------------------------------------------------------------------

    private static int send(ConnectionFactory factory, String name, int count) throws InterruptedException {
        int number = 0;
        int repeats = 0;
        while (number < count) {
            try (Connection connection = factory.createConnection()) {
                Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
                MessageProducer producer = session.createProducer(session.createQueue(name));
                while (number < count) {
                    TextMessage message = session.createTextMessage(Integer.toString(number));
                    try {
                        producer.send(message);
                    } catch (JMSException unknown) {
                        // The broker may have it all the same.
                        repeats++;
                        throw unknown;
                    }
                    number++;
                }
            } catch (JMSException lost) {
                Thread.sleep(RETRY_MS);
            }
        }
        return repeats;
    }

    private static void move(ConnectionFactory factory, String from, String to) {
        while (true) {
            try (Connection connection = factory.createConnection()) {
                connection.start();
                Session session = connection.createSession(true, Session.SESSION_TRANSACTED);
                Queue target = session.createQueue(to);
                MessageConsumer consumer = session.createConsumer(session.createQueue(from));
                MessageProducer producer = session.createProducer(target);
                while (true) {
                    Message message = consumer.receive();
                    if (message == null) throw new JMSException("the consumer was closed");
                    producer.send(session.createTextMessage(((TextMessage) message).getText()));
                    // Now and then it thinks again.
                    if (Math.random() < 0.05) session.rollback();
                    else session.commit();
                }
            } catch (JMSException lost) {
                pause();
            }
        }
    }

    private static void pause() {
        try {
            Thread.sleep(RETRY_MS);
        } catch (InterruptedException ended) {
            Thread.currentThread().interrupt();
        }
    }

    // --- Spring ----------------------------------------------------------------------------------------------------

    private static int sendByTemplate(ConnectionFactory factory, String name, int count) throws InterruptedException {
        JmsTemplate template = new JmsTemplate(new CachingConnectionFactory(factory));
        int repeats = 0;
        for (int number = 0; number < count; number++) {
            while (true) {
                try {
                    template.convertAndSend(name, Integer.toString(number));
                    break;
                } catch (JmsException unknown) {
                    repeats++;
                    Thread.sleep(RETRY_MS);
                }
            }
        }
        return repeats;
    }

    private static void listen(ConnectionFactory factory, String from, String to) {
        // The template takes part in the transaction of the listener's session.
        JmsTemplate template = new JmsTemplate(factory);
        template.setSessionTransacted(true);
        DefaultMessageListenerContainer container = new DefaultMessageListenerContainer();
        container.setConnectionFactory(factory);
        container.setDestinationName(from);
        container.setSessionTransacted(true);
        container.setBackOff(new FixedBackOff(RETRY_MS, Long.MAX_VALUE));
        container.setErrorHandler(error -> { });
        container.setMessageListener((MessageListener) message -> {
            try {
                template.convertAndSend(to, ((TextMessage) message).getText());
            } catch (JMSException error) {
                throw new IllegalStateException(error);
            }
            if (Math.random() < 0.05) throw new IllegalStateException("on purpose");
        });
        container.afterPropertiesSet();
        container.start();
    }
}
