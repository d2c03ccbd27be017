package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"
)

// Features of the administration client. The entity of a visit is the prefix of the names that a feature makes.
var administrationFeatures = map[string]feature{
	"namespace": func(v *visit) {
		namespace := must(v.admin().GetNamespaceProperties(v.ctx, nil))
		same([]string{"sbemulatorns", "Standard"}, []string{namespace.Name, namespace.SKU})
		check(!namespace.CreatedTime.After(time.Now()), "made at %s", namespace.CreatedTime)
	},
	"queue": adminQueue,
	"queue-defaults": func(v *visit) {
		status := admin.EntityStatusActive
		same(admin.QueueProperties{
			LockDuration: ptr("PT1M"), MaxSizeInMegabytes: ptr(int32(1024)), RequiresDuplicateDetection: ptr(false),
			RequiresSession: ptr(false), DefaultMessageTimeToLive: ptr(forEver),
			DeadLetteringOnMessageExpiration: ptr(false), DuplicateDetectionHistoryTimeWindow: ptr("PT10M"),
			MaxDeliveryCount: ptr(int32(10)), EnableBatchedOperations: ptr(true), Status: &status,
			AutoDeleteOnIdle: ptr(forEver), EnablePartitioning: ptr(false), MaxMessageSizeInKilobytes: ptr(int64(256)),
		}, must(v.admin().CreateQueue(v.ctx, v.entity, nil)).QueueProperties)
	},
	"topic":        adminTopic,
	"subscription": adminSubscription,
	"default-rule": func(v *visit) {
		client := v.admin()
		must(client.CreateTopic(v.ctx, v.entity, nil))
		rule := &admin.RuleProperties{Name: "mine", Filter: &admin.SQLFilter{Expression: "n = 1"}}
		must(client.CreateSubscription(v.ctx, v.entity, "some",
			&admin.CreateSubscriptionOptions{Properties: &admin.SubscriptionProperties{DefaultRule: rule}}))
		same([]string{"mine"}, ruleNames(v, client, "some"))
		same(rule.Filter, must(client.GetRule(v.ctx, v.entity, "some", "mine", nil)).Filter)
	},
	"rules":               adminRules,
	"forwarding":          adminForwarding,
	"authorization-rules": authorizationRules,
	"lists":               lists,
	"pages":               pages,
	"counts":              counts,
}

// The longest time that the service knows: 2^63 - 1 units of 100 ns.
const forEver = "P10675199DT2H48M5.4775807S"

func (v *visit) admin() *admin.Client { return v.administration(v.connectionString) }

func adminQueue(v *visit) {
	client := v.admin()
	name := v.entity + "/region/queue"
	status, active := admin.EntityStatusReceiveDisabled, admin.EntityStatusActive
	chosen := admin.QueueProperties{
		LockDuration: ptr("PT13S"), MaxSizeInMegabytes: ptr(int32(3072)), RequiresDuplicateDetection: ptr(true),
		RequiresSession: ptr(true), DefaultMessageTimeToLive: ptr("P1DT2H3M4.005S"),
		DeadLetteringOnMessageExpiration: ptr(true), DuplicateDetectionHistoryTimeWindow: ptr("PT12M"),
		MaxDeliveryCount: ptr(int32(14)), EnableBatchedOperations: ptr(false), Status: &status,
		AutoDeleteOnIdle: ptr("PT10M"), UserMetadata: ptr("for <tests> & \"more\" — with äöü"),
		MaxMessageSizeInKilobytes: ptr(int64(1024)), EnablePartitioning: ptr(false),
	}
	must(client.CreateQueue(v.ctx, name, &admin.CreateQueueOptions{Properties: &chosen}))
	fetched := must(client.GetQueue(v.ctx, name, nil))
	same(name, fetched.QueueName)
	fetched.AuthorizationRules = nil
	same(chosen, fetched.QueueProperties)
	chosen.MaxDeliveryCount, chosen.LockDuration, chosen.Status = ptr(int32(15)), ptr("PT15S"), &active
	updated := must(client.UpdateQueue(v.ctx, name, chosen, nil))
	updated.AuthorizationRules = nil
	same(chosen, updated.QueueProperties)
	must(client.DeleteQueue(v.ctx, name, nil))
	check(must(client.GetQueue(v.ctx, name, nil)) == nil, "the queue was not deleted")
}

