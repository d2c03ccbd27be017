import com.azure.core.amqp.models.AmqpAddress;
import com.azure.core.amqp.models.AmqpAnnotatedMessage;
import com.azure.core.amqp.models.AmqpMessageBody;
import com.azure.core.amqp.models.AmqpMessageBodyType;
import com.azure.core.amqp.models.AmqpMessageHeader;
import com.azure.core.amqp.models.AmqpMessageId;
import com.azure.core.amqp.models.AmqpMessageProperties;
import com.azure.messaging.servicebus.ServiceBusMessage;
import com.azure.messaging.servicebus.ServiceBusMessageBatch;
import com.azure.messaging.servicebus.ServiceBusReceivedMessage;
import com.azure.messaging.servicebus.models.CreateMessageBatchOptions;
import com.azure.messaging.servicebus.models.ServiceBusMessageState;
import java.net.URI;
import java.time.Duration;
import java.time.OffsetDateTime;
import java.time.ZoneOffset;
import java.util.Arrays;
import java.util.Date;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.UUID;

/** Features of sending, and of what a message carries: what is sent comes back. */
final class Messages {
    static final Map<String, Feature> FEATURES = Map.ofEntries(
        Map.entry("send-one", Messages::sendOne),
        Map.entry("send-array", Messages::sendArray),
        Map.entry("send-batch", Messages::sendBatch),
        Map.entry("large-message", Messages::largeMessage),
        Map.entry("body-types", Messages::bodyTypes),
        Map.entry("property-types", Messages::propertyTypes),
        Map.entry("system-properties", Messages::systemProperties),
        Map.entry("message-id-assigned", Messages::messageIdAssigned),
        Map.entry("annotated-message", Messages::annotatedMessage),
        Map.entry("time-to-live", Messages::timeToLive),
        Map.entry("duplicate-detection", Messages::duplicateDetection),
        Map.entry("forwarding", Messages::forwarding),
        Map.entry("partitioned-queue", Messages::partitionedQueue));

    private Messages() { }

    private static void sendOne(Visit visit) {
        visit.send("hello");
        Check.same(List.of("hello"), Visit.bodies(visit.takeAndComplete(visit.receiver(), 1)));
        visit.expectEmpty();
    }

    private static void sendArray(Visit visit) {
        visit.sender().sendMessages(List.of(
            new ServiceBusMessage("a"), new ServiceBusMessage("b"), new ServiceBusMessage("c")));
        List<ServiceBusReceivedMessage> taken = visit.takeAndComplete(visit.receiver(), 3);
        Check.same(List.of("a", "b", "c"), Visit.bodies(taken));
        Check.same(List.of(1L, 2L, 3L), taken.stream().map(ServiceBusReceivedMessage::getSequenceNumber).toList());
        visit.expectEmpty();
    }

    private static void sendBatch(Visit visit) {
        ServiceBusMessageBatch batch = visit.sender().createMessageBatch(
            new CreateMessageBatchOptions().setMaximumSizeInBytes(4096));
        while (batch.tryAddMessage(new ServiceBusMessage(batch.getCount() + " " + "x".repeat(100)))) continue;
        Check.that(batch.getCount() > 10, "only " + batch.getCount() + " messages fit");
        Check.that(batch.getSizeInBytes() <= 4096, "the batch has " + batch.getSizeInBytes() + " bytes");
        visit.sender().sendMessages(batch);
        List<String> bodies = Visit.bodies(visit.takeAndComplete(visit.receiver(), batch.getCount()));
        for (int at = 0; at < bodies.size(); at += 1) Check.that(bodies.get(at).startsWith(at + " "), bodies.get(at));
        Check.same(256 * 1024, visit.sender().createMessageBatch().getMaxSizeInBytes());
    }

    private static void largeMessage(Visit visit) {
        byte[] body = new byte[1_000_000];
        new Random(17).nextBytes(body);
        visit.sender().sendMessage(new ServiceBusMessage(body));
        ServiceBusReceivedMessage message = visit.takeAndComplete(visit.receiver(), 1).get(0);
        Check.that(Arrays.equals(body, message.getBody().toBytes()), "other bytes came back");
    }

