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
		taken := v.take(v.deletingReceiver(), 2)
		same("a b", bodies(taken))
		// How the SDK shows that there is none.
		same([][16]byte{{}, {}}, [][16]byte{taken[0].LockToken, taken[1].LockToken})
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
		// What comes now is for whoever asks next, and has not been delivered before.
		v.send("later")
		later := v.takeAndComplete(v.receiver(), 1)[0]
		same([]any{"later", uint32(0)}, []any{string(later.Body), later.DeliveryCount - firstDelivery})
		// And the link can be used again.
		v.send("last")
		same("last", bodies(v.takeAndComplete(receiver, 1)))
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
	sendBatchOf(v, strings.Fields(numbers(count))...)
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
