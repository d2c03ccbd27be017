package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
)

// Features of sessions: one receiver at a time, its messages in order, and a state beside them.
var sessionFeatures = map[string]feature{
	"accept-session": func(v *visit) {
		v.sendInSession("red", "r1", "r2")
		v.sendInSession("blue", "b1")
		before := time.Now()
		red := v.session("red")
		same("red", red.SessionID())
		expectMinuteLock(red.LockedUntil(), before)
		taken := v.takeAndComplete(red, 2)
		same("r1 r2", bodies(taken))
		same([]string{"red", "red"}, []string{*taken[0].SessionID, *taken[1].SessionID})
		v.expectSilence(red)
		same("b1", bodies(v.peekAll(red)))
	},
	"session-order": func(v *visit) {
		sent := map[string][]string{}
		for _, number := range strings.Fields(numbers(50)) {
			id := []string{"even", "odd"}[(number[len(number)-1]-'0')%2]
			v.sendInSession(id, number)
			sent[id] = append(sent[id], number)
		}
		odd, even := v.session("odd"), v.session("even")
		same(strings.Join(sent["odd"], " "), bodies(v.takeAndComplete(odd, 25)))
		same(strings.Join(sent["even"], " "), bodies(v.takeAndComplete(even, 25)))
		same("", bodies(v.peekAll(odd)))
	},
	"accept-next-session": func(v *visit) {
		v.sendInSession("red", "r1")
		v.sendInSession("blue", "b1")
		one, other := v.nextSession(), v.nextSession()
		ids := []string{one.SessionID(), other.SessionID()}
		slices.Sort(ids)
		same([]string{"blue", "red"}, ids)
		for _, receiver := range []*azservicebus.SessionReceiver{one, other} {
			same(receiver.SessionID(), *v.takeAndComplete(receiver, 1)[0].SessionID)
		}
	},
	"next-session-waits":         nextSessionWaits,
	"next-session-timeout":       nextSessionTimeout,
	"session-cannot-be-locked":   sessionCannotBeLocked,
	"session-handover":           sessionHandover,
	"session-state":              sessionState,
	"renew-session-lock":         renewSessionLock,
	"session-lock-lost":          sessionLockLost,
	"session-settlement":         sessionSettlement,
	"session-receive-and-delete": sessionReceiveAndDelete,
	"session-schedule":           sessionSchedule,
	"list-sessions":              listSessions,
}

func nextSessionWaits(v *visit) {
	sender := v.sender()
	sent := make(chan error, 1)
	go func() {
		time.Sleep(200 * time.Millisecond)
		sent <- sender.SendMessage(v.ctx, &azservicebus.Message{Body: []byte("l1"), SessionID: ptr("late")}, nil)
	}()
	receiver := v.nextSession()
	must0(<-sent)
	same("late", receiver.SessionID())
	same("l1", bodies(v.takeAndComplete(receiver, 1)))
}

// The SDK asks the broker to wait at most a hundredth less than the caller does: either may be the first to give up.
func nextSessionTimeout(v *visit) {
	ctx, cancel := context.WithTimeout(v.ctx, 2*time.Second)
	defer cancel()
	_, err := v.client().AcceptNextSessionForQueue(ctx, v.entity, nil)
	if !errors.Is(err, context.DeadlineExceeded) {
		refused(azservicebus.CodeTimeout, err)
	}
	// The wait has left nothing behind that could take the next session.
	v.sendInSession("red", "r1")
	same("red", v.nextSession().SessionID())
}

func sessionCannotBeLocked(v *visit) {
	holder := v.session("red")
	other := v.connect(v.connectionString)
	_, err := other.AcceptSessionForQueue(v.ctx, v.entity, "red", nil)
	refusedBy(condSessionCannotBeLocked, "The requested session 'red' cannot be accepted", err)
	must0(holder.Close(v.ctx))
	same("red", must(other.AcceptSessionForQueue(v.ctx, v.entity, "red", nil)).SessionID())
}

func sessionHandover(v *visit) {
	v.sendInSession("red", "r1", "r2", "r3")
	holder := v.session("red")
	must0(holder.CompleteMessage(v.ctx, v.take(holder, 2)[0], nil))
	must0(holder.Close(v.ctx))
	next := v.nextSession()
	same("red", next.SessionID())
	taken := v.takeAndComplete(next, 2)
	same("r2 r3", bodies(taken))
	// Closing a session is not a failed delivery; a lock that ends is one.
	same([]uint32{0, 0}, []uint32{taken[0].DeliveryCount - firstDelivery, taken[1].DeliveryCount - firstDelivery})
	same("", bodies(v.peekAll(next)))
}