    private static void bodyTypes(Visit visit) {
        List<Object> values = List.of(1, -1.5, "value", 2L << 40, true);
        List<Object> sequence = List.of(1, "two", false);
        visit.sender().sendMessage(new ServiceBusMessage(new byte[] {0, -1, -128}));
        for (Object value : values) visit.sender().sendMessage(new ServiceBusMessage(AmqpMessageBody.fromValue(value)));
        visit.sender().sendMessage(new ServiceBusMessage(AmqpMessageBody.fromSequence(sequence)));
        List<AmqpMessageBody> came = visit.takeAndComplete(visit.receiver(), values.size() + 2).stream()
            .map(message -> message.getRawAmqpMessage().getBody()).toList();
        Check.that(Arrays.equals(new byte[] {0, -1, -128}, came.get(0).getFirstData()), "other bytes came back");
        for (int at = 0; at < values.size(); at += 1) Check.same(values.get(at), came.get(at + 1).getValue());
        Check.same(AmqpMessageBodyType.SEQUENCE, came.get(values.size() + 1).getBodyType());
        Check.same(sequence, came.get(values.size() + 1).getSequence());
    }

    private static void propertyTypes(Visit visit) {
        Map<String, Object> properties = new LinkedHashMap<>();
        properties.put("text", "grüße ✓");
        properties.put("empty", "");
        properties.put("byte", (byte) -128);
        properties.put("short", (short) 300);
        properties.put("integer", Integer.MIN_VALUE);
        properties.put("long", 1L << 40);
        properties.put("float", 0.5f);
        properties.put("double", 1.5);
        properties.put("yes", true);
        properties.put("letter", 'ß');
        properties.put("id", UUID.fromString("01234567-89ab-cdef-0123-456789abcdef"));
        properties.put("at", new Date(1_700_000_000_123L));
        properties.put("moment", OffsetDateTime.of(2026, 1, 31, 12, 0, 0, 123_000_000, ZoneOffset.UTC));
        properties.put("span", Duration.ofSeconds(90, 500_000_000));
        properties.put("address", URI.create("https://example.org/path?query"));
        properties.put("nothing", null);
        ServiceBusMessage sent = new ServiceBusMessage("typed");
        sent.getApplicationProperties().putAll(properties);
        visit.sender().sendMessage(sent);
        Map<String, Object> came = visit.takeAndComplete(visit.receiver(), 1).get(0).getApplicationProperties();
        // With the types: 1 and 1L are not the same here.
        Check.same(properties, came);
    }

    private static void systemProperties(Visit visit) {
        OffsetDateTime before = Visit.now();
        visit.sender().sendMessage(new ServiceBusMessage("addressed").setMessageId("message 1")
            .setCorrelationId("correlation 1").setContentType("text/plain").setSubject("subject").setTo("to")
            .setReplyTo("reply to").setReplyToSessionId("reply to session").setPartitionKey("partition")
            .setTimeToLive(Duration.ofHours(1)));
        ServiceBusReceivedMessage message = visit.takeAndComplete(visit.receiver(), 1).get(0);
        Check.same(0L, message.getDeliveryCount());
        Check.same(
            List.of("message 1", "correlation 1", "text/plain", "subject", "to", "reply to", "reply to session",
                "partition"),
            List.of(message.getMessageId(), message.getCorrelationId(), message.getContentType(),
                message.getSubject(), message.getTo(), message.getReplyTo(), message.getReplyToSessionId(),
                message.getPartitionKey()));
        Check.same(Duration.ofHours(1), message.getTimeToLive());
        OffsetDateTime enqueued = message.getEnqueuedTime();
        Check.that(!enqueued.isBefore(before) && !enqueued.isAfter(Visit.now()), "sent at " + before + ", enqueued at " + enqueued);
        Check.same(enqueued.plusHours(1), message.getExpiresAt());
        Visit.expectMinuteLock(message.getLockedUntil(), before);
        Check.same(ServiceBusMessageState.ACTIVE, message.getState());
        UUID.fromString(message.getLockToken());
    }

    private static void messageIdAssigned(Visit visit) {
        visit.send("one");
        visit.sender().sendMessages(List.of(new ServiceBusMessage("two"), new ServiceBusMessage("three")));
        List<String> ids = visit.takeAndComplete(visit.receiver(), 3).stream()
            .map(ServiceBusReceivedMessage::getMessageId).toList();
        for (String id : ids) Check.that(id != null && !id.isEmpty(), "a message came without an id");
        Check.same(3, new HashSet<>(ids).size());
    }

