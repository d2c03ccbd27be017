package main

import (
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
	must(v.administration(v.connectionString).CreateRule(v.ctx, v.entity, "Inventory",
		&admin.CreateRuleOptions{Name: &name, Filter: filter, Action: action}))
}

func removeDefaultRule(v *visit) {
	must(v.administration(v.connectionString).DeleteRule(v.ctx, v.entity, "Inventory", "$Default", nil))
}

func ruleCorrelation(v *visit) {
	removeDefaultRule(v)
	addRule(v, "whole", &admin.CorrelationFilter{
		CorrelationID: ptr("a"), Subject: ptr("e"), ApplicationProperties: map[string]any{"text": "x"},
	}, nil)
	for _, subject := range []string{"e", "E"} {
		v.sendMessage(&azservicebus.Message{
			Body: []byte(subject), CorrelationID: ptr("a"), Subject: &subject,
			ApplicationProperties: map[string]any{"text": "x", "more": int64(1)},
		})
	}
	same("e", left(v, "Inventory"))
}

func ruleTypes(v *visit) {
	removeDefaultRule(v)
	values := []any{"1", int64(1), 1.5, true}
	names := []string{"text", "one", "half", "truth"}
	for at, name := range names {
		filter := &admin.CorrelationFilter{ApplicationProperties: map[string]any{"value": values[at]}}
		addRule(v, name, filter, &admin.SQLAction{Expression: "SET rule = '" + name + "'"})
	}
	for at, name := range names {
		sendWith(v, name, map[string]any{"value": values[at]})
	}
	for _, message := range v.takeAndComplete(v.subscriber("Inventory"), len(names)) {
		same(string(message.Body), message.ApplicationProperties["rule"])
	}
}

func ruleTrueAndFalse(v *visit) {
	removeDefaultRule(v)
	addRule(v, "nothing", &admin.FalseFilter{}, nil)
	v.send("unseen")
	addRule(v, "everything", &admin.TrueFilter{}, nil)
	v.send("seen")
	same("seen", left(v, "Inventory"))
}

func ruleActions(v *visit) {
	action := &admin.SQLAction{Expression: "SET priority = 'high'; REMOVE secret; SET sys.Label = 'raised'"}
	addRule(v, "raise", &admin.SQLFilter{Expression: "n > 10"}, action)
	removeDefaultRule(v)
	sendWith(v, "x", map[string]any{"n": int64(20), "secret": "s"})
	changed := v.takeAndComplete(v.subscriber("Inventory"), 1)[0]
	same(map[string]any{"n": int64(20), "priority": "high", "RuleName": "raise"}, changed.ApplicationProperties)
	same("raised", *changed.Subject)
}