func adminTopic(v *visit) {
	client := v.admin()
	status := admin.EntityStatusSendDisabled
	properties := admin.TopicProperties{
		DefaultMessageTimeToLive: ptr("PT11M"), MaxSizeInMegabytes: ptr(int32(2048)), RequiresDuplicateDetection: ptr(true),
		DuplicateDetectionHistoryTimeWindow: ptr("PT12M"), EnableBatchedOperations: ptr(false), Status: &status,
		SupportOrdering: ptr(true), AutoDeleteOnIdle: ptr("PT10M"), UserMetadata: ptr("a topic"),
		EnablePartitioning: ptr(false), MaxMessageSizeInKilobytes: ptr(int64(1024)),
	}
	must(client.CreateTopic(v.ctx, v.entity, &admin.CreateTopicOptions{Properties: &properties}))
	fetched := must(client.GetTopic(v.ctx, v.entity, nil))
	fetched.AuthorizationRules = nil
	same(properties, fetched.TopicProperties)
	fetched.UserMetadata = ptr("changed")
	same("changed", *must(client.UpdateTopic(v.ctx, v.entity, fetched.TopicProperties, nil)).UserMetadata)
	must(client.CreateSubscription(v.ctx, v.entity, "all", nil))
	must(client.DeleteTopic(v.ctx, v.entity, nil))
	check(must(client.GetTopic(v.ctx, v.entity, nil)) == nil, "the topic was not deleted")
	check(must(client.GetSubscription(v.ctx, v.entity, "all", nil)) == nil, "its subscription was not deleted")
}

func adminSubscription(v *visit) {
	client := v.admin()
	must(client.CreateTopic(v.ctx, v.entity, nil))
	// The SDK sends no status of a subscription.
	status := admin.EntityStatusActive
	properties := admin.SubscriptionProperties{
		LockDuration: ptr("PT13S"), RequiresSession: ptr(true), DefaultMessageTimeToLive: ptr("PT11M"),
		DeadLetteringOnMessageExpiration: ptr(true), EnableDeadLetteringOnFilterEvaluationExceptions: ptr(false),
		MaxDeliveryCount: ptr(int32(14)), EnableBatchedOperations: ptr(false), Status: &status,
		UserMetadata: ptr("one"), AutoDeleteOnIdle: ptr("PT10M"),
	}
	must(client.CreateSubscription(v.ctx, v.entity, "all", &admin.CreateSubscriptionOptions{Properties: &properties}))
	fetched := must(client.GetSubscription(v.ctx, v.entity, "all", nil))
	same([]string{v.entity, "all"}, []string{fetched.TopicName, fetched.SubscriptionName})
	same(properties, fetched.SubscriptionProperties)
	fetched.MaxDeliveryCount = ptr(int32(15))
	updated := must(client.UpdateSubscription(v.ctx, v.entity, "all", fetched.SubscriptionProperties, nil))
	same(int32(15), *updated.MaxDeliveryCount)
	listed := must(client.NewListSubscriptionsPager(v.entity, nil).NextPage(v.ctx)).Subscriptions
	same(1, len(listed))
	same([]any{v.entity, "all", int32(15)},
		[]any{listed[0].TopicName, listed[0].SubscriptionName, *listed[0].MaxDeliveryCount})
	must(client.DeleteSubscription(v.ctx, v.entity, "all", nil))
	check(must(client.GetSubscription(v.ctx, v.entity, "all", nil)) == nil, "the subscription was not deleted")
}

func ruleNames(v *visit, client *admin.Client, subscription string) []string {
	names := []string{}
	for pager := client.NewListRulesPager(v.entity, subscription, nil); pager.More(); {
		for _, rule := range must(pager.NextPage(v.ctx)).Rules {
			names = append(names, rule.Name)
		}
	}
	slices.Sort(names)
	return names
}

