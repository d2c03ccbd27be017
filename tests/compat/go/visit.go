package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"
	"github.com/coder/websocket"
)

const (
	// How long to wait for what must come: it comes at once, unless the machine is busy.
	patience = 60 * time.Second
	// How long to listen for what must not come. A busy machine can hide it, but cannot make it come.
	silence = 300 * time.Millisecond
	// How far ahead to schedule what is received afterwards: the feature waits for it.
	soon = 700 * time.Millisecond
	// How far ahead to schedule what is cancelled afterwards: no machine is so slow that it becomes due before.
	far = time.Hour
)

var port = regexp.MustCompile(`localhost:\d+`)
var key = regexp.MustCompile(`SharedAccessKey=[^;]*`)

// target is where the broker is: two connection strings, the second without the right to send, and its HTTP port.
type target struct {
	connectionString, listening, httpPort string
	trust                                 *tls.Config
	http                                  *http.Client
}

func newTarget(connectionString, listening, httpPort, authority string) *target {
	pool := x509.NewCertPool()
	check(pool.AppendCertsFromPEM(must(os.ReadFile(authority))), "%s holds no certificate", authority)
	// The SDK puts the port into the name that it expects in the certificate, so the name has to be set.
	trust := &tls.Config{RootCAs: pool, ServerName: "localhost"}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: trust}}
	return &target{connectionString, listening, httpPort, trust, client}
}

// visit is the stay of one feature at its entity. Closing it closes every client that was made on the way.
type visit struct {
	*target
	ctx               context.Context
	transport, entity string
	lock              sync.Mutex
	closers           []func(context.Context) error
	shared            *azservicebus.Client
	sharedSender      *azservicebus.Sender
}

func (v *visit) keep(closer func(context.Context) error) {
	v.lock.Lock()
	defer v.lock.Unlock()
	v.closers = append(v.closers, closer)
}

func (v *visit) close() {
	for _, closer := range v.closers {
		// The outcome of the feature is known already.
		_ = closer(v.ctx)
	}
}

// address is the connection string for the transport: with the flag of the emulator the SDK speaks plain TCP.
func (v *visit) address(connectionString string) string {
	if v.transport == "tcp" {
		return connectionString + ";UseDevelopmentEmulator=true"
	}
	return connectionString
}

// dial opens a WebSocket as the examples of the SDK do.
func (v *visit) dial(ctx context.Context, address string) (net.Conn, error) {
	options := &websocket.DialOptions{Subprotocols: []string{"amqp"}, HTTPClient: v.http}
	connection, _, err := websocket.Dial(ctx, address, options)
	if err != nil {
		return nil, err
	}
	return websocket.NetConn(context.Background(), connection, websocket.MessageBinary), nil
}

func (v *visit) connect(connectionString string) *azservicebus.Client {
	// No retries: they would hide the first answer of the server.
	options := &azservicebus.ClientOptions{RetryOptions: azservicebus.RetryOptions{MaxRetries: -1}}
	if v.transport != "tcp" {
		options.TLSConfig = v.trust
	}
	if v.transport == "websocket" {
		options.NewWebSocketConn = func(ctx context.Context, args azservicebus.NewWebSocketConnArgs) (net.Conn, error) {
			return v.dial(ctx, args.Host)
		}
	}
	client := must(azservicebus.NewClientFromConnectionString(v.address(connectionString), options))
	v.keep(client.Close)
	return client
}

func (v *visit) client() *azservicebus.Client {
	if v.shared == nil {
		v.shared = v.connect(v.connectionString)
	}
	return v.shared
}

func (v *visit) administration(connectionString string) *admin.Client {
	options := azcore.ClientOptions{Transport: v.http, Retry: policy.RetryOptions{MaxRetries: -1}}
	address := port.ReplaceAllString(connectionString, "localhost:"+v.httpPort)
	return must(admin.NewClientFromConnectionString(address, &admin.ClientOptions{ClientOptions: options}))
}

func (v *visit) sender() *azservicebus.Sender {
	if v.sharedSender == nil {
		v.sharedSender = must(v.client().NewSender(v.entity, nil))
	}
	return v.sharedSender
}

func (v *visit) sendMessage(message *azservicebus.Message) {
	must0(v.sender().SendMessage(v.ctx, message, nil))
}

func (v *visit) send(bodies ...string) {
	for _, body := range bodies {
		v.sendMessage(&azservicebus.Message{Body: []byte(body)})
	}
}

func (v *visit) sendInSession(id string, bodies ...string) {
	for _, body := range bodies {
		v.sendMessage(&azservicebus.Message{Body: []byte(body), SessionID: &id})
	}
}