    /** Every section of AMQP that the SDK writes: it leaves out the message annotations of its caller. */
    private static void annotatedMessage(Visit visit) {
        OffsetDateTime made = OffsetDateTime.of(2026, 1, 31, 12, 0, 0, 123_000_000, ZoneOffset.UTC);
        ServiceBusMessage sent = new ServiceBusMessage(AmqpMessageBody.fromValue("annotated"));
        AmqpAnnotatedMessage raw = sent.getRawAmqpMessage();
        raw.getHeader().setPriority((short) 7).setDurable(true).setFirstAcquirer(false)
            .setTimeToLive(Duration.ofSeconds(100));
        raw.getProperties().setMessageId(new AmqpMessageId("annotated 1")).setCorrelationId(new AmqpMessageId("other"))
            .setContentType("text/plain").setContentEncoding("utf-8").setSubject("subject").setTo(new AmqpAddress("to"))
            .setReplyTo(new AmqpAddress("back")).setGroupId("group").setGroupSequence(3L).setReplyToGroupId("group back")
            .setUserId(new byte[] {0, -1}).setCreationTime(made).setAbsoluteExpiryTime(made.plusYears(70));
        raw.getApplicationProperties().put("one", 1);
        raw.getDeliveryAnnotations().put("x-hop", "one hop");
        raw.getFooter().put("checksum", "foot");
        visit.sender().sendMessage(sent);
        AmqpAnnotatedMessage came = visit.takeAndComplete(visit.receiver(), 1).get(0).getRawAmqpMessage();
        AmqpMessageHeader header = came.getHeader();
        Check.same(List.of((short) 7, true, false, Duration.ofSeconds(100), 0L), List.of(header.getPriority(),
            header.isDurable(), header.isFirstAcquirer(), header.getTimeToLive(), header.getDeliveryCount()));
        AmqpMessageProperties properties = came.getProperties();
        Check.same(
            List.of("annotated 1", "other", "text/plain", "utf-8", "subject", "to", "back", "group", 3L, "group back"),
            List.of(properties.getMessageId().toString(), properties.getCorrelationId().toString(),
                properties.getContentType(), properties.getContentEncoding(), properties.getSubject(),
                properties.getTo().toString(), properties.getReplyTo().toString(), properties.getGroupId(),
                properties.getGroupSequence(), properties.getReplyToGroupId()));
        Check.that(Arrays.equals(new byte[] {0, -1}, properties.getUserId()), "another user id came back");
        Check.same(List.of(made, made.plusYears(70)),
            List.of(properties.getCreationTime(), properties.getAbsoluteExpiryTime()));
        Check.same(AmqpMessageBodyType.VALUE, came.getBody().getBodyType());
        Check.same("annotated", came.getBody().getValue());
        Check.same(Map.of("one", 1), came.getApplicationProperties());
        Check.same("one hop", came.getDeliveryAnnotations().get("x-hop"));
        Check.same(Map.of("checksum", "foot"), came.getFooter());
    }

    private static void timeToLive(Visit visit) {
        visit.sender().sendMessage(new ServiceBusMessage("short").setTimeToLive(Duration.ofMillis(300)));
        visit.sender().sendMessage(new ServiceBusMessage("long").setTimeToLive(Duration.ofHours(1)));
        ServiceBusReceivedMessage expired = visit.takeOne(visit.deadLetters());
        Check.same("short TTLExpiredException", expired.getBody() + " " + expired.getDeadLetterReason());
        Check.that(expired.getDeadLetterErrorDescription() != null, "a reason without a description");
        Check.same(List.of("long"), Visit.bodies(visit.takeAndComplete(visit.receiver(), 1)));
    }

    private static void duplicateDetection(Visit visit) {
        for (String body : List.of("first", "again", "and again")) {
            visit.sender().sendMessage(new ServiceBusMessage(body).setMessageId("same"));
        }
        visit.sender().sendMessage(new ServiceBusMessage("other").setMessageId("other"));
        Check.same(List.of("first", "other"), Visit.bodies(visit.takeAndComplete(visit.receiver(), 2)));
        visit.sender().sendMessage(new ServiceBusMessage("after it was completed").setMessageId("same"));
        visit.expectEmpty();
    }

    private static void forwarding(Visit visit) {
        visit.send("forwarded");
        ServiceBusReceivedMessage message = visit.takeAndComplete(
            visit.receiver(options -> options.queueName(visit.entity + "-target")), 1).get(0);
        Check.same("forwarded", message.getBody().toString());
        visit.expectEmpty();
    }

    private static void partitionedQueue(Visit visit) {
        for (String body : List.of("a", "b", "c")) {
            visit.sender().sendMessage(new ServiceBusMessage(body).setPartitionKey("one"));
        }
        Check.same(List.of("a", "b", "c"), Visit.bodies(visit.takeAndComplete(visit.receiver(), 3)));
    }
}