func adminRules(v *visit) {
	client := v.admin()
	must(client.CreateTopic(v.ctx, v.entity, nil))
	must(client.CreateSubscription(v.ctx, v.entity, "all", nil))
	same(&admin.TrueFilter{}, must(client.GetRule(v.ctx, v.entity, "all", "$Default", nil)).Filter)
	values := map[string]any{"text": "it's <a> & \"b\" ü", "int": int64(5), "long": int64(1) << 40, "double": 1.5,
		"yes": true, "no": false, "date": time.Date(2020, 7, 5, 11, 12, 13, 0, time.UTC)}
	parameters := map[string]any{}
	for name, value := range values {
		parameters["@"+name] = value
	}
	sql := &admin.SQLFilter{Expression: "a = @text AND b > @int", Parameters: parameters}
	action := &admin.SQLAction{Expression: "SET x = @double", Parameters: parameters}
	must(client.CreateRule(v.ctx, v.entity, "all", &admin.CreateRuleOptions{Name: ptr("typed"), Filter: sql, Action: action}))
	typed := must(client.GetRule(v.ctx, v.entity, "all", "typed", nil))
	same([]any{"typed", sql, action}, []any{typed.Name, typed.Filter, typed.Action})
	correlation := &admin.CorrelationFilter{CorrelationID: ptr("c"), MessageID: ptr("m"), To: ptr("t"), ReplyTo: ptr("r"),
		Subject: ptr("l"), SessionID: ptr("s"), ReplyToSessionID: ptr("rs"), ContentType: ptr("text/plain"),
		ApplicationProperties: values}
	must(client.CreateRule(v.ctx, v.entity, "all", &admin.CreateRuleOptions{Name: ptr("correlation"), Filter: correlation}))
	fetched := must(client.GetRule(v.ctx, v.entity, "all", "correlation", nil))
	same(correlation, fetched.Filter)
	fetched.Filter, fetched.Action = &admin.SQLFilter{Expression: "n = 2"}, &admin.SQLAction{Expression: "REMOVE n"}
	must(client.UpdateRule(v.ctx, v.entity, "all", fetched.RuleProperties))
	updated := must(client.GetRule(v.ctx, v.entity, "all", "correlation", nil))
	same([]any{fetched.Filter, fetched.Action}, []any{updated.Filter, updated.Action})
	must(client.DeleteRule(v.ctx, v.entity, "all", "$Default", nil))
	same([]string{"correlation", "typed"}, ruleNames(v, client, "all"))
}

func adminForwarding(v *visit) {
	client := v.admin()
	must(client.CreateQueue(v.ctx, v.entity+"-target", nil))
	target := v.entity + "-target"
	properties := &admin.QueueProperties{ForwardTo: &target, ForwardDeadLetteredMessagesTo: &target}
	must(client.CreateQueue(v.ctx, v.entity, &admin.CreateQueueOptions{Properties: properties}))
	fetched := must(client.GetQueue(v.ctx, v.entity, nil))
	address := "https://localhost:" + v.httpPort + "/" + target
	same([]string{address, address}, []string{*fetched.ForwardTo, *fetched.ForwardDeadLetteredMessagesTo})
	fetched.MaxDeliveryCount = ptr(int32(7))
	updated := must(client.UpdateQueue(v.ctx, v.entity, fetched.QueueProperties, nil))
	same([]any{address, address, int32(7)},
		[]any{*updated.ForwardTo, *updated.ForwardDeadLetteredMessagesTo, *updated.MaxDeliveryCount})
}

func authorizationRules(v *visit) {
	client := v.admin()
	rights := []admin.AccessRight{admin.AccessRightManage, admin.AccessRightListen, admin.AccessRightSend}
	rule := admin.AuthorizationRule{KeyName: ptr("all"), PrimaryKey: ptr("YWxs"), SecondaryKey: ptr("YWxsMg=="),
		AccessRights: rights}
	must(client.CreateQueue(v.ctx, v.entity,
		&admin.CreateQueueOptions{Properties: &admin.QueueProperties{AuthorizationRules: []admin.AuthorizationRule{rule}}}))
	came := must(client.GetQueue(v.ctx, v.entity, nil)).AuthorizationRules[0]
	same([]string{"all", "YWxs", "YWxsMg=="}, []string{*came.KeyName, *came.PrimaryKey, *came.SecondaryKey})
	slices.Sort(rights)
	slices.Sort(came.AccessRights)
	same(rights, came.AccessRights)
	fetched := must(client.GetQueue(v.ctx, v.entity, nil))
	updated := must(client.UpdateQueue(v.ctx, v.entity, fetched.QueueProperties, nil))
	same("YWxs", *updated.AuthorizationRules[0].PrimaryKey)
}

