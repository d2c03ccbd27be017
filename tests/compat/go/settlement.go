package main

import (
	"maps"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/go-amqp"
)

var (
	modifications = map[string]any{"colour": "red", "weight": int64(3), "ratio": 0.5, "heavy": true}
	modified      = with(modifications, "kept", "as sent")
)

// The SDK counts the delivery itself, where AMQP counts those before it.
const firstDelivery = 1

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
	v.send("behind it")
	must0(receiver.AbandonMessage(v.ctx, message, &azservicebus.AbandonMessageOptions{PropertiesToModify: modifications}))
	taken := v.takeAndComplete(receiver, 2)
	same("hello behind it", bodies(taken))
	again := taken[0]
	same([]any{*message.SequenceNumber, message.MessageID}, []any{*again.SequenceNumber, again.MessageID})
	same([]uint32{0, 1}, []uint32{message.DeliveryCount - firstDelivery, again.DeliveryCount - firstDelivery})
	check(message.LockToken != again.LockToken, "the lock is the old one")
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
	same([]any{"hello", azservicebus.MessageStateDeferred, uint32(1)}, []any{string(again.Body), again.State, again.DeliveryCount - firstDelivery})
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
	before := *one.LockedUntil
	must0(receiver.RenewMessageLock(v.ctx, one, nil))
	check(!one.LockedUntil.Before(before), "locked until %s, and until %s before", one.LockedUntil, before)
	must0(receiver.AbandonMessage(v.ctx, one, &azservicebus.AbandonMessageOptions{PropertiesToModify: modifications}))
	one = deferred(v, receiver, number)
	same([]any{azservicebus.MessageStateDeferred, uint32(2)}, []any{one.State, one.DeliveryCount - firstDelivery})
	same(modified, one.ApplicationProperties)
	blue := map[string]any{"colour": "blue"}
	must0(receiver.DeferMessage(v.ctx, one, &azservicebus.DeferMessageOptions{PropertiesToModify: blue}))
	one = deferred(v, receiver, number)
	same("blue", one.ApplicationProperties["colour"])
	must0(receiver.DeadLetterMessage(v.ctx, one, &azservicebus.DeadLetterOptions{
		Reason: ptr("why"), ErrorDescription: ptr("how"), PropertiesToModify: map[string]any{"extra": int64(1)},
	}))
	v.expectLeft("")
	dead := v.takeAndComplete(v.deadLetters(), 1)[0]
	same([]any{"why", "how", int64(1)},
		[]any{*dead.DeadLetterReason, *dead.DeadLetterErrorDescription, dead.ApplicationProperties["extra"]})
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
	// Being dead-lettered is not a failed delivery.
	same([]any{"hello", "id of hello", "unreadable", "no such colour", uint32(0)}, []any{string(dead.Body), dead.MessageID,
		*dead.DeadLetterReason, *dead.DeadLetterErrorDescription, dead.DeliveryCount - firstDelivery})
	properties := maps.Clone(modified)
	properties["DeadLetterReason"], properties["DeadLetterErrorDescription"] = "unreadable", "no such colour"
	same(properties, dead.ApplicationProperties)
	same("", bodies(v.peekAll(v.deadLetters())))
}

func deadLetterTwice(v *visit) {
	receiver := v.receiver()
	must0(receiver.DeadLetterMessage(v.ctx, sendAndTake(v, receiver), nil))
	letters := v.deadLetters()
	dead := v.takeOne(letters)
	refusedBy(amqp.ErrCondNotAllowed, "A message of a dead-letter queue cannot be dead-lettered again",
		letters.DeadLetterMessage(v.ctx, dead, nil))
	same("hello", bodies(v.peekAll(v.deadLetters())))
}

func maxDeliveryCount(v *visit) {
	receiver := v.receiver()
	must0(receiver.AbandonMessage(v.ctx, sendAndTake(v, receiver), nil))
	last := v.takeOne(receiver)
	same(uint32(1), last.DeliveryCount-firstDelivery)
	must0(receiver.AbandonMessage(v.ctx, last, nil))
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
	check(message.LockToken != again.LockToken, "the lock is the old one")
	refused(azservicebus.CodeLockLost, receiver.CompleteMessage(v.ctx, message, nil))
	v.expectLeft("hello")
}

// The lock outlives the link: another receiver settles through the management node.
func settleAfterClose(v *visit) {
	receiver := v.receiver()
	abandoned, completed := sendAndTake(v, receiver), sendAndTake(v, receiver)
	must0(receiver.Close(v.ctx))
	kept := v.receiver()
	must0(kept.CompleteMessage(v.ctx, completed, nil))
	must0(kept.AbandonMessage(v.ctx, abandoned, &azservicebus.AbandonMessageOptions{PropertiesToModify: modifications}))
	again := v.takeAndComplete(kept, 1)[0]
	same([]any{*abandoned.SequenceNumber, uint32(1)}, []any{*again.SequenceNumber, again.DeliveryCount - firstDelivery})
	same(modified, again.ApplicationProperties)
	v.expectLeft("")
}
