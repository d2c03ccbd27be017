import com.azure.core.amqp.AmqpRetryOptions;
import com.azure.core.amqp.AmqpTransportType;
import com.azure.messaging.servicebus.ServiceBusClientBuilder;
import com.azure.messaging.servicebus.ServiceBusClientBuilder.ServiceBusReceiverClientBuilder;
import com.azure.messaging.servicebus.ServiceBusMessage;
import com.azure.messaging.servicebus.ServiceBusReceivedMessage;
import com.azure.messaging.servicebus.ServiceBusReceiverClient;
import com.azure.messaging.servicebus.ServiceBusSenderClient;
import com.azure.messaging.servicebus.ServiceBusSessionReceiverClient;
import com.azure.messaging.servicebus.models.ServiceBusReceiveMode;
import com.azure.messaging.servicebus.models.SubQueue;
import java.time.Duration;
import java.time.OffsetDateTime;
import java.time.ZoneOffset;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.function.UnaryOperator;
import java.util.stream.Stream;

/** The stay of one feature at its entity. Closing the visit closes every client that was made on the way. */
final class Visit implements AutoCloseable {
    /** How long to wait for what must come: it comes at once, unless the machine is busy. */
    static final Duration PATIENCE = Duration.ofSeconds(60);
    /** How long to listen for what must not come. A busy machine can hide it, but cannot make it come. */
    static final Duration SILENCE = Duration.ofMillis(300);
    /** How far ahead to schedule what is received afterwards: the feature waits for it. */
    static final Duration SOON = Duration.ofMillis(700);
    /** How far ahead to schedule what is cancelled afterwards: no machine is so slow that it becomes due before. */
    static final Duration FAR = Duration.ofHours(1);

    /** Where the broker is: its connection strings, one of them without the right to send, and its HTTP port. */
    record Target(String connectionString, String listening, int httpPort) { }

    final Target target;
    final String transport;
    final String entity;
    private final Deque<AutoCloseable> open = new ArrayDeque<>();
    private ServiceBusClientBuilder shared;
    private ServiceBusSenderClient sharedSender;

    Visit(Target target, String transport, String entity) {
        this.target = target;
        this.transport = transport;
        this.entity = entity;
    }

    /** No retries: they would hide the first answer of the server. */
    static AmqpRetryOptions oneTry() {
        return new AmqpRetryOptions().setMaxRetries(0).setTryTimeout(PATIENCE);
    }

    /** The connection string for the transport: with the flag of the emulator the SDK speaks plain TCP. */
    String address(String connectionString) {
        return transport.equals("tcp") ? connectionString + ";UseDevelopmentEmulator=true"
            : connectionString.replaceFirst("localhost:\\d+", "localhost");
    }

    String address() {
        return address(target.connectionString());
    }

    /** Without the flag of the emulator the SDK takes a port from nowhere else. */
    String customEndpoint() {
        return target.connectionString().replaceFirst(".*Endpoint=sb://([^;/]+).*", "https://$1");
    }

    AmqpTransportType transportType() {
        return transport.equals("websocket") ? AmqpTransportType.AMQP_WEB_SOCKETS : AmqpTransportType.AMQP;
    }

    /** A builder with a connection of its own. */
    ServiceBusClientBuilder connect(String connectionString) {
        ServiceBusClientBuilder builder = new ServiceBusClientBuilder()
            .connectionString(address(connectionString)).transportType(transportType()).retryOptions(oneTry());
        return transport.equals("tcp") ? builder : builder.customEndpointAddress(customEndpoint());
    }

    ServiceBusClientBuilder connect() {
        return connect(target.connectionString());
    }

    /** The builder whose clients share one connection, which serves when one is enough. */
    ServiceBusClientBuilder builder() {
        if (shared == null) shared = connect();
        return shared;
    }

    <C extends AutoCloseable> C keep(C client) {
        open.push(client);
        return client;
    }

    ServiceBusSenderClient sender() {
        if (sharedSender == null) sharedSender = senderTo(entity);
        return sharedSender;
    }

    ServiceBusSenderClient senderTo(String queueOrTopic) {
        return keep(builder().sender().queueName(queueOrTopic).buildClient());
    }

    void send(String... bodies) {
        for (String body : bodies) sender().sendMessage(new ServiceBusMessage(body));
    }

