package main

import (
	"bytes"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
)

// Features of being refused: the code of the error is what an application decides by.
var refusalFeatures = map[string]feature{
	"missing-queue": func(v *visit) {
		sender := must(v.client().NewSender(v.entity+"-missing", nil))
		refused(azservicebus.CodeNotFound, sender.SendMessage(v.ctx, &azservicebus.Message{Body: []byte("lost")}, nil))
		_, err := v.receiverFrom(v.entity+"-missing", nil).ReceiveMessages(v.ctx, 1, nil)
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
		failed(v.sender().SendMessage(v.ctx, &azservicebus.Message{Body: []byte("not now")}, nil))
	},
	"receive-disabled": func(v *visit) {
		v.send("kept")
		_, err := v.receiver().ReceiveMessages(v.ctx, 1, nil)
		failed(err)
	},
	"session-required": func(v *visit) {
		failed(v.sender().SendMessage(v.ctx, &azservicebus.Message{Body: []byte("astray")}, nil))
		_, err := v.receiver().ReceiveMessages(v.ctx, 1, nil)
		failed(err)
	},
	"session-not-supported": func(v *visit) {
		_, err := v.client().AcceptSessionForQueue(v.ctx, v.entity, "red", nil)
		failed(err)
	},
	"close": func(v *visit) {
		own := v.connect(v.connectionString)
		sender, receiver := must(own.NewSender(v.entity, nil)), must(own.NewReceiverForQueue(v.entity, nil))
		must0(sender.SendMessage(v.ctx, &azservicebus.Message{Body: []byte("a")}, nil))
		v.take(receiver, 1)
		must0(sender.Close(v.ctx))
		must0(receiver.Close(v.ctx))
		failed(sender.SendMessage(v.ctx, &azservicebus.Message{Body: []byte("b")}, nil))
		// The lock outlives the link: nobody else gets the message before its end.
		v.expectSilence(v.receiver())
		v.expectLeft("a")
	},
}
