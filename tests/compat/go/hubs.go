package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azeventhubs/v2"
)

const partitionCount = 4

// Features of sending to event hubs, and of asking about them.
var hubFeatures = map[string]feature{
	"send-and-read":       sendAndRead,
	"batch":               hubBatch,
	"partitions":          hubPartitions,
	"partition-keys":      partitionKeys,
	"body-types":          hubBodyTypes,
	"properties":          hubProperties,
	"runtime-information": runtimeInformation,
	"unknown-entities":    unknownEntities,
	"too-large":           tooLarge,
	"many-events":         manyEvents,
}

func (v *visit) websocket() func(context.Context, azeventhubs.WebSocketConnParams) (net.Conn, error) {
	if v.transport != "websocket" {
		return nil
	}
	return func(ctx context.Context, params azeventhubs.WebSocketConnParams) (net.Conn, error) {
		return v.dial(ctx, params.Host)
	}
}

func (v *visit) producerOf(hub string) *azeventhubs.ProducerClient {
	options := &azeventhubs.ProducerClientOptions{
		RetryOptions: azeventhubs.RetryOptions{MaxRetries: -1}, NewWebSocketConn: v.websocket(),
	}
	if v.transport != "tcp" {
		options.TLSConfig = v.trust
	}
	client := must(azeventhubs.NewProducerClientFromConnectionString(v.address(v.connectionString), hub, options))
	v.keep(client.Close)
	return client
}

func (v *visit) producer() *azeventhubs.ProducerClient { return v.producerOf(v.entity) }

func (v *visit) consumerOf(hub, group string) *azeventhubs.ConsumerClient {
	options := &azeventhubs.ConsumerClientOptions{
		RetryOptions: azeventhubs.RetryOptions{MaxRetries: -1}, NewWebSocketConn: v.websocket(),
	}
	if v.transport != "tcp" {
		options.TLSConfig = v.trust
	}
	client := must(azeventhubs.NewConsumerClientFromConnectionString(v.address(v.connectionString), hub, group, options))
	v.keep(client.Close)
	return client
}

func (v *visit) consumer() *azeventhubs.ConsumerClient {
	return v.consumerOf(v.entity, azeventhubs.DefaultConsumerGroup)
}

func trySend(v *visit, producer *azeventhubs.ProducerClient, options azeventhubs.EventDataBatchOptions, texts ...string) error {
	batch, err := producer.NewEventDataBatch(v.ctx, &options)
	if err != nil {
		return err
	}
	for _, text := range texts {
		if err := batch.AddEventData(&azeventhubs.EventData{Body: []byte(text)}, nil); err != nil {
			return err
		}
	}
	return producer.SendEventDataBatch(v.ctx, batch, nil)
}

func sendTo(v *visit, producer *azeventhubs.ProducerClient, partition string, texts ...string) {
	must0(trySend(v, producer, azeventhubs.EventDataBatchOptions{PartitionID: &partition}, texts...))
}

// takeEvents reads exactly so many events of a partition, in the order of their arrival.
func takeEvents(v *visit, partition string, count int, position azeventhubs.StartPosition) []*azeventhubs.ReceivedEventData {
	ctx, cancel := context.WithTimeout(v.ctx, patience)
	defer cancel()
	client := must(v.consumer().NewPartitionClient(partition, &azeventhubs.PartitionClientOptions{StartPosition: position}))
	defer func() { _ = client.Close(v.ctx) }()
	taken := []*azeventhubs.ReceivedEventData{}
	for len(taken) < count {
		taken = append(taken, must(client.ReceiveEvents(ctx, count-len(taken), nil))...)
	}
	return taken
}