    ServiceBusReceiverClient receiver(UnaryOperator<ServiceBusReceiverClientBuilder> options) {
        return keep(options.apply(builder().receiver().disableAutoComplete().queueName(entity)).buildClient());
    }

    ServiceBusReceiverClient receiver() {
        return receiver(options -> options);
    }

    ServiceBusReceiverClient deletingReceiver() {
        return receiver(options -> options.receiveMode(ServiceBusReceiveMode.RECEIVE_AND_DELETE));
    }

    ServiceBusReceiverClient deadLetters() {
        return receiver(options -> options.subQueue(SubQueue.DEAD_LETTER_QUEUE));
    }

    ServiceBusReceiverClient subscriber(String subscription, UnaryOperator<ServiceBusReceiverClientBuilder> options) {
        return keep(options.apply(builder().receiver().disableAutoComplete().topicName(entity)
            .subscriptionName(subscription)).buildClient());
    }

    ServiceBusReceiverClient subscriber(String subscription) {
        return subscriber(subscription, options -> options);
    }

    ServiceBusSessionReceiverClient sessions() {
        return keep(builder().sessionReceiver().disableAutoComplete().queueName(entity).buildClient());
    }

    ServiceBusReceiverClient session(String id) {
        return keep(sessions().acceptSession(id));
    }

    /** Receive exactly so many messages, in the order of their arrival. */
    List<ServiceBusReceivedMessage> take(ServiceBusReceiverClient receiver, int count) {
        List<ServiceBusReceivedMessage> taken = new ArrayList<>();
        long deadline = System.nanoTime() + PATIENCE.toNanos();
        while (taken.size() < count && System.nanoTime() < deadline) {
            receiver.receiveMessages(count - taken.size(), Duration.ofSeconds(20)).forEach(taken::add);
        }
        if (taken.size() != count) throw new AssertionError("expected " + count + " messages, got " + bodies(taken));
        return taken;
    }

    ServiceBusReceivedMessage takeOne(ServiceBusReceiverClient receiver) {
        return take(receiver, 1).get(0);
    }

    List<ServiceBusReceivedMessage> takeAndComplete(ServiceBusReceiverClient receiver, int count) {
        List<ServiceBusReceivedMessage> taken = take(receiver, count);
        taken.forEach(receiver::complete);
        return taken;
    }

    /** Insist that a lock of a minute, which the service gave at some time after this one, ends when it should. */
    static void expectMinuteLock(OffsetDateTime lockedUntil, OffsetDateTime before) {
        OffsetDateTime latest = OffsetDateTime.now(ZoneOffset.UTC).plusMinutes(1);
        Check.that(!lockedUntil.isBefore(before.plusMinutes(1)) && !lockedUntil.isAfter(latest),
            "locked until " + lockedUntil + ", which is not a minute after " + before + " or later");
    }

    /** The time by the clock of the service, which has milliseconds. */
    static OffsetDateTime now() {
        return in(Duration.ZERO);
    }

    void expectSilence(ServiceBusReceiverClient receiver) {
        Check.same(List.of(), bodies(receiver.receiveMessages(1, SILENCE).stream().toList()));
    }

    /** Everything in the queue, whatever its state. */
    List<ServiceBusReceivedMessage> peekAll() {
        return peekAll(receiver());
    }

    static List<ServiceBusReceivedMessage> peekAll(ServiceBusReceiverClient receiver) {
        return receiver.peekMessages(250, 1).stream().toList();
    }

    void expectEmpty() {
        Check.same(List.of(), bodies(peekAll()));
    }

    static List<String> bodies(List<ServiceBusReceivedMessage> messages) {
        return messages.stream().map(message -> message.getBody().toString()).toList();
    }

    static List<ServiceBusMessage> inSession(String id, String... bodies) {
        return Stream.of(bodies).map(body -> new ServiceBusMessage(body).setSessionId(id)).toList();
    }

    static OffsetDateTime in(Duration duration) {
        OffsetDateTime moment = OffsetDateTime.now(ZoneOffset.UTC).plus(duration);
        return moment.withNano(moment.getNano() / 1_000_000 * 1_000_000);
    }

    @Override
    public void close() throws Exception {
        while (!open.isEmpty()) open.pop().close();
    }
}
