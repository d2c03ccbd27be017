package main

import (
	"bytes"
	"strconv"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/go-amqp"
)

// Features of sending, and of what a message carries: what is sent comes back.
var messageFeatures = map[string]feature{
	"send-one": func(v *visit) {
		v.send("hello")
		same("hello", bodies(v.takeAndComplete(v.receiver(), 1)))
		v.expectLeft("")
	},
	"send-array":           sendArray,
	"send-batch":           sendBatch,
	"large-message":        largeMessage,
	"body-types":           bodyTypes,
	"property-types":       propertyTypes,
	"system-properties":    systemProperties,
	"message-id-types":     messageIDTypes,
	"message-id-assigned":  messageIDAssigned,
	"annotated-message":    annotatedMessage,
	"time-to-live":         timeToLive,
	"duplicate-detection":  duplicateDetection,
	"schedule":             schedule,
	"schedule-by-property": scheduleByProperty,
	"cancel-scheduled":     cancelScheduled,
	"forwarding": func(v *visit) {
		v.send("forwarded")
		same("forwarded", bodies(v.takeAndComplete(v.receiverFrom(v.entity+"-target", nil), 1)))
		v.expectLeft("")
	},
	"partitioned-queue": func(v *visit) {
		for _, body := range []string{"a", "b", "c"} {
			v.sendMessage(&azservicebus.Message{Body: []byte(body), PartitionKey: ptr("one")})
		}
		same("a b c", bodies(v.takeAndComplete(v.receiver(), 3)))
	},
}

// sendBatchOf sends messages in one transfer: the SDK has no other way to send several at once.
func sendBatchOf(v *visit, bodies ...string) {
	batch := must(v.sender().NewMessageBatch(v.ctx, nil))
	for _, body := range bodies {
		must0(batch.AddMessage(&azservicebus.Message{Body: []byte(body)}, nil))
	}
	must0(v.sender().SendMessageBatch(v.ctx, batch, nil))
}

func sendArray(v *visit) {
	sendBatchOf(v, "a", "b", "c")
	taken := v.takeAndComplete(v.receiver(), 3)
	same("a b c", bodies(taken))
	for at, message := range taken {
		same(int64(at+1), *message.SequenceNumber)
	}
	v.expectLeft("")
}

func sendBatch(v *visit) {
	batch := must(v.sender().NewMessageBatch(v.ctx, &azservicebus.MessageBatchOptions{MaxBytes: 4096}))
	for batch.AddMessage(&azservicebus.Message{Body: numbered(int(batch.NumMessages()), 100)}, nil) == nil {
	}
	check(batch.NumMessages() > 10 && batch.NumBytes() <= 4096, "%d messages, %d bytes", batch.NumMessages(), batch.NumBytes())
	must0(v.sender().SendMessageBatch(v.ctx, batch, nil))
	for at, message := range v.takeAndComplete(v.receiver(), int(batch.NumMessages())) {
		same(string(numbered(at, 100)), string(message.Body))
	}
	v.expectLeft("")
	// The limit of a queue that was given none: nearly all of it fits, and more does not.
	whole := must(v.sender().NewMessageBatch(v.ctx, nil))
	same(azservicebus.ErrMessageTooLarge, whole.AddMessage(&azservicebus.Message{Body: make([]byte, 256*1024)}, nil))
	must0(whole.AddMessage(&azservicebus.Message{Body: make([]byte, 255*1024)}, nil))
}

// numbered is a body that begins with a number, and is so much longer.
func numbered(number, length int) []byte {
	return []byte(strconv.Itoa(number) + " " + strings.Repeat("x", length))
}

func largeMessage(v *visit) {
	body := bytes.Repeat([]byte{0, 255, 7, 128}, 250_000)
	v.sendMessage(&azservicebus.Message{Body: body})
	check(bytes.Equal(body, v.takeAndComplete(v.receiver(), 1)[0].Body), "other bytes came back")
}

func bodyTypes(v *visit) {
	sent := []azservicebus.AMQPAnnotatedMessageBody{
		{Data: [][]byte{{0, 255, 128}}},
		{Data: [][]byte{{1}, {2, 3}}},
		{Value: "value"},
		{Value: int64(-5)},
		{Value: true},
		{Sequence: [][]any{{int64(1), "two", false}}},
	}
	for _, body := range sent {
		must0(v.sender().SendAMQPAnnotatedMessage(v.ctx, &azservicebus.AMQPAnnotatedMessage{Body: body}, nil))
	}
	for at, message := range v.takeAndComplete(v.receiver(), len(sent)) {
		same(sent[at], message.RawAMQPMessage.Body)
	}
}

