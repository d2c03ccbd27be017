package main

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
)

// Features of asking for messages: how many, for how long, and without taking them.
var receivingFeatures = map[string]feature{
	"receive-and-delete": func(v *visit) {
		v.send("a", "b")
		same("a b", bodies(v.take(v.deletingReceiver(), 2)))
		v.expectLeft("")
	},
	"receive-in-order": func(v *visit) {
		sendNumbers(v, 300)
		same(numbers(300), bodies(v.takeAndComplete(v.receiver(), 300)))
		v.expectLeft("")
	},
	"receive-nothing": func(v *visit) {
		receiver := v.receiver()
		v.expectSilence(receiver)
		v.send("later")
		same("later", bodies(v.takeAndComplete(receiver, 1)))
	},
	"receive-fewer": func(v *visit) {
		sendNumbers(v, 2)
		receiver := v.receiver()
		taken := must(receiver.ReceiveMessages(v.ctx, 10, nil))
		same("0 1", bodies(taken))
		for _, message := range taken {
			must0(receiver.CompleteMessage(v.ctx, message, nil))
		}
		v.expectLeft("")
	},
	"receive-waits":       receiveWaits,
	"competing-receivers": competingReceivers,
	"peek":                peek,
}

func numbers(count int) string {
	texts := make([]string, count)
	for at := range texts {
		texts[at] = strconv.Itoa(at)
	}
	return strings.Join(texts, " ")
}

func sendNumbers(v *visit, count int) {
	batch := must(v.sender().NewMessageBatch(v.ctx, nil))
	for _, body := range strings.Fields(numbers(count)) {
		must0(batch.AddMessage(&azservicebus.Message{Body: []byte(body)}, nil))
	}
	must0(v.sender().SendMessageBatch(v.ctx, batch, nil))
}

func receiveWaits(v *visit) {
	receiver, sender := v.deletingReceiver(), v.sender()
	sent := make(chan error, 1)
	go func() {
		time.Sleep(200 * time.Millisecond)
		sent <- sender.SendMessage(v.ctx, &azservicebus.Message{Body: []byte("at last")}, nil)
	}()
	same("at last", bodies(v.take(receiver, 1)))
	must0(<-sent)
}

func competingReceivers(v *visit) {
	sendNumbers(v, 20)
	other := must(v.connect(v.connectionString).NewReceiverForQueue(v.entity, nil))
	taken := append(v.takeAndComplete(v.receiver(), 10), v.takeAndComplete(other, 10)...)
	texts := strings.Fields(bodies(taken))
	slices.SortFunc(texts, func(left, right string) int { return must(strconv.Atoi(left)) - must(strconv.Atoi(right)) })
	same(numbers(20), strings.Join(texts, " "))
}

func peek(v *visit) {
	receiver := v.receiver()
	same("", bodies(must(receiver.PeekMessages(v.ctx, 10, nil))))
	v.send("a", "b", "c", "d")
	// Each call goes on where the last one ended.
	first := must(receiver.PeekMessages(v.ctx, 2, nil))
	same("a b", bodies(first))
	same([]any{azservicebus.MessageStateActive, [16]byte{}}, []any{first[0].State, first[0].LockToken})
	same("c d", bodies(must(receiver.PeekMessages(v.ctx, 10, nil))))
	same("", bodies(must(receiver.PeekMessages(v.ctx, 10, nil))))
	from := &azservicebus.PeekMessagesOptions{FromSequenceNumber: ptr(int64(2))}
	same("b c", bodies(must(receiver.PeekMessages(v.ctx, 2, from))))
	v.takeOne(receiver)
	v.expectLeft("a b c d")
}