// takeFromAll reads all partitions until there are so many events, and returns them by partition.
func takeFromAll(v *visit, count int) map[string][]*azeventhubs.ReceivedEventData {
	ctx, cancel := context.WithCancel(v.ctx)
	defer cancel()
	found, total := map[string][]*azeventhubs.ReceivedEventData{}, 0
	var lock sync.Mutex
	consumer := v.consumer()
	for number := range partitionCount {
		partition := fmt.Sprint(number)
		client := must(consumer.NewPartitionClient(partition, &azeventhubs.PartitionClientOptions{StartPosition: earliest}))
		go func() {
			for {
				events, err := client.ReceiveEvents(ctx, 1, nil)
				if err != nil {
					return
				}
				lock.Lock()
				found[partition] = append(found[partition], events...)
				total += len(events)
				lock.Unlock()
			}
		}()
	}
	until(fmt.Sprintf("%d events", count), func() bool {
		lock.Lock()
		defer lock.Unlock()
		return total >= count
	})
	lock.Lock()
	defer lock.Unlock()
	return found
}

func texts(events []*azeventhubs.ReceivedEventData) string {
	all := make([]string, len(events))
	for at, event := range events {
		all[at] = string(event.Body)
	}
	return strings.Join(all, " ")
}

func sendAndRead(v *visit) {
	sendTo(v, v.producer(), "0", strings.Fields(numbers(120))...)
	read := takeEvents(v, "0", 120, earliest)
	same(numbers(120), texts(read))
	for at, event := range read {
		same([]any{int64(at), fmt.Sprint(at)}, []any{event.SequenceNumber, event.Offset})
		expectRecent(*event.EnqueuedTime)
	}
}

func hubBatch(v *visit) {
	producer := v.producer()
	batch := must(producer.NewEventDataBatch(v.ctx, &azeventhubs.EventDataBatchOptions{PartitionID: ptr("1")}))
	for batch.AddEventData(&azeventhubs.EventData{Body: numbered(int(batch.NumEvents()), 5_000)}, nil) == nil {
	}
	// The limit of a hub is 1 MiB: nearly all of it is used.
	check(batch.NumEvents() > 150 && batch.NumBytes() > 1_040_000 && batch.NumBytes() <= 1_048_576,
		"%d events, %d bytes", batch.NumEvents(), batch.NumBytes())
	must0(producer.SendEventDataBatch(v.ctx, batch, nil))
	for at, event := range takeEvents(v, "1", int(batch.NumEvents()), earliest) {
		same(string(numbered(at, 5_000)), string(event.Body))
	}
}

func hubPartitions(v *visit) {
	producer := v.producer()
	for number := range partitionCount {
		sendTo(v, producer, fmt.Sprint(number), fmt.Sprintf("for-%d", number))
	}
	found := takeFromAll(v, partitionCount)
	same(partitionCount, len(found))
	for partition, events := range found {
		same("for-"+partition, texts(events))
	}
}

// A key leads to the partition that the service's hash names, and comes back with the event. This SDK has no hash of its
// own: the numbers are those of the SDKs for JavaScript and Java.
func partitionKeys(v *visit) {
	producer := v.producer()
	expected := map[string]string{"a": "0", "customer-17": "3", "Straße": "2", "鍵": "0", strings.Repeat("x", 128): "0"}
	for range 2 {
		for key := range expected {
			must0(trySend(v, producer, azeventhubs.EventDataBatchOptions{PartitionKey: &key}, key))
		}
	}
	counts := map[string]int{}
	for partition, events := range takeFromAll(v, 2*len(expected)) {
		for _, event := range events {
			same([]string{string(event.Body), expected[string(event.Body)]}, []string{*event.PartitionKey, partition})
			counts[string(event.Body)]++
		}
	}
	for key := range expected {
		same(2, counts[key])
	}
}

func hubBodyTypes(v *visit) {
	producer := v.producer()
	batch := must(producer.NewEventDataBatch(v.ctx, &azeventhubs.EventDataBatchOptions{PartitionID: ptr("0")}))
	sent := []azeventhubs.AMQPAnnotatedMessageBody{
		{Data: [][]byte{{0, 255, 7}}}, {Value: "a value"}, {Sequence: [][]any{{int64(1), "two"}}},
	}
	for _, body := range sent {
		must0(batch.AddAMQPAnnotatedMessage(&azeventhubs.AMQPAnnotatedMessage{Body: body}, nil))
	}
	must0(producer.SendEventDataBatch(v.ctx, batch, nil))
	for at, event := range takeEvents(v, "0", len(sent), earliest) {
		same(sent[at], event.RawAMQPMessage.Body)
	}
}

