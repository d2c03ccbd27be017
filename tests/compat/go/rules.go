package main

import (
	"maps"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"
)

// Features of rules. The SDK manages them through its administration client, and sends and receives over AMQP.
var ruleFeatures = map[string]feature{
	"rule-correlation":    ruleCorrelation,
	"rule-types":          ruleTypes,
	"rule-true-and-false": ruleTrueAndFalse,
	"rule-actions":        ruleActions,
}

func addRule(v *visit, name string, filter admin.RuleFilter, action admin.RuleAction) {
	must(v.admin().CreateRule(v.ctx, v.entity, "Inventory",
		&admin.CreateRuleOptions{Name: &name, Filter: filter, Action: action}))
}

func rule(v *visit, name string) *admin.GetRuleResponse {
	return must(v.admin().GetRule(v.ctx, v.entity, "Inventory", name, nil))
}

func removeDefaultRule(v *visit) {
	must(v.admin().DeleteRule(v.ctx, v.entity, "Inventory", "$Default", nil))
}

// received takes exactly so many messages of the subscription, which is empty afterwards.
func received(v *visit, count int) []*azservicebus.ReceivedMessage {
	taken := v.takeAndComplete(v.subscriber("Inventory"), count)
	same("", left(v, "Inventory"))
	return taken
}

// What a correlation filter can name, beside the properties of the application.
var namedProperties = []string{"correlation id", "message id", "to", "reply to", "subject", "session id",
	"reply to session id", "content type"}

// correlated is a message that the filter below selects, unless one of its system properties is changed.
func correlated(body string, properties map[string]any, changed string) *azservicebus.Message {
	value := func(name string) *string {
		if name == changed {
			return ptr(strings.ToUpper(name))
		}
		return &name
	}
	return &azservicebus.Message{
		Body: []byte(body), CorrelationID: value("correlation id"), MessageID: value("message id"), To: value("to"),
		ReplyTo: value("reply to"), Subject: value("subject"), SessionID: value("session id"),
		ReplyToSessionID: value("reply to session id"), ContentType: value("content type"),
		ApplicationProperties: properties,
	}
}

func with(properties map[string]any, name string, value any) map[string]any {
	changed := maps.Clone(properties)
	changed[name] = value
	return changed
}

func ruleCorrelation(v *visit) {
	removeDefaultRule(v)
	properties := map[string]any{"text": "x", "number": int64(7), "half": 0.5, "flag": true}
	filter := &admin.CorrelationFilter{
		CorrelationID: ptr("correlation id"), MessageID: ptr("message id"), To: ptr("to"), ReplyTo: ptr("reply to"),
		Subject: ptr("subject"), SessionID: ptr("session id"), ReplyToSessionID: ptr("reply to session id"),
		ContentType: ptr("content type"), ApplicationProperties: properties,
	}
	addRule(v, "whole", filter, nil)
	same(filter, rule(v, "whole").Filter)
	v.sendMessage(correlated("whole", properties, ""))
	for _, name := range namedProperties {
		v.sendMessage(correlated("other-"+name, properties, name))
	}
	v.sendMessage(correlated("number-as-text", with(properties, "number", "7"), ""))
	v.sendMessage(correlated("flag-as-text", with(properties, "flag", "true"), ""))
	v.sendMessage(correlated("other-text", with(properties, "text", "X"), ""))
	v.sendMessage(correlated("without-properties", nil, ""))
	v.sendMessage(&azservicebus.Message{Body: []byte("without-system-properties"), ApplicationProperties: properties})
	v.sendMessage(correlated("more", with(properties, "more", int64(1)), ""))
	same("whole more", bodies(received(v, 2)))
}

func ruleTypes(v *visit) {
	removeDefaultRule(v)
	date := time.Date(2020, 7, 5, 11, 12, 13, 250_000_000, time.UTC)
	names := []string{"text", "one", "minus", "large", "half", "truth", "lie", "date"}
	values := []any{"1", int64(1), int64(-1), int64(1) << 40, 1.5, true, false, date}
	for at, name := range names {
		filter := &admin.CorrelationFilter{ApplicationProperties: map[string]any{"value": values[at]}}
		addRule(v, name, filter, &admin.SQLAction{Expression: "SET rule = '" + name + "'"})
		same(filter, rule(v, name).Filter)
	}
	for at, name := range names {
		sendWith(v, name, map[string]any{"value": values[at]})
	}
	// Of another type, or of another value: no rule selects these.
	for _, value := range []any{"1.5", "true", int64(2), -1.5, "1099511627776", date.Add(time.Millisecond)} {
		sendWith(v, "astray", map[string]any{"value": value})
	}
	found := received(v, len(names))
	same(strings.Join(names, " "), bodies(found))
	for at, name := range names {
		same(map[string]any{"value": values[at], "rule": name, "RuleName": name}, utc(found[at].ApplicationProperties))
	}
}

// utc shows times as they were given: the SDK reads them in the zone of the machine.
func utc(properties map[string]any) map[string]any {
	for name, value := range properties {
		if moment, isTime := value.(time.Time); isTime {
			properties[name] = moment.UTC()
		}
	}
	return properties
}

func ruleTrueAndFalse(v *visit) {
	removeDefaultRule(v)
	addRule(v, "nothing", &admin.FalseFilter{}, nil)
	v.send("unseen")
	addRule(v, "everything", &admin.TrueFilter{}, nil)
	v.send("seen")
	same("seen", bodies(received(v, 1)))
	same(&admin.FalseFilter{}, rule(v, "nothing").Filter)
	same(&admin.TrueFilter{}, rule(v, "everything").Filter)
}

// One copy for all rules without an action, one for each rule with one.
func ruleActions(v *visit) {
	action := &admin.SQLAction{Expression: "SET priority = 'high'; REMOVE secret; SET sys.Label = 'raised'"}
	addRule(v, "raise", &admin.SQLFilter{Expression: "n > 10"}, action)
	addRule(v, "also", &admin.CorrelationFilter{ApplicationProperties: map[string]any{"n": int64(20)}}, nil)
	same(action, rule(v, "raise").Action)
	sent := map[string]any{"n": int64(20), "secret": "s"}
	v.sendMessage(&azservicebus.Message{Body: []byte("x"), Subject: ptr("plain"), ApplicationProperties: sent})
	found := received(v, 2)
	changed, plain := found[0], found[1]
	if plain.ApplicationProperties["RuleName"] != nil {
		changed, plain = plain, changed
	}
	same(map[string]any{"n": int64(20), "priority": "high", "RuleName": "raise"}, changed.ApplicationProperties)
	same("raised", *changed.Subject)
	same(sent, plain.ApplicationProperties)
	same("plain", *plain.Subject)
}
