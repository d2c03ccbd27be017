package main

import (
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
)

var (
	modifications = map[string]any{"colour": "red", "weight": int64(3), "ratio": 0.5}
	modified      = map[string]any{"colour": "red", "weight": int64(3), "ratio": 0.5, "kept": "as sent"}
)

// Features of peek-lock: what can be done with a locked message, and what happens when nothing is done.
var settlementFeatures = map[string]feature{
	"complete": func(v *visit) {
		receiver := v.receiver()
		must0(receiver.CompleteMessage(v.ctx, sendAndTake(v, receiver), nil))
		v.expectLeft("")
	},
	"abandon":                     abandon,
	"defer":                       deferMessage,
	"deferred-settlement":         deferredSettlement,
	"deferred-receive-and-delete": deferredReceiveAndDelete,
	"dead-letter":                 deadLetter,
	"dead-letter-twice":           deadLetterTwice,
	"max-delivery-count":          maxDeliveryCount,
	"renew-lock":                  renewLock,
	"lock-lost":                   lockLost,
	"settle-after-close":          settleAfterClose,
}

func sendAndTake(v *visit, receiver settling) *azservicebus.ReceivedMessage {
	v.sendMessage(&azservicebus.Message{
		Body: []byte("hello"), MessageID: ptr("id of hello"),
		ApplicationProperties: map[string]any{"kept": "as sent", "colour": "none"},
	})
	return v.takeOne(receiver)
}

func abandon(v *visit) {
	receiver := v.receiver()
	message := sendAndTake(v, receiver)
	must0(receiver.AbandonMessage(v.ctx, message, &azservicebus.AbandonMessageOptions{PropertiesToModify: modifications}))
	again := v.takeAndComplete(receiver, 1)[0]
	same(*message.SequenceNumber, *again.SequenceNumber)
	same(message.DeliveryCount+1, again.DeliveryCount)
	same(modified, again.ApplicationProperties)
}

func deferred(v *visit, receiver *azservicebus.Receiver, number int64) *azservicebus.ReceivedMessage {
	found := must(receiver.ReceiveDeferredMessages(v.ctx, []int64{number}, nil))
	same(1, len(found))
	return found[0]
}

func deferMessage(v *visit) {
	receiver := v.receiver()
	message := sendAndTake(v, receiver)
	must0(receiver.DeferMessage(v.ctx, message, &azservicebus.DeferMessageOptions{PropertiesToModify: modifications}))
	v.expectSilence(receiver)
	same(azservicebus.MessageStateDeferred, v.peekAll(receiver)[0].State)
	again := deferred(v, receiver, *message.SequenceNumber)
	same(modified, again.ApplicationProperties)
	must0(receiver.CompleteMessage(v.ctx, again, nil))
	v.expectLeft("")
	_, err := receiver.ReceiveDeferredMessages(v.ctx, []int64{*message.SequenceNumber}, nil)
	refused(azservicebus.CodeNotFound, err)
}

func deferredSettlement(v *visit) {
	receiver := v.receiver()
	message := sendAndTake(v, receiver)
	number := *message.SequenceNumber
	must0(receiver.DeferMessage(v.ctx, message, nil))
	one := deferred(v, receiver, number)
	must0(receiver.RenewMessageLock(v.ctx, one, nil))
	must0(receiver.AbandonMessage(v.ctx, one, &azservicebus.AbandonMessageOptions{PropertiesToModify: modifications}))
	one = deferred(v, receiver, number)
	same(modified, one.ApplicationProperties)
	must0(receiver.DeferMessage(v.ctx, one, nil))
	must0(receiver.DeadLetterMessage(v.ctx, deferred(v, receiver, number), &azservicebus.DeadLetterOptions{Reason: ptr("why")}))
	v.expectLeft("")
	same("why", *v.takeAndComplete(v.deadLetters(), 1)[0].DeadLetterReason)
}

func deferredReceiveAndDelete(v *visit) {
	receiver := v.receiver()
	message := sendAndTake(v, receiver)
	must0(receiver.DeferMessage(v.ctx, message, nil))
	same("hello", string(deferred(v, v.deletingReceiver(), *message.SequenceNumber).Body))
	v.expectLeft("")
}

func deadLetter(v *visit) {
	receiver := v.receiver()
	must0(receiver.DeadLetterMessage(v.ctx, sendAndTake(v, receiver), &azservicebus.DeadLetterOptions{
		Reason: ptr("unreadable"), ErrorDescription: ptr("no such colour"), PropertiesToModify: modifications,
	}))
	v.expectLeft("")
	dead := v.takeAndComplete(v.deadLetters(), 1)[0]
	same([]string{"hello", "id of hello", "unreadable", "no such colour"},
		[]string{string(dead.Body), dead.MessageID, *dead.DeadLetterReason, *dead.DeadLetterErrorDescription})
	same("red", dead.ApplicationProperties["colour"])
}

func deadLetterTwice(v *visit) {
	receiver := v.receiver()
	must0(receiver.DeadLetterMessage(v.ctx, sendAndTake(v, receiver), nil))
	letters := v.deadLetters()
	failed(letters.DeadLetterMessage(v.ctx, v.takeOne(letters), nil))
	same("hello", bodies(v.peekAll(v.deadLetters())))
}

func maxDeliveryCount(v *visit) {
	receiver := v.receiver()
	must0(receiver.AbandonMessage(v.ctx, sendAndTake(v, receiver), nil))
	must0(receiver.AbandonMessage(v.ctx, v.takeOne(receiver), nil))
	same("MaxDeliveryCountExceeded", *v.takeAndComplete(v.deadLetters(), 1)[0].DeadLetterReason)
	v.expectLeft("")
}

func renewLock(v *visit) {
	receiver := v.receiver()
	message := sendAndTake(v, receiver)
	before := *message.LockedUntil
	time.Sleep(20 * time.Millisecond)
	must0(receiver.RenewMessageLock(v.ctx, message, nil))
	check(message.LockedUntil.After(before), "%s is not after %s", message.LockedUntil, before)
	must0(receiver.CompleteMessage(v.ctx, message, nil))
	refused(azservicebus.CodeLockLost, receiver.RenewMessageLock(v.ctx, message, nil))
}

// The lock of the queue lasts 1 s.
func lockLost(v *visit) {
	receiver := v.receiver()
	message := sendAndTake(v, receiver)
	again := v.takeOne(v.receiver())
	same(message.DeliveryCount+1, again.DeliveryCount)
	refused(azservicebus.CodeLockLost, receiver.CompleteMessage(v.ctx, message, nil))
}

func settleAfterClose(v *visit) {
	receiver := v.receiver()
	message := sendAndTake(v, receiver)
	must0(receiver.Close(v.ctx))
	must0(v.receiver().CompleteMessage(v.ctx, message, nil))
	v.expectLeft("")
}
