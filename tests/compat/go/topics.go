package main

import (
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/go-amqp"
)

// Features of topics: one send, a copy in every subscription that selects it.
var topicFeatures = map[string]feature{
	"publish": func(v *visit) {
		v.send("a")
		sendBatchOf(v, "b", "c")
		options := &azservicebus.ReceiverOptions{ReceiveMode: azservicebus.ReceiveModeReceiveAndDelete}
		locked := v.takeAndComplete(v.subscriber("Inventory"), 3)
		deleted := v.take(must(v.client().NewReceiverForSubscription(v.entity, "Dashboard", options)), 3)
		for _, copies := range [][]*azservicebus.ReceivedMessage{locked, deleted} {
			same("a b c", bodies(copies))
			for at, copied := range copies {
				same(int64(at+1), *copied.SequenceNumber)
			}
		}
		same("", left(v, "Inventory"))
		same("", left(v, "Dashboard"))
	},
	"publish-filtered": func(v *visit) {
		sendWith(v, "Store1", map[string]any{"StoreName": "Store1"})
		sendWith(v, "Store2", map[string]any{"StoreName": "Store2"})
		sendWith(v, "Store1", map[string]any{"StoreName": "Store1"})
		same("Store1 Store2 Store1", left(v, "Inventory"))
		same("Store1 Store1", bodies(v.takeAndComplete(v.subscriber("Dashboard"), 2)))
		same("", left(v, "Dashboard"))
	},
	"publish-scheduled": func(v *visit) {
		cancelled := scheduled(v, time.Now().Add(far), "cancelled")
		same("", left(v, "Inventory"))
		must0(v.sender().CancelScheduledMessages(v.ctx, cancelled, nil))
		refused(azservicebus.CodeNotFound, v.sender().CancelScheduledMessages(v.ctx, cancelled, nil))
		due := time.Now().Add(soon).Truncate(time.Millisecond)
		kept := scheduled(v, due, "kept")
		for _, name := range []string{"Inventory", "Dashboard"} {
			copied := v.takeAndComplete(v.subscriber(name), 1)[0]
			same("kept", string(copied.Body))
			check(!copied.EnqueuedTime.Before(due), "enqueued at %s, due at %s", copied.EnqueuedTime, due)
			same("", left(v, name))
		}
		refused(azservicebus.CodeNotFound, v.sender().CancelScheduledMessages(v.ctx, kept, nil))
	},
	"publish-duplicates": func(v *visit) {
		for _, body := range []string{"first", "again"} {
			v.sendMessage(&azservicebus.Message{Body: []byte(body), MessageID: ptr("one")})
		}
		v.sendMessage(&azservicebus.Message{Body: []byte("second"), MessageID: ptr("two")})
		same("first second", left(v, "Inventory"))
		same("first second", left(v, "Dashboard"))
	},
	"subscription-settlement": subscriptionSettlement,
	"subscription-sessions": func(v *visit) {
		v.sendInSession("red", "r1", "r2")
		v.sendInSession("blue", "b1")
		red := must(v.client().AcceptSessionForSubscription(v.ctx, v.entity, "Sessions", "red", nil))
		same("r1 r2", bodies(v.takeAndComplete(red, 2)))
		must0(red.SetSessionState(v.ctx, []byte("done"), nil))
		same("done", string(must(red.GetSessionState(v.ctx, nil))))
		same("blue", must(v.client().AcceptNextSessionForSubscription(v.ctx, v.entity, "Sessions", nil)).SessionID())
		v.send("without")
		options := &azservicebus.ReceiverOptions{SubQueue: azservicebus.SubQueueDeadLetter}
		letters := must(v.client().NewReceiverForSubscription(v.entity, "Sessions", options))
		dead := v.takeAndComplete(letters, 1)[0]
		same([]string{"without", "Session ID is null"}, []string{string(dead.Body), *dead.DeadLetterReason})
		same("r1 r2 b1 without", left(v, "Plain"))
	},
	"topic-refusals": func(v *visit) {
		_, err := v.receiver().ReceiveMessages(v.ctx, 1, nil)
		refusedBy(amqp.ErrCondNotAllowed, "subscriptions", err)
		sender := must(v.client().NewSender(v.entity+"/Subscriptions/Inventory", nil))
		err = sender.SendMessage(v.ctx, &azservicebus.Message{Body: []byte("smuggled")}, nil)
		refusedBy(amqp.ErrCondNotAllowed, "send them to the topic", err)
		_, err = v.subscriber("Missing").ReceiveMessages(v.ctx, 1, nil)
		refused(azservicebus.CodeNotFound, err)
		_, err = v.subscriber("Missing").PeekMessages(v.ctx, 1, nil)
		refused(azservicebus.CodeNotFound, err)
		same("", left(v, "Inventory"))
		// The connection is none the worse for it.
		v.send("found")
		same("found", bodies(v.takeAndComplete(v.subscriber("Inventory"), 1)))
	},
}

func left(v *visit, subscription string) string { return bodies(v.peekAll(v.subscriber(subscription))) }

func sendWith(v *visit, body string, properties map[string]any) {
	v.sendMessage(&azservicebus.Message{Body: []byte(body), ApplicationProperties: properties})
}

func subscriptionSettlement(v *visit) {
	v.send("complete", "abandon", "defer", "dead")
	receiver := v.subscriber("Inventory")
	taken := v.take(receiver, 4)
	before := *taken[0].LockedUntil
	must0(receiver.RenewMessageLock(v.ctx, taken[0], nil))
	check(!taken[0].LockedUntil.Before(before), "locked until %s, and until %s before", taken[0].LockedUntil, before)
	must0(receiver.CompleteMessage(v.ctx, taken[0], nil))
	must0(receiver.AbandonMessage(v.ctx, taken[1], &azservicebus.AbandonMessageOptions{PropertiesToModify: modifications}))
	must0(receiver.DeferMessage(v.ctx, taken[2], nil))
	must0(receiver.DeadLetterMessage(v.ctx, taken[3],
		&azservicebus.DeadLetterOptions{Reason: ptr("why"), ErrorDescription: ptr("because")}))
	again := v.takeAndComplete(receiver, 1)[0]
	same([]any{"abandon", uint32(1), modifications},
		[]any{string(again.Body), again.DeliveryCount - firstDelivery, again.ApplicationProperties})
	byNumber := deferred(v, receiver, *taken[2].SequenceNumber)
	same("defer", string(byNumber.Body))
	must0(receiver.CompleteMessage(v.ctx, byNumber, nil))
	options := &azservicebus.ReceiverOptions{SubQueue: azservicebus.SubQueueDeadLetter}
	letters := must(v.client().NewReceiverForSubscription(v.entity, "Inventory", options))
	dead := v.takeAndComplete(letters, 1)[0]
	same([]string{"dead", "why", "because"},
		[]string{string(dead.Body), *dead.DeadLetterReason, *dead.DeadLetterErrorDescription})
	same("", left(v, "Inventory"))
	same("complete abandon defer dead", left(v, "Dashboard"))
}