func manyQueues(v *visit, client *admin.Client) []string {
	names := make([]string, 110)
	for number := range names {
		names[number] = fmt.Sprintf("%s-many-%03d", v.entity, number)
		must(client.CreateQueue(v.ctx, names[number], nil))
	}
	return names
}

// queueNames returns the queues of a visit from a list. Each of its pages is full, except for the last: the SDK asks for
// one more, which is empty.
func queueNames(v *visit, pager *runtime.Pager[admin.ListQueuesResponse], size int) []string {
	found, before := []string{}, size
	for pager.More() {
		page := must(pager.NextPage(v.ctx)).Queues
		check(before == size || len(page) == 0, "a page of %d queues, and one of %d behind it", before, len(page))
		before = len(page)
		for _, queue := range page {
			if strings.HasPrefix(queue.QueueName, v.entity) {
				found = append(found, queue.QueueName)
			}
		}
	}
	return found
}

// untilSame insists on a list, which may have to be read again: others create and delete entities between two pages, and
// a page begins at a number.
func untilSame(expected []string, list func() []string) {
	until("a list of "+expected[0]+" and others", func() bool { return slices.Equal(expected, list()) })
}

// More than a page of the service: a page holds a hundred.
func lists(v *visit) {
	client := v.admin()
	expected := manyQueues(v, client)
	untilSame(expected, func() []string { return queueNames(v, client.NewListQueuesPager(nil), 100) })
	must(client.CreateTopic(v.ctx, v.entity, nil))
	hasTopic := false
	for pager := client.NewListTopicsPager(nil); pager.More(); {
		for _, topic := range must(pager.NextPage(v.ctx)).Topics {
			hasTopic = hasTopic || topic.TopicName == v.entity
		}
	}
	check(hasTopic, "the topic is not listed")
	same(0, len(must(client.NewListSubscriptionsPager(v.entity, nil).NextPage(v.ctx)).Subscriptions))
	for _, name := range expected {
		must(client.DeleteQueue(v.ctx, name, nil))
	}
}

func pages(v *visit) {
	client := v.admin()
	names := manyQueues(v, client)
	options := &admin.ListQueuesOptions{MaxPageSize: 40}
	untilSame(names, func() []string { return queueNames(v, client.NewListQueuesPager(options), 40) })
	for _, name := range names {
		must(client.DeleteQueue(v.ctx, name, nil))
	}
}

func counts(v *visit) {
	client := v.admin()
	must(client.CreateQueue(v.ctx, v.entity, nil))
	v.send("one", "two")
	scheduled(v, time.Now().Add(far), "later")
	queue := must(client.GetQueueRuntimeProperties(v.ctx, v.entity, nil))
	same([]any{int64(3), int32(2), int32(1), int32(0)}, []any{queue.TotalMessageCount, queue.ActiveMessageCount,
		queue.ScheduledMessageCount, queue.DeadLetterMessageCount})
	check(queue.SizeInBytes > 0, "two messages without a size")
	check(!queue.CreatedAt.After(queue.AccessedAt), "made at %s, used at %s", queue.CreatedAt, queue.AccessedAt)
	topic := v.entity + "-topic"
	must(client.CreateTopic(v.ctx, topic, nil))
	must(client.CreateSubscription(v.ctx, topic, "all", nil))
	sender := must(v.client().NewSender(topic, nil))
	must0(sender.SendMessage(v.ctx, &azservicebus.Message{Body: []byte("one")}, nil))
	same(int32(1), must(client.GetTopicRuntimeProperties(v.ctx, topic, nil)).SubscriptionCount)
	same(int32(1), must(client.GetSubscriptionRuntimeProperties(v.ctx, topic, "all", nil)).ActiveMessageCount)
}