func propertyTypes(v *visit) {
	properties := map[string]any{
		"text": "grüße ✓", "empty": "", "byte": int8(-128), "short": int16(300), "integer": int32(-5),
		"long": int64(1) << 40, "unsigned": uint64(1) << 63, "float": float32(0.5), "double": 1.5, "yes": true,
		"at": time.UnixMilli(1_700_000_000_123),
	}
	properties["nothing"] = nil
	v.sendMessage(&azservicebus.Message{Body: []byte("typed"), ApplicationProperties: properties})
	same(properties, v.takeAndComplete(v.receiver(), 1)[0].ApplicationProperties)
}

func systemProperties(v *visit) {
	before := time.Now()
	v.sendMessage(&azservicebus.Message{
		Body: []byte("addressed"), MessageID: ptr("message 1"), CorrelationID: ptr("correlation 1"),
		ContentType: ptr("text/plain"), Subject: ptr("subject"), To: ptr("to"), ReplyTo: ptr("reply to"),
		ReplyToSessionID: ptr("reply to session"), PartitionKey: ptr("partition"), TimeToLive: ptr(time.Hour),
	})
	m := v.takeAndComplete(v.receiver(), 1)[0]
	expected := []string{"message 1", "correlation 1", "text/plain", "subject", "to", "reply to", "reply to session",
		"partition"}
	same(expected, []string{m.MessageID, *m.CorrelationID, *m.ContentType, *m.Subject, *m.To, *m.ReplyTo,
		*m.ReplyToSessionID, *m.PartitionKey})
	same(time.Hour, *m.TimeToLive)
	check(!m.EnqueuedTime.Before(before.Truncate(time.Millisecond)) && !m.EnqueuedTime.After(time.Now()),
		"enqueued at %s, sent at %s", m.EnqueuedTime, before)
	same(m.EnqueuedTime.Add(time.Hour).UnixMilli(), m.ExpiresAt.UnixMilli())
	expectMinuteLock(*m.LockedUntil, before)
	check(m.LockToken != [16]byte{}, "the message has no lock token")
	same([]any{azservicebus.MessageStateActive, uint32(0)}, []any{m.State, m.DeliveryCount - firstDelivery})
}

func messageIDTypes(v *visit) {
	uuid := amqp.UUID{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}
	for _, id := range []any{"text", uint64(42), []byte{0, 255, 7}, uuid} {
		properties := &azservicebus.AMQPAnnotatedMessageProperties{MessageID: id, CorrelationID: id}
		must0(v.sender().SendAMQPAnnotatedMessage(v.ctx, &azservicebus.AMQPAnnotatedMessage{
			Properties: properties, Body: azservicebus.AMQPAnnotatedMessageBody{Data: [][]byte{[]byte("named")}},
		}, nil))
		raw := v.takeAndComplete(v.receiver(), 1)[0].RawAMQPMessage.Properties
		same([]any{id, id}, []any{raw.MessageID, raw.CorrelationID})
	}
}

func messageIDAssigned(v *visit) {
	v.send("one")
	sendBatchOf(v, "two", "three")
	ids := map[string]bool{}
	for _, message := range v.takeAndComplete(v.receiver(), 3) {
		check(message.MessageID != "", "a message came without an id")
		ids[message.MessageID] = true
	}
	same(3, len(ids))
}

// Every section of AMQP: what the sender filled comes back.
func annotatedMessage(v *visit) {
	properties := azservicebus.AMQPAnnotatedMessageProperties{
		MessageID: "annotated 1", CorrelationID: "other", ContentType: ptr("text/plain"), ContentEncoding: ptr("utf-8"),
		Subject: ptr("subject"), To: ptr("to"), ReplyTo: ptr("back"), GroupID: ptr("group"), GroupSequence: ptr(uint32(3)),
		ReplyToGroupID: ptr("group back"), UserID: []byte{0, 255}, CreationTime: ptr(time.UnixMilli(1_700_000_000_123)),
		AbsoluteExpiryTime: ptr(time.UnixMilli(4_000_000_000_456)),
	}
	header := azservicebus.AMQPAnnotatedMessageHeader{Priority: 7, Durable: true, TTL: 100 * time.Second}
	must0(v.sender().SendAMQPAnnotatedMessage(v.ctx, &azservicebus.AMQPAnnotatedMessage{
		Body:                  azservicebus.AMQPAnnotatedMessageBody{Value: "annotated"},
		Header:                &header,
		Footer:                map[any]any{"checksum": "foot"},
		DeliveryAnnotations:   map[any]any{"x-hop": "one hop"},
		MessageAnnotations:    map[any]any{"x-mine": "annotation"},
		ApplicationProperties: map[string]any{"one": int64(1)},
		Properties:            &properties,
	}, nil))
	came := v.takeAndComplete(v.receiver(), 1)[0].RawAMQPMessage
	same("annotated", came.Body.Value)
	same(header, *came.Header)
	same(map[any]any{"checksum": "foot"}, came.Footer)
	same("one hop", came.DeliveryAnnotations["x-hop"])
	same("annotation", came.MessageAnnotations["x-mine"])
	same(map[string]any{"one": int64(1)}, came.ApplicationProperties)
	same(properties, *came.Properties)
}