func (v *visit) receiver() *azservicebus.Receiver { return v.receiverFrom(v.entity, nil) }

func (v *visit) receiverFrom(queue string, options *azservicebus.ReceiverOptions) *azservicebus.Receiver {
	return must(v.client().NewReceiverForQueue(queue, options))
}

func (v *visit) deletingReceiver() *azservicebus.Receiver {
	return v.receiverFrom(v.entity, &azservicebus.ReceiverOptions{ReceiveMode: azservicebus.ReceiveModeReceiveAndDelete})
}

func (v *visit) deadLetters() *azservicebus.Receiver {
	return v.receiverFrom(v.entity, &azservicebus.ReceiverOptions{SubQueue: azservicebus.SubQueueDeadLetter})
}

func (v *visit) subscriber(subscription string) *azservicebus.Receiver {
	return must(v.client().NewReceiverForSubscription(v.entity, subscription, nil))
}

func (v *visit) session(id string) *azservicebus.SessionReceiver {
	return must(v.client().AcceptSessionForQueue(v.ctx, v.entity, id, nil))
}

func (v *visit) nextSession() *azservicebus.SessionReceiver {
	return must(v.client().AcceptNextSessionForQueue(v.ctx, v.entity, nil))
}

// settling is what receivers of queues and of sessions have in common.
type settling interface {
	ReceiveMessages(context.Context, int, *azservicebus.ReceiveMessagesOptions) ([]*azservicebus.ReceivedMessage, error)
	CompleteMessage(context.Context, *azservicebus.ReceivedMessage, *azservicebus.CompleteMessageOptions) error
	PeekMessages(context.Context, int, *azservicebus.PeekMessagesOptions) ([]*azservicebus.ReceivedMessage, error)
}

// take receives exactly so many messages, in the order of their arrival.
func (v *visit) take(receiver settling, count int) []*azservicebus.ReceivedMessage {
	ctx, cancel := context.WithTimeout(v.ctx, patience)
	defer cancel()
	// Left alone, the SDK returns a moment after the first message, and gives back what comes between two calls: those
	// messages would then be out of order.
	all := &azservicebus.ReceiveMessagesOptions{TimeAfterFirstMessage: patience}
	taken := []*azservicebus.ReceivedMessage{}
	for len(taken) < count {
		taken = append(taken, must(receiver.ReceiveMessages(ctx, count-len(taken), all))...)
	}
	return taken
}

func (v *visit) takeOne(receiver settling) *azservicebus.ReceivedMessage {
	return v.take(receiver, 1)[0]
}

func (v *visit) takeAndComplete(receiver settling, count int) []*azservicebus.ReceivedMessage {
	taken := v.take(receiver, count)
	for _, message := range taken {
		must0(receiver.CompleteMessage(v.ctx, message, nil))
	}
	return taken
}

// expectMinuteLock insists that a lock of a minute, which the service gave at some time after this one, ends when it
// should. The times of the service have milliseconds.
func expectMinuteLock(lockedUntil, before time.Time) {
	earliest, latest := before.Truncate(time.Millisecond).Add(time.Minute), time.Now().Add(time.Minute)
	check(!lockedUntil.Before(earliest) && !lockedUntil.After(latest), "locked until %s, which is not in %s to %s",
		lockedUntil, earliest, latest)
}

// expectRecent insists on a time of this run: the clocks are the same, and the machine may be busy.
func expectRecent(moment time.Time) {
	check(time.Since(moment).Abs() < 10*time.Minute, "at %s", moment)
}

func (v *visit) expectSilence(receiver settling) {
	ctx, cancel := context.WithTimeout(v.ctx, silence)
	defer cancel()
	came, err := receiver.ReceiveMessages(ctx, 1, nil)
	check(err != nil, "received %v, and should not have", bodies(came))
	gaveUp(err)
}

// peekAll returns everything in a queue, whatever its state. In a queue with sessions it takes the receiver of any
// session: the SDK opens the link of a receiver before it peeks, and names no session when it does.
func (v *visit) peekAll(receiver settling) []*azservicebus.ReceivedMessage {
	return must(receiver.PeekMessages(v.ctx, 250, &azservicebus.PeekMessagesOptions{FromSequenceNumber: ptr(int64(1))}))
}

func (v *visit) expectLeft(expected string) {
	same(expected, bodies(v.peekAll(v.receiver())))
}

// bodies joins the texts of messages, for comparing.
func bodies(messages []*azservicebus.ReceivedMessage) string {
	texts := make([]string, len(messages))
	for at, message := range messages {
		texts[at] = string(message.Body)
	}
	return strings.Join(texts, " ")
}
