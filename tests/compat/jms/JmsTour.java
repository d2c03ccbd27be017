import jakarta.jms.Connection;
import jakarta.jms.ConnectionFactory;
import jakarta.jms.Session;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.qpid.jms.JmsConnectionFactory;

/** What Qpid JMS and Spring's JMS template do, feature by feature: arguments are host:port, key name, key and prefix. */
public final class JmsTour {
    /** Milliseconds. Until something that must come has come, on a slow and busy machine. */
    static final long PATIENCE_MS = 60_000;

    /** One thing that a client does, on a connection of its own and a queue of its own. */
    interface Feature {
        void run(Visit visit) throws Exception;
    }

    private JmsTour() { }

    public static void main(String[] arguments) throws Exception {
        Map<String, Feature> features = new LinkedHashMap<>();
        Queues.add(features);
        Topics.add(features);
        Templates.add(features);
        for (Map.Entry<String, Feature> feature : features.entrySet()) {
            String surprise = "";
            Visit visit = new Visit(arguments[0], arguments[1], arguments[2], arguments[3] + feature.getKey());
            try (visit) {
                feature.getValue().run(visit);
            } catch (Throwable thrown) {
                surprise = thrown + " at " + (thrown.getStackTrace().length > 0 ? thrown.getStackTrace()[0] : "?");
                for (StackTraceElement place : thrown.getStackTrace()) {
                    if (!place.getClassName().contains(".")) surprise += " < " + place;
                }
            }
            System.out.println(feature.getKey() + "\t" + surprise.replaceAll("\\s+", " "));
        }
    }

    static void that(boolean isSo, String what) {
        if (!isSo) throw new AssertionError(what);
    }

    static void same(Object expected, Object actual) {
        that(java.util.Objects.equals(expected, actual), "expected " + expected + ", saw " + actual);
    }

    /** What a feature works with: a connection, and the name of its queue or topic. */
    static final class Visit implements AutoCloseable {
        final String name;
        final ConnectionFactory factory;
        private final String address;
        private final String user;
        private final String key;
        private Connection connection;

        Visit(String address, String user, String key, String name) {
            this.address = address;
            this.user = user;
            this.key = key;
            this.name = name;
            factory = new JmsConnectionFactory(user, key, "amqp://" + address);
        }

        Connection connection() throws Exception {
            if (connection == null) {
                connection = factory.createConnection();
                connection.start();
            }
            return connection;
        }

        Session session() throws Exception {
            return connection().createSession(false, Session.AUTO_ACKNOWLEDGE);
        }

        /** A connection that durable subscriptions belong to. */
        Connection connectionOf(String client) throws Exception {
            Connection other = new JmsConnectionFactory(user, key, "amqp://" + address).createConnection();
            other.setClientID(client);
            other.start();
            return other;
        }

        @Override
        public void close() throws Exception {
            if (connection != null) connection.close();
        }
    }
}
