package main

import (
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
)

// Features of topics: one send, a copy in every subscription that selects it.
var topicFeatures = map[string]feature{
	"publish": func(v *visit) {
		v.send("a", "b", "c")
		same("a b c", bodies(v.takeAndComplete(v.subscriber("Inventory"), 3)))
		options := &azservicebus.ReceiverOptions{ReceiveMode: azservicebus.ReceiveModeReceiveAndDelete}
		same("a b c", bodies(v.take(must(v.client().NewReceiverForSubscription(v.entity, "Dashboard", options)), 3)))
		same("", left(v, "Inventory"))
		same("", left(v, "Dashboard"))
	},
	"publish-filtered": func(v *visit) {
		sendWith(v, "Store1", map[string]any{"StoreName": "Store1"})
		sendWith(v, "Store2", map[string]any{"StoreName": "Store2"})
		same("Store1 Store2", left(v, "Inventory"))
		same("Store1", bodies(v.takeAndComplete(v.subscriber("Dashboard"), 1)))
		same("", left(v, "Dashboard"))
	},
	"publish-scheduled": func(v *visit) {
		cancelled := scheduled(v, time.Now().Add(far), "cancelled")
		same("", left(v, "Inventory"))
		must0(v.sender().CancelScheduledMessages(v.ctx, cancelled, nil))
		refused(azservicebus.CodeNotFound, v.sender().CancelScheduledMessages(v.ctx, cancelled, nil))
		scheduled(v, time.Now().Add(soon), "kept")
		same("kept", bodies(v.takeAndComplete(v.subscriber("Inventory"), 1)))
		same("kept", bodies(v.takeAndComplete(v.subscriber("Dashboard"), 1)))
	},
	"publish-duplicates": func(v *visit) {
		for _, body := range []string{"first", "again"} {
			v.sendMessage(&azservicebus.Message{Body: []byte(body), MessageID: ptr("one")})
		}
		same("first", left(v, "Inventory"))
		same("first", left(v, "Dashboard"))
	},
	"subscription-settlement": subscriptionSettlement,
	"subscription-sessions": func(v *visit) {
		v.sendInSession("red", "r1", "r2")
		v.sendInSession("blue", "b1")
		red := must(v.client().AcceptSessionForSubscription(v.ctx, v.entity, "Sessions", "red", nil))
		same("r1 r2", bodies(v.takeAndComplete(red, 2)))
		same("blue", must(v.client().AcceptNextSessionForSubscription(v.ctx, v.entity, "Sessions", nil)).SessionID())
		same("r1 r2 b1", left(v, "Plain"))
	},
	"topic-refusals": func(v *visit) {
		_, err := v.receiver().ReceiveMessages(v.ctx, 1, nil)
		failed(err)
		sender := must(v.client().NewSender(v.entity+"/Subscriptions/Inventory", nil))
		failed(sender.SendMessage(v.ctx, &azservicebus.Message{Body: []byte("smuggled")}, nil))
		_, err = v.subscriber("Missing").ReceiveMessages(v.ctx, 1, nil)
		refused(azservicebus.CodeNotFound, err)
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
	must0(receiver.RenewMessageLock(v.ctx, taken[0], nil))
	must0(receiver.CompleteMessage(v.ctx, taken[0], nil))
	must0(receiver.AbandonMessage(v.ctx, taken[1], nil))
	must0(receiver.DeferMessage(v.ctx, taken[2], nil))
	must0(receiver.DeadLetterMessage(v.ctx, taken[3], &azservicebus.DeadLetterOptions{Reason: ptr("why")}))
	same("abandon", bodies(v.takeAndComplete(receiver, 1)))
	must0(receiver.CompleteMessage(v.ctx, deferred(v, receiver, *taken[2].SequenceNumber), nil))
	options := &azservicebus.ReceiverOptions{SubQueue: azservicebus.SubQueueDeadLetter}
	letters := must(v.client().NewReceiverForSubscription(v.entity, "Inventory", options))
	same("why", *v.takeAndComplete(letters, 1)[0].DeadLetterReason)
	same("", left(v, "Inventory"))
	same("complete abandon defer dead", left(v, "Dashboard"))
}
