// The official Go SDKs, as far as they go, against a running Tandem.
//
//	program CONNECTION_STRING LISTENING_CONNECTION_STRING HTTP_PORT CA < PLAN
//
// Each line of PLAN names a group (servicebus, eventhubs or administration), a transport (tcp, tls or websocket), a
// feature and the empty entity of that feature, separated by tabs. One JSON line per feature reports the outcome:
//
//	{"group": "servicebus", "transport": "tcp", "feature": "send-one", "ok": false, "surprise": "..."}
//
// Several features run side by side, because most of their time is spent waiting.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"time"
)

const (
	atOnce = 8
	// Long enough for a feature on a slow machine, short enough to report a server that does not answer.
	featureLimit = 120 * time.Second
)

// A feature performs one thing at an entity of its own, and panics if anything differs from what it expects.
type feature func(v *visit)

var groups = map[string]map[string]feature{
	"servicebus": merged(messageFeatures, receivingFeatures, settlementFeatures, sessionFeatures, refusalFeatures,
		topicFeatures, ruleFeatures),
	"eventhubs":      merged(hubFeatures, hubConsumerFeatures),
	"administration": merged(administrationFeatures, administrationErrorFeatures),
}

type report struct {
	Group     string `json:"group"`
	Transport string `json:"transport"`
	Feature   string `json:"feature"`
	Ok        bool   `json:"ok"`
	Surprise  string `json:"surprise,omitempty"`
}

func merged(parts ...map[string]feature) map[string]feature {
	all := map[string]feature{}
	for _, part := range parts {
		maps.Copy(all, part)
	}
	return all
}

func main() {
	where := newTarget(os.Args[1], os.Args[2], os.Args[3], os.Args[4])
	turns := make(chan struct{}, atOnce)
	var running sync.WaitGroup
	var writing sync.Mutex
	output := json.NewEncoder(os.Stdout)
	plan := bufio.NewScanner(os.Stdin)
	for plan.Scan() {
		fields := strings.Split(plan.Text(), "\t")
		turns <- struct{}{}
		running.Add(1)
		go func() {
			defer running.Done()
			defer func() { <-turns }()
			surprise := run(where, fields)
			writing.Lock()
			defer writing.Unlock()
			must0(output.Encode(report{fields[0], fields[1], fields[2], surprise == "", surprise}))
		}()
	}
	running.Wait()
}

// run performs a feature and returns the surprise that ended it, if any.
func run(where *target, fields []string) string {
	perform, found := groups[fields[0]][fields[2]]
	if !found {
		return "the Go program has no such feature"
	}
	ctx, cancel := context.WithTimeout(context.Background(), featureLimit)
	defer cancel()
	v := &visit{target: where, ctx: ctx, transport: fields[1], entity: fields[3]}
	surprise := make(chan string, 1)
	go func() {
		defer v.close()
		defer func() {
			if problem := recover(); problem != nil {
				surprise <- fmt.Sprintf("%v\n%s", problem, debug.Stack())
			} else {
				surprise <- ""
			}
		}()
		perform(v)
	}()
	select {
	case text := <-surprise:
		return text
	case <-time.After(featureLimit + 10*time.Second):
		return fmt.Sprintf("took longer than %s", featureLimit)
	}
}
