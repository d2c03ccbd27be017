package main

import (
	"bytes"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/go-amqp"
)

// Features of being refused: the code of the error is what an application decides by.
var refusalFeatures = map[string]feature{
	"missing-queue": func(v *visit) {
		missing := v.entity + "-missing"
		sender, receiver := must(v.client().NewSender(missing, nil)), v.receiverFrom(missing, nil)
		refused(azservicebus.CodeNotFound, sender.SendMessage(v.ctx, &azservicebus.Message{Body: []byte("lost")}, nil))
		_, err := receiver.ReceiveMessages(v.ctx, 1, nil)
		refused(azservicebus.CodeNotFound, err)
		_, err = receiver.PeekMessages(v.ctx, 1, nil)
		refused(azservicebus.CodeNotFound, err)
		_, err = v.client().AcceptSessionForQueue(v.ctx, missing, "red", nil)
		refused(azservicebus.CodeNotFound, err)
		// The connection is none the worse for it.
		v.send("found")
		same("found", bodies(v.takeAndComplete(v.receiver(), 1)))
	},
	"wrong-key": func(v *visit) {
		stranger := v.connect(key.ReplaceAllString(v.connectionString, "SharedAccessKey=wrong"))
		sender := must(stranger.NewSender(v.entity, nil))
		refused(azservicebus.CodeUnauthorizedAccess,
			sender.SendMessage(v.ctx, &azservicebus.Message{Body: []byte("forged")}, nil))
		receiver := must(stranger.NewReceiverForQueue(v.entity, nil))
		_, err := receiver.ReceiveMessages(v.ctx, 1, nil)
		refused(azservicebus.CodeUnauthorizedAccess, err)
		_, err = receiver.PeekMessages(v.ctx, 1, nil)
		refused(azservicebus.CodeUnauthorizedAccess, err)
		v.expectLeft("")
	},
	"listen-only": func(v *visit) {
		v.send("heard")
		listener := v.connect(v.listening)
		sender := must(listener.NewSender(v.entity, nil))
		refused(azservicebus.CodeUnauthorizedAccess,
			sender.SendMessage(v.ctx, &azservicebus.Message{Body: []byte("no")}, nil))
		same("heard", bodies(v.takeAndComplete(must(listener.NewReceiverForQueue(v.entity, nil)), 1)))
	},
	"message-too-large": func(v *visit) {
		large := &azservicebus.Message{Body: bytes.Repeat([]byte("x"), 300_000)}
		same(azservicebus.ErrMessageTooLarge, v.sender().SendMessage(v.ctx, large, nil))
		v.send("small enough")
		same("small enough", bodies(v.takeAndComplete(v.receiver(), 1)))
	},
	"send-disabled": func(v *visit) {
		err := v.sender().SendMessage(v.ctx, &azservicebus.Message{Body: []byte("not now")}, nil)
		refusedBy(condEntityDisabled, "is currently disabled", err)
		v.expectLeft("")
	},
	"receive-disabled": func(v *visit) {
		v.send("kept")
		_, err := v.receiver().ReceiveMessages(v.ctx, 1, nil)
		refusedBy(condEntityDisabled, "is currently disabled", err)
	},
	// A queue with sessions takes no message without one, and no receiver without one.
	"session-required": func(v *visit) {
		err := v.sender().SendMessage(v.ctx, &azservicebus.Message{Body: []byte("astray")}, nil)
		refusedBy(amqp.ErrCondNotAllowed, "The SessionId was not set on a message", err)
		_, err = v.receiver().ReceiveMessages(v.ctx, 1, nil)
		refusedBy(amqp.ErrCondNotAllowed, "requires sessions to create a non-sessionful message receiver", err)
		same("", bodies(v.peekAll(v.session("any"))))
	},
	"session-not-supported": func(v *visit) {
		_, err := v.client().AcceptSessionForQueue(v.ctx, v.entity, "red", nil)
		refusedBy(amqp.ErrCondNotAllowed, "on an entity that does not require sessions", err)
	},
	"close": func(v *visit) {
		own := v.connect(v.connectionString)
		sender, receiver := must(own.NewSender(v.entity, nil)), must(own.NewReceiverForQueue(v.entity, nil))
		for _, body := range []string{"a", "b"} {
			must0(sender.SendMessage(v.ctx, &azservicebus.Message{Body: []byte(body)}, nil))
		}
		taken := v.take(receiver, 2)
		same("a b", bodies(taken))
		must0(sender.Close(v.ctx))
		must0(receiver.Close(v.ctx))
		refused(azservicebus.CodeClosed, sender.SendMessage(v.ctx, &azservicebus.Message{Body: []byte("c")}, nil))
		_, err := receiver.ReceiveMessages(v.ctx, 1, nil)
		refused(azservicebus.CodeClosed, err)
		_, err = receiver.PeekMessages(v.ctx, 1, nil)
		refused(azservicebus.CodeClosed, err)
		must0(own.Close(v.ctx))
		// Locks outlive the connection: nobody else gets the messages before their end.
		v.expectSilence(v.receiver())
		v.expectLeft("a b")
	},
}
