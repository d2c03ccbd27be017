package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azeventhubs/v2"
)

// Features of reading event hubs: positions, owners, and processors that share the partitions.
var hubConsumerFeatures = map[string]feature{
	"positions":        positions,
	"invalid-position": invalidPosition,
	"owner-level":      ownerLevel,
	"balancing":        balancing,
}

var earliest = azeventhubs.StartPosition{Earliest: ptr(true)}

func positions(v *visit) {
	producer := v.producer()
	sendTo(v, producer, "0", "a", "b", "c")
	time.Sleep(10 * time.Millisecond)
	between := time.Now()
	time.Sleep(10 * time.Millisecond)
	sendTo(v, producer, "0", "d")
	ofD := must(producer.GetPartitionProperties(v.ctx, "0", nil)).LastEnqueuedOn
	justBefore := ofD.Add(-time.Millisecond)
	time.Sleep(10 * time.Millisecond)
	sendTo(v, producer, "0", "e")
	for _, one := range []struct {
		position azeventhubs.StartPosition
		expected string
	}{
		{earliest, "a b c d e"},
		{azeventhubs.StartPosition{Offset: ptr("1")}, "c d e"},
		{azeventhubs.StartPosition{Offset: ptr("1"), Inclusive: true}, "b c d e"},
		{azeventhubs.StartPosition{SequenceNumber: ptr(int64(2))}, "d e"},
		{azeventhubs.StartPosition{SequenceNumber: ptr(int64(2)), Inclusive: true}, "c d e"},
		{azeventhubs.StartPosition{EnqueuedTime: &between}, "d e"},
		{azeventhubs.StartPosition{EnqueuedTime: &ofD}, "e"},
		{azeventhubs.StartPosition{EnqueuedTime: &justBefore}, "d e"},
	} {
		same(one.expected, texts(takeEvents(v, "0", len(strings.Fields(one.expected)), one.position)))
	}
	ctx, cancel := context.WithTimeout(v.ctx, patience)
	defer cancel()
	client := must(v.consumer().NewPartitionClient("0", &azeventhubs.PartitionClientOptions{
		StartPosition: azeventhubs.StartPosition{Latest: ptr(true)},
	}))
	came := make(chan string, 1)
	go func() {
		events, err := client.ReceiveEvents(ctx, 1, nil)
		came <- fmt.Sprintf("%s %v", texts(events), err)
	}()
	// The reader does not say when it is open: one event after another, until one arrives.
	for {
		select {
		case text := <-came:
			same("f <nil>", text)
			return
		default:
			sendTo(v, producer, "0", "f")
		}
	}
}

func invalidPosition(v *visit) {
	position := azeventhubs.StartPosition{Offset: ptr("17")}
	client := must(v.consumer().NewPartitionClient("0", &azeventhubs.PartitionClientOptions{StartPosition: position}))
	_, err := client.ReceiveEvents(v.ctx, 1, nil)
	says("The supplied offset '17' is invalid. The last offset in the system is '-1'", err)
}

func ownerLevel(v *visit) {
	read := func(level int64) *azeventhubs.PartitionClient {
		options := &azeventhubs.PartitionClientOptions{StartPosition: earliest, OwnerLevel: &level}
		return must(v.consumer().NewPartitionClient("0", options))
	}
	sendTo(v, v.producer(), "0", "a")
	first, second := read(1), read(2)
	same("a", texts(must(first.ReceiveEvents(v.ctx, 1, nil))))
	same("a", texts(must(second.ReceiveEvents(v.ctx, 1, nil))))
	_, err := first.ReceiveEvents(v.ctx, 1, nil)
	hubRefused(azeventhubs.ErrorCodeOwnershipLost, err)
	// The SDK has a code for a link that is stolen, and none for one that is refused.
	_, err = read(0).ReceiveEvents(v.ctx, 1, nil)
	says("with a higher epoch '2' already exists", err)
}

func balancing(v *visit) {
	store := &memoryStore{ownerships: map[string]azeventhubs.Ownership{}, checkpoints: map[string]azeventhubs.Checkpoint{}}
	producer := v.producer()
	send := func(round string) {
		for number := range partitionCount {
			sendTo(v, producer, fmt.Sprint(number), fmt.Sprintf("%s-%d", round, number))
		}
	}
	send("first")
	one := join(v, store)
	until("the first round", func() bool { return one.seen() == partitionCount })
	two := join(v, store)
	until("two partitions each", func() bool { return one.owned() == 2 && two.owned() == 2 })
	send("second")
	until("the second round", func() bool { return one.seen()+two.seen() >= 2*partitionCount })
	two.leave()
	until("the other partitions", func() bool { return one.owned() == partitionCount })
	send("third")
	until("the third round", func() bool { return one.seen()+two.seen() >= 3*partitionCount })
	check(two.seen() >= 2, "the second member saw %s", two.texts)
	all := append(one.texts, two.texts...)
	slices.Sort(all)
	expected := []string{}
	for _, round := range []string{"first", "second", "third"} {
		for number := range partitionCount {
			expected = append(expected, fmt.Sprintf("%s-%d", round, number))
		}
	}
	// Nothing came twice.
	same(expected, all)
}

