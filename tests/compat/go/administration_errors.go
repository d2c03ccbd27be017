package main

import (
	"net/http"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"
)

// Features of the administration client: what it learns about entities that are missing, taken, wrong or forbidden.
// The SDK returns nil, and no error, for an entity that does not exist.
var administrationErrorFeatures = map[string]feature{
	"exists": func(v *visit) {
		client := withTopic(v)
		check(must(client.GetQueue(v.ctx, v.entity+"-queue", nil)) != nil, "the queue is missing")
		check(must(client.GetTopic(v.ctx, v.entity, nil)) != nil, "the topic is missing")
		check(must(client.GetSubscription(v.ctx, v.entity, "all", nil)) != nil, "the subscription is missing")
		check(must(client.GetRule(v.ctx, v.entity, "all", "$Default", nil)) != nil, "the rule is missing")
		expectMissing(v, client)
	},
	"missing": func(v *visit) {
		client := withTopic(v)
		expectMissing(v, client)
		check(must(client.GetQueueRuntimeProperties(v.ctx, "missing", nil)) == nil, "a missing queue has counts")
		_, err := client.DeleteQueue(v.ctx, "missing", nil)
		httpRefused(http.StatusNotFound, "", err)
		_, err = client.DeleteTopic(v.ctx, "missing", nil)
		httpRefused(http.StatusNotFound, "", err)
		_, err = client.DeleteSubscription(v.ctx, v.entity, "missing", nil)
		httpRefused(http.StatusNotFound, "", err)
		_, err = client.DeleteRule(v.ctx, v.entity, "missing", "missing", nil)
		httpRefused(http.StatusNotFound, "", err)
		_, err = client.CreateSubscription(v.ctx, "missing", "all", nil)
		httpRefused(http.StatusNotFound, "", err)
		gone := must(client.GetQueue(v.ctx, v.entity+"-queue", nil))
		must(client.DeleteQueue(v.ctx, v.entity+"-queue", nil))
		_, err = client.UpdateQueue(v.ctx, v.entity+"-queue", gone.QueueProperties, nil)
		httpRefused(http.StatusNotFound, "", err)
	},
	"conflict": func(v *visit) {
		client := withTopic(v)
		_, err := client.CreateQueue(v.ctx, v.entity+"-queue", nil)
		httpRefused(http.StatusConflict, "", err)
		_, err = client.CreateTopic(v.ctx, v.entity+"-queue", nil)
		httpRefused(http.StatusConflict, "", err)
		_, err = client.CreateTopic(v.ctx, v.entity, nil)
		httpRefused(http.StatusConflict, "", err)
		_, err = client.CreateSubscription(v.ctx, v.entity, "all", nil)
		httpRefused(http.StatusConflict, "", err)
		_, err = client.CreateRule(v.ctx, v.entity, "all", &admin.CreateRuleOptions{Name: ptr("$Default")})
		httpRefused(http.StatusConflict, "", err)
	},
	"bad-values": func(v *visit) {
		client := v.admin()
		for text, properties := range map[string]*admin.QueueProperties{
			"LockDuration is P25D":   {LockDuration: ptr("P25D")},
			"MaxDeliveryCount is 0":  {MaxDeliveryCount: ptr(int32(0))},
			"LockDuration is 'soon'": {LockDuration: ptr("soon")},
		} {
			_, err := client.CreateQueue(v.ctx, v.entity, &admin.CreateQueueOptions{Properties: properties})
			httpRefused(http.StatusBadRequest, text, err)
		}
		_, err := client.CreateQueue(v.ctx, v.entity+"$", nil)
		httpRefused(http.StatusBadRequest, "Name", err)
		check(must(client.GetQueue(v.ctx, v.entity, nil)) == nil, "a refused queue was made")
		properties := must(client.CreateQueue(v.ctx, v.entity, nil)).QueueProperties
		properties.RequiresSession = ptr(true)
		_, err = client.UpdateQueue(v.ctx, v.entity, properties, nil)
		httpRefused(http.StatusBadRequest, "RequiresSession property", err)
	},
	"unauthorized": func(v *visit) {
		stranger := v.administration(key.ReplaceAllString(v.connectionString, "SharedAccessKey=wrong"))
		_, err := stranger.GetNamespaceProperties(v.ctx, nil)
		httpRefused(http.StatusUnauthorized, "", err)
		_, err = stranger.CreateQueue(v.ctx, v.entity, nil)
		httpRefused(http.StatusUnauthorized, "", err)
		listener := v.administration(v.listening)
		_, err = listener.CreateQueue(v.ctx, v.entity, nil)
		httpRefused(http.StatusUnauthorized, "'Manage' claim", err)
		_, err = listener.NewListQueuesPager(nil).NextPage(v.ctx)
		httpRefused(http.StatusUnauthorized, "", err)
		check(must(v.admin().GetQueue(v.ctx, v.entity, nil)) == nil, "a refused queue was made")
	},
}

func expectMissing(v *visit, client *admin.Client) {
	check(must(client.GetQueue(v.ctx, "missing", nil)) == nil, "a missing queue was found")
	check(must(client.GetTopic(v.ctx, "missing", nil)) == nil, "a missing topic was found")
	check(must(client.GetSubscription(v.ctx, v.entity, "missing", nil)) == nil, "a missing subscription was found")
	check(must(client.GetRule(v.ctx, v.entity, "all", "missing", nil)) == nil, "a missing rule was found")
}

func withTopic(v *visit) *admin.Client {
	client := v.admin()
	must(client.CreateQueue(v.ctx, v.entity+"-queue", nil))
	must(client.CreateTopic(v.ctx, v.entity, nil))
	must(client.CreateSubscription(v.ctx, v.entity, "all", nil))
	return client
}