func sessionState(v *visit) {
	receiver := v.session("red")
	same(0, len(must(receiver.GetSessionState(v.ctx, nil))))
	must0(receiver.SetSessionState(v.ctx, []byte("replaced"), nil))
	must0(receiver.SetSessionState(v.ctx, []byte{0, 1, 255}, nil))
	same([]byte{0, 1, 255}, must(receiver.GetSessionState(v.ctx, nil)))
	must0(receiver.Close(v.ctx))
	next := v.session("red")
	same([]byte{0, 1, 255}, must(next.GetSessionState(v.ctx, nil)))
	must0(next.SetSessionState(v.ctx, nil, nil))
	same(0, len(must(next.GetSessionState(v.ctx, nil))))
}

func renewSessionLock(v *visit) {
	receiver := v.session("red")
	before := receiver.LockedUntil()
	time.Sleep(20 * time.Millisecond)
	must0(receiver.RenewSessionLock(v.ctx, nil))
	check(receiver.LockedUntil().After(before), "%s is not after %s", receiver.LockedUntil(), before)
}

// The lock of the queue lasts 10 s.
func sessionLockLost(v *visit) {
	v.sendInSession("red", "r1")
	receiver := v.session("red")
	message := v.takeOne(receiver)
	next := must(v.connect(v.connectionString).AcceptNextSessionForQueue(v.ctx, v.entity, nil))
	refused(azservicebus.CodeLockLost, receiver.RenewSessionLock(v.ctx, nil))
	again := v.takeAndComplete(next, 1)[0]
	same("r1", string(again.Body))
	same(message.DeliveryCount+1, again.DeliveryCount)
}

// Deferred messages stay where they are: the SDK names no session when it asks for them.
func sessionSettlement(v *visit) {
	v.sendInSession("red", "abandoned", "deferred", "dead")
	receiver := v.session("red")
	taken := v.take(receiver, 3)
	must0(receiver.DeferMessage(v.ctx, taken[1], &azservicebus.DeferMessageOptions{PropertiesToModify: modifications}))
	must0(receiver.DeadLetterMessage(v.ctx, taken[2],
		&azservicebus.DeadLetterOptions{Reason: ptr("why"), ErrorDescription: ptr("how")}))
	must0(receiver.AbandonMessage(v.ctx, taken[0], &azservicebus.AbandonMessageOptions{PropertiesToModify: modifications}))
	again := v.takeAndComplete(receiver, 1)[0]
	same([]any{"abandoned", uint32(1), "red"},
		[]any{string(again.Body), again.DeliveryCount - firstDelivery, again.ApplicationProperties["colour"]})
	// The dead-letter queue of a queue with sessions has none.
	dead := v.takeAndComplete(v.deadLetters(), 1)[0]
	same([]string{"dead", "red", "why", "how"}, []string{string(dead.Body), *dead.SessionID, *dead.DeadLetterReason,
		*dead.DeadLetterErrorDescription})
	left := v.peekAll(receiver)
	same("deferred", bodies(left))
	same([]any{azservicebus.MessageStateDeferred, "red"}, []any{left[0].State, left[0].ApplicationProperties["colour"]})
}

func sessionReceiveAndDelete(v *visit) {
	v.sendInSession("red", "r1", "r2")
	options := &azservicebus.SessionReceiverOptions{ReceiveMode: azservicebus.ReceiveModeReceiveAndDelete}
	receiver := must(v.client().AcceptSessionForQueue(v.ctx, v.entity, "red", options))
	same("r1 r2", bodies(v.take(receiver, 2)))
	same("", bodies(v.peekAll(receiver)))
}

func sessionSchedule(v *visit) {
	message := &azservicebus.Message{Body: []byte("r1"), SessionID: ptr("red")}
	must(v.sender().ScheduleMessages(v.ctx, []*azservicebus.Message{message}, time.Now().Add(soon), nil))
	receiver := v.nextSession()
	same("red", receiver.SessionID())
	same("r1", bodies(v.takeAndComplete(receiver, 1)))
}

func listSessions(v *visit) {
	v.sendInSession("red", "r1")
	v.sendInSession("blue", "b1")
	found := []string{}
	pages := v.client().NewListSessionsForQueuePager(v.entity, nil)
	for pages.More() {
		found = append(found, must(pages.NextPage(v.ctx)).Sessions...)
	}
	slices.Sort(found)
	same([]string{"blue", "red"}, found)
}