// member is a processor that is one of several, with the partitions that it has and the events that it saw.
type member struct {
	lock       sync.Mutex
	partitions map[string]bool
	texts      []string
	leave      context.CancelFunc
}

func (m *member) seen() int  { m.lock.Lock(); defer m.lock.Unlock(); return len(m.texts) }
func (m *member) owned() int { m.lock.Lock(); defer m.lock.Unlock(); return len(m.partitions) }

func join(v *visit, store azeventhubs.CheckpointStore) *member {
	processor := must(azeventhubs.NewProcessor(v.consumer(), store, &azeventhubs.ProcessorOptions{
		LoadBalancingStrategy: azeventhubs.ProcessorStrategyGreedy, UpdateInterval: 500 * time.Millisecond,
		PartitionExpirationDuration: time.Minute, StartPositions: azeventhubs.StartPositions{Default: earliest},
	}))
	ctx, leave := context.WithCancel(v.ctx)
	m := &member{partitions: map[string]bool{}, leave: leave}
	go func() { _ = processor.Run(ctx) }()
	go func() {
		for client := processor.NextPartitionClient(ctx); client != nil; client = processor.NextPartitionClient(ctx) {
			go m.follow(v, ctx, client)
		}
	}()
	return m
}

func (m *member) follow(v *visit, ctx context.Context, client *azeventhubs.ProcessorPartitionClient) {
	m.lock.Lock()
	m.partitions[client.PartitionID()] = true
	m.lock.Unlock()
	defer func() {
		m.lock.Lock()
		delete(m.partitions, client.PartitionID())
		m.lock.Unlock()
		_ = client.Close(v.ctx)
	}()
	for {
		events, err := client.ReceiveEvents(ctx, 1, nil)
		if err != nil {
			return
		}
		// In this order: an event that counts as seen is not delivered to another member again.
		if client.UpdateCheckpoint(ctx, events[len(events)-1], nil) != nil {
			return
		}
		m.lock.Lock()
		m.texts = append(m.texts, strings.Fields(texts(events))...)
		m.lock.Unlock()
	}
}

// memoryStore is a checkpoint store for one process: the contract of the SDK in its plainest form.
type memoryStore struct {
	lock        sync.Mutex
	ownerships  map[string]azeventhubs.Ownership
	checkpoints map[string]azeventhubs.Checkpoint
	tags        int
}

func (s *memoryStore) ClaimOwnership(
	_ context.Context, wanted []azeventhubs.Ownership, _ *azeventhubs.ClaimOwnershipOptions,
) ([]azeventhubs.Ownership, error) {
	s.lock.Lock()
	defer s.lock.Unlock()
	claimed := []azeventhubs.Ownership{}
	for _, one := range wanted {
		known, found := s.ownerships[one.PartitionID]
		if found && (one.ETag == nil || *known.ETag != *one.ETag) {
			continue
		}
		s.tags++
		one.ETag, one.LastModifiedTime = ptr(azcore.ETag(fmt.Sprint(s.tags))), time.Now()
		s.ownerships[one.PartitionID] = one
		claimed = append(claimed, one)
	}
	return claimed, nil
}

func (s *memoryStore) ListOwnership(
	_ context.Context, _, _, _ string, _ *azeventhubs.ListOwnershipOptions,
) ([]azeventhubs.Ownership, error) {
	s.lock.Lock()
	defer s.lock.Unlock()
	return values(s.ownerships), nil
}

func (s *memoryStore) ListCheckpoints(
	_ context.Context, _, _, _ string, _ *azeventhubs.ListCheckpointsOptions,
) ([]azeventhubs.Checkpoint, error) {
	s.lock.Lock()
	defer s.lock.Unlock()
	return values(s.checkpoints), nil
}

func (s *memoryStore) SetCheckpoint(
	_ context.Context, checkpoint azeventhubs.Checkpoint, _ *azeventhubs.SetCheckpointOptions,
) error {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.checkpoints[checkpoint.PartitionID] = checkpoint
	return nil
}

func values[T any](named map[string]T) []T {
	all := []T{}
	for _, one := range named {
		all = append(all, one)
	}
	return all
}