func hubProperties(v *visit) {
	producer := v.producer()
	batch := must(producer.NewEventDataBatch(v.ctx, &azeventhubs.EventDataBatchOptions{PartitionKey: ptr("a")}))
	properties := map[string]any{"text": "Grüße", "number": int64(17), "real": 0.5, "flag": true, "nothing": nil}
	must0(batch.AddEventData(&azeventhubs.EventData{
		Body: []byte("x"), ContentType: ptr("text/plain"), CorrelationID: "correlated", MessageID: ptr("an-id"),
		Properties: properties,
	}, nil))
	must0(producer.SendEventDataBatch(v.ctx, batch, nil))
	read := takeEvents(v, "0", 1, earliest)[0]
	same([]any{"text/plain", "correlated", "an-id"}, []any{*read.ContentType, read.CorrelationID, *read.MessageID})
	same(properties, read.Properties)
	same("a", *read.PartitionKey)
	expectRecent(*read.EnqueuedTime)
	names := []string{}
	for name := range read.RawAMQPMessage.MessageAnnotations {
		names = append(names, fmt.Sprint(name))
	}
	slices.Sort(names)
	same([]string{"x-opt-enqueued-time", "x-opt-offset", "x-opt-partition-key", "x-opt-sequence-number",
		"x-opt-sequence-number-epoch"}, names)
}

func runtimeInformation(v *visit) {
	producer := v.producer()
	hub := must(producer.GetEventHubProperties(v.ctx, nil))
	same(v.entity, hub.Name)
	same([]string{"0", "1", "2", "3"}, hub.PartitionIDs)
	expectRecent(hub.CreatedOn)
	empty := must(producer.GetPartitionProperties(v.ctx, "2", nil))
	same([]any{true, int64(-1), int64(-1), "-1"}, []any{empty.IsEmpty, empty.BeginningSequenceNumber,
		empty.LastEnqueuedSequenceNumber, empty.LastEnqueuedOffset})
	sendTo(v, producer, "2", "a", "b")
	filled := must(producer.GetPartitionProperties(v.ctx, "2", nil))
	same([]any{false, int64(0), int64(1), "1"}, []any{filled.IsEmpty, filled.BeginningSequenceNumber,
		filled.LastEnqueuedSequenceNumber, filled.LastEnqueuedOffset})
	expectRecent(filled.LastEnqueuedOn)
}

func unknownEntities(v *visit) {
	// The SDK has no code for what is missing, and hides the condition of what it would try again.
	says("could not be found", trySend(v, v.producerOf("no-such-hub"), azeventhubs.EventDataBatchOptions{}, "x"))
	says("com.microsoft:argument-out-of-range",
		trySend(v, v.producer(), azeventhubs.EventDataBatchOptions{PartitionID: ptr("4")}, "x"))
	client := must(v.consumerOf(v.entity, "no-such-group").NewPartitionClient("0", nil))
	_, err := client.ReceiveEvents(v.ctx, 1, nil)
	says("could not be found", err)
	_, err = v.producer().GetPartitionProperties(v.ctx, "4", nil)
	says("The specified partition is invalid", err)
}

func tooLarge(v *visit) {
	batch := must(v.producer().NewEventDataBatch(v.ctx, nil))
	event := &azeventhubs.EventData{Body: bytes.Repeat([]byte("x"), 1_100_000)}
	same(azeventhubs.ErrEventDataTooLarge, batch.AddEventData(event, nil))
}

func manyEvents(v *visit) {
	producer := v.producer()
	all := strings.Fields(numbers(5_000))
	for start := 0; start < len(all); start += 500 {
		sendTo(v, producer, "0", all[start:start+500]...)
	}
	same(numbers(5_000), texts(takeEvents(v, "0", 5_000, earliest)))
}