func timeToLive(v *visit) {
	v.sendMessage(&azservicebus.Message{Body: []byte("short"), TimeToLive: ptr(silence)})
	v.sendMessage(&azservicebus.Message{Body: []byte("long"), TimeToLive: ptr(time.Hour)})
	expired := v.takeOne(v.deadLetters())
	same("short TTLExpiredException", string(expired.Body)+" "+*expired.DeadLetterReason)
	same("long", bodies(v.takeAndComplete(v.receiver(), 1)))
}

func duplicateDetection(v *visit) {
	for _, body := range []string{"first", "again", "and again"} {
		v.sendMessage(&azservicebus.Message{Body: []byte(body), MessageID: ptr("same")})
	}
	v.sendMessage(&azservicebus.Message{Body: []byte("other"), MessageID: ptr("other")})
	same("first other", bodies(v.takeAndComplete(v.receiver(), 2)))
	v.sendMessage(&azservicebus.Message{Body: []byte("after it was completed"), MessageID: ptr("same")})
	v.expectLeft("")
}

func scheduled(v *visit, due time.Time, texts ...string) []int64 {
	messages := make([]*azservicebus.Message, len(texts))
	for at, text := range texts {
		messages[at] = &azservicebus.Message{Body: []byte(text)}
	}
	return must(v.sender().ScheduleMessages(v.ctx, messages, due, nil))
}

func schedule(v *visit) {
	due := time.Now().Add(far).UTC().Truncate(time.Millisecond)
	numbers := scheduled(v, due, "a", "b")
	peeked := v.peekAll(v.receiver())
	same("a b", bodies(peeked))
	for at, message := range peeked {
		same([]any{numbers[at], azservicebus.MessageStateScheduled, due},
			[]any{*message.SequenceNumber, message.State, message.ScheduledEnqueueTime.UTC()})
	}
	must0(v.sender().CancelScheduledMessages(v.ctx, numbers, nil))
	due = time.Now().Add(soon).Truncate(time.Millisecond)
	scheduled(v, due, "c", "d")
	taken := v.takeAndComplete(v.receiver(), 2)
	same("c d", bodies(taken))
	for _, message := range taken {
		check(!message.EnqueuedTime.Before(due), "enqueued at %s, due at %s", message.EnqueuedTime, due)
	}
	v.expectLeft("")
}

func scheduleByProperty(v *visit) {
	v.sendMessage(&azservicebus.Message{Body: []byte("far"), ScheduledEnqueueTime: ptr(time.Now().Add(far))})
	v.send("now")
	receiver := v.receiver()
	same("now", bodies(v.takeAndComplete(receiver, 1)))
	due := time.Now().Add(soon).Truncate(time.Millisecond)
	v.sendMessage(&azservicebus.Message{Body: []byte("soon"), ScheduledEnqueueTime: &due})
	message := v.takeAndComplete(receiver, 1)[0]
	same("soon", string(message.Body))
	check(!message.EnqueuedTime.Before(due), "enqueued at %s, due at %s", message.EnqueuedTime, due)
	left := v.peekAll(receiver)
	same([]any{"far", azservicebus.MessageStateScheduled}, []any{bodies(left), left[0].State})
}

func cancelScheduled(v *visit) {
	numbers := scheduled(v, time.Now().Add(far), "kept", "first", "second")
	must0(v.sender().CancelScheduledMessages(v.ctx, numbers[1:], nil))
	v.expectLeft("kept")
	must0(v.sender().CancelScheduledMessages(v.ctx, numbers[:1], nil))
	v.expectLeft("")
	refused(azservicebus.CodeNotFound, v.sender().CancelScheduledMessages(v.ctx, numbers[:1], nil))
}
