// Everything that the official JavaScript administration client can do, against a running Tandem.
//
//   node admin.mjs CONNECTION_STRING LISTENING_CONNECTION_STRING PREFIX
//
// The second connection string has a rule without the right to manage. All names begin with PREFIX; there are 250 queues
// PREFIX-many-000 to PREFIX-many-249 already. admin_features.json says what each feature shows, and one JSON line per
// feature how it went, as for tour.mjs. NODE_EXTRA_CA_CERTS names the authority that signed the server's certificate.

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';

import { ServiceBusAdministrationClient, ServiceBusClient } from '@azure/service-bus';

import { within } from './visit.mjs';

const FEATURE_LIMIT_MS = 120_000;
const [address, listeningAddress, prefix] = process.argv.slice(2);
// No retries: they would hide the first answer of the server.
const options = { retryOptions: { maxRetries: 0 } };
const admin = new ServiceBusAdministrationClient(address, options);

let count = 0;
const newName = (what) => `${prefix}-${what}-${(count += 1)}`;

const part = (whole, keys) => Object.fromEntries(keys.map((key) => [key, whole[key]]));

async function all(items) {
    const found = [];
    for await (const item of items) found.push(item);
    return found;
}

async function refused(promise, expected) {
    let error;
    try {
        await promise;
    } catch (thrown) {
        error = thrown;
    }
    assert.ok(error, 'expected to be refused, and was not');
    for (const [key, value] of Object.entries(expected)) {
        if (value instanceof RegExp) assert.match(String(error[key]), value);
        else assert.equal(error[key], value, `${key} of ${error.name} ${error.code}: ${error.message}`);
    }
}

const FOR_EVER = 'P10675199DT2H48M5.4775807S';

const features = {
    async namespace() {
        const properties = await admin.getNamespaceProperties();
        assert.equal(properties.name, 'sbemulatorns');
        assert.equal(properties.messagingSku, 'Standard');
        assert.ok(properties.createdAt <= new Date());
    },

    async 'queue-defaults'() {
        const queue = await admin.createQueue(newName('queue'));
        const defaults = {
            lockDuration: 'PT1M',
            maxSizeInMegabytes: 1024,
            requiresDuplicateDetection: false,
            requiresSession: false,
            defaultMessageTimeToLive: FOR_EVER,
            deadLetteringOnMessageExpiration: false,
            duplicateDetectionHistoryTimeWindow: 'PT10M',
            maxDeliveryCount: 10,
            enableBatchedOperations: true,
            status: 'Active',
            autoDeleteOnIdle: FOR_EVER,
            enablePartitioning: false,
            forwardTo: undefined,
            availabilityStatus: 'Available',
            maxMessageSizeInKilobytes: 256,
        };
        assert.deepEqual(part(queue, Object.keys(defaults)), defaults);
    },

    async queue() {
        const name = newName('region/queue');
        const chosen = {
            lockDuration: 'PT13S',
            maxSizeInMegabytes: 3072,
            requiresDuplicateDetection: true,
            requiresSession: true,
            defaultMessageTimeToLive: 'P1DT2H3M4.005S',
            deadLetteringOnMessageExpiration: true,
            duplicateDetectionHistoryTimeWindow: 'PT12M',
            maxDeliveryCount: 14,
            enableBatchedOperations: false,
            status: 'ReceiveDisabled',
            autoDeleteOnIdle: 'PT10M',
            userMetadata: 'for <tests> & "more" — with äöü',
            maxMessageSizeInKilobytes: 1024,
        };
        const created = await admin.createQueue(name, chosen);
        assert.equal(created.name, name);
        assert.deepEqual(part(created, Object.keys(chosen)), chosen);
        const queue = await admin.getQueue(name);
        assert.equal(queue.name, name);
        assert.deepEqual(part(queue, Object.keys(chosen)), chosen);
        queue.maxDeliveryCount = 15;
        queue.lockDuration = 'PT15S';
        queue.status = 'Active';
        const updated = await admin.updateQueue(queue);
        assert.deepEqual([updated.maxDeliveryCount, updated.lockDuration, updated.status], [15, 'PT15S', 'Active']);
        assert.equal((await admin.getQueue(name)).maxDeliveryCount, 15);
        await admin.deleteQueue(name);
        assert.equal(await admin.queueExists(name), false);
    },

    async topic() {
        const name = newName('topic');
        const chosen = {
            defaultMessageTimeToLive: 'PT11M',
            maxSizeInMegabytes: 2048,
            requiresDuplicateDetection: true,
            duplicateDetectionHistoryTimeWindow: 'PT12M',
            enableBatchedOperations: false,
            status: 'SendDisabled',
            supportOrdering: true,
            autoDeleteOnIdle: 'PT10M',
            userMetadata: 'a topic',
        };
        const created = await admin.createTopic(name, chosen);
        assert.equal(created.name, name);
        assert.deepEqual(part(created, Object.keys(chosen)), chosen);
        const topic = await admin.getTopic(name);
        assert.deepEqual(part(topic, Object.keys(chosen)), chosen);
        topic.userMetadata = 'changed';
        assert.equal((await admin.updateTopic(topic)).userMetadata, 'changed');
        await admin.createSubscription(name, 'all');
        await admin.deleteTopic(name);
        assert.equal(await admin.topicExists(name), false);
        assert.equal(await admin.subscriptionExists(name, 'all'), false);
    },

    async subscription() {
        const topic = newName('topic');
        await admin.createTopic(topic);
        const chosen = {
            lockDuration: 'PT13S',
            requiresSession: true,
            defaultMessageTimeToLive: 'PT11M',
            deadLetteringOnMessageExpiration: true,
            deadLetteringOnFilterEvaluationExceptions: false,
            maxDeliveryCount: 14,
            enableBatchedOperations: false,
            status: 'ReceiveDisabled',
            userMetadata: 'a subscription',
            autoDeleteOnIdle: 'PT10M',
        };
        const created = await admin.createSubscription(topic, 'all', chosen);
        assert.deepEqual([created.topicName, created.subscriptionName], [topic, 'all']);
        assert.deepEqual(part(created, Object.keys(chosen)), chosen);
        const subscription = await admin.getSubscription(topic, 'all');
        assert.deepEqual(part(subscription, Object.keys(chosen)), chosen);
        assert.deepEqual([subscription.topicName, subscription.subscriptionName], [topic, 'all']);
        subscription.maxDeliveryCount = 15;
        assert.equal((await admin.updateSubscription(subscription)).maxDeliveryCount, 15);
        const [listed] = await all(admin.listSubscriptions(topic));
        assert.deepEqual([listed.topicName, listed.subscriptionName, listed.maxDeliveryCount], [topic, 'all', 15]);
        await admin.deleteSubscription(topic, 'all');
        assert.equal(await admin.subscriptionExists(topic, 'all'), false);
    },

    async 'default-rule'() {
        const topic = newName('topic');
        await admin.createTopic(topic);
        const defaultRuleOptions = { name: 'mine', filter: { sqlExpression: 'n = 1' } };
        await admin.createSubscription(topic, 'some', { defaultRuleOptions });
        const rules = await all(admin.listRules(topic, 'some'));
        assert.deepEqual(rules.map((rule) => rule.name), ['mine']);
        assert.equal(rules[0].filter.sqlExpression, 'n = 1');
    },

    async rules() {
        const topic = newName('topic');
        await admin.createTopic(topic);
        await admin.createSubscription(topic, 'all');
        const [everything] = await all(admin.listRules(topic, 'all'));
        assert.equal(everything.name, '$Default');
        assert.equal(everything.filter.sqlExpression, '1=1');
        const values = {
            text: 'it\'s <a> & "b" ü',
            int: 5,
            long: 2 ** 40,
            double: 1.5,
            yes: true,
            no: false,
            date: new Date('2020-07-05T11:12:13.000Z'),
        };
        const parameters = Object.fromEntries(Object.entries(values).map(([key, value]) => [`@${key}`, value]));
        const filter = { sqlExpression: 'a = @text AND b > @int', sqlParameters: parameters };
        const action = { sqlExpression: 'SET x = @double', sqlParameters: parameters };
        await admin.createRule(topic, 'all', 'typed', filter, action);
        const typed = await admin.getRule(topic, 'all', 'typed');
        assert.equal(typed.name, 'typed');
        assert.equal(typed.filter.sqlExpression, filter.sqlExpression);
        assert.deepEqual(typed.filter.sqlParameters, parameters);
        assert.equal(typed.action.sqlExpression, action.sqlExpression);
        assert.deepEqual(typed.action.sqlParameters, parameters);
        const correlation = {
            correlationId: 'c',
            messageId: 'm',
            to: 't',
            replyTo: 'r',
            subject: 'l',
            sessionId: 's',
            replyToSessionId: 'rs',
            contentType: 'text/plain',
            applicationProperties: values,
        };
        await admin.createRule(topic, 'all', 'correlation', correlation);
        const fetched = await admin.getRule(topic, 'all', 'correlation');
        assert.deepEqual(part(fetched.filter, Object.keys(correlation)), correlation);
        fetched.filter = { sqlExpression: 'n = 2' };
        fetched.action = { sqlExpression: 'REMOVE n' };
        await admin.updateRule(topic, 'all', fetched);
        const updated = await admin.getRule(topic, 'all', 'correlation');
        assert.deepEqual([updated.filter.sqlExpression, updated.action.sqlExpression], ['n = 2', 'REMOVE n']);
        await admin.deleteRule(topic, 'all', '$Default');
        assert.deepEqual(
            (await all(admin.listRules(topic, 'all'))).map((rule) => rule.name),
            ['correlation', 'typed'],
        );
        assert.equal(await admin.ruleExists(topic, 'all', '$Default'), false);
    },

    async forwarding() {
        const [source, target] = [newName('source'), newName('target')];
        await admin.createQueue(target);
        const queue = await admin.createQueue(source, { forwardTo: target, forwardDeadLetteredMessagesTo: target });
        assert.match(queue.forwardTo, new RegExp(`^sb://localhost:\\d+/${target}$`));
        assert.equal(queue.forwardDeadLetteredMessagesTo, queue.forwardTo);
        assert.equal((await admin.updateQueue(queue)).forwardTo, queue.forwardTo);
    },

    async 'authorization-rules'() {
        const name = newName('queue');
        const authorizationRules = [
            {
                claimType: 'SharedAccessKey',
                keyName: 'all',
                accessRights: ['Listen', 'Manage', 'Send'],
                primaryKey: 'YWxs',
                secondaryKey: 'YWxsMg==',
            },
        ];
        await admin.createQueue(name, { authorizationRules });
        const [rule] = (await admin.getQueue(name)).authorizationRules;
        rule.accessRights.sort();
        assert.deepEqual(part(rule, Object.keys(authorizationRules[0])), authorizationRules[0]);
        assert.equal((await admin.updateQueue(await admin.getQueue(name))).authorizationRules[0].primaryKey, 'YWxs');
    },

    async lists() {
        const names = (await all(admin.listQueues())).map((queue) => queue.name);
        const expected = [...Array(250).keys()].map((number) => `${prefix}-many-${String(number).padStart(3, '0')}`);
        assert.deepEqual(names.filter((name) => name.startsWith(`${prefix}-many-`)), expected);
        const counted = (await all(admin.listQueuesRuntimeProperties())).map((queue) => queue.name);
        assert.deepEqual(counted, names);
        const topic = newName('topic');
        await admin.createTopic(topic);
        assert.ok((await all(admin.listTopics())).some((one) => one.name === topic));
        assert.ok((await all(admin.listTopicsRuntimeProperties())).some((one) => one.name === topic));
        assert.deepEqual(await all(admin.listSubscriptions(topic)), []);
    },

    async pages() {
        const sizes = [];
        let token;
        for await (const page of admin.listQueues().byPage({ maxPageSize: 40 })) {
            sizes.push(page.length);
            token = page.continuationToken;
            if (sizes.length === 2) break;
        }
        assert.deepEqual(sizes, [40, 40]);
        const everything = (await all(admin.listQueues())).map((queue) => queue.name);
        const rest = [];
        for await (const page of admin.listQueues().byPage({ maxPageSize: 40, continuationToken: token })) {
            rest.push(...page.map((queue) => queue.name));
        }
        assert.deepEqual(rest, everything.slice(80));
    },

    async counts() {
        const [queue, topic] = [newName('queue'), newName('topic')];
        await admin.createQueue(queue);
        await admin.createTopic(topic);
        await admin.createSubscription(topic, 'all');
        const client = new ServiceBusClient(address, options);
        try {
            const sender = client.createSender(queue);
            await sender.sendMessages([{ body: 'one' }, { body: 'two' }]);
            await sender.scheduleMessages({ body: 'later' }, new Date(Date.now() + 3_600_000));
            await client.createSender(topic).sendMessages({ body: 'one' });
        } finally {
            await client.close();
        }
        const counts = await admin.getQueueRuntimeProperties(queue);
        assert.deepEqual(
            part(counts, ['totalMessageCount', 'activeMessageCount', 'scheduledMessageCount', 'deadLetterMessageCount']),
            { totalMessageCount: 3, activeMessageCount: 2, scheduledMessageCount: 1, deadLetterMessageCount: 0 },
        );
        assert.ok(counts.sizeInBytes > 0);
        assert.ok(counts.createdAt <= counts.accessedAt);
        assert.equal((await admin.getTopicRuntimeProperties(topic)).subscriptionCount, 1);
        assert.equal((await admin.getSubscriptionRuntimeProperties(topic, 'all')).activeMessageCount, 1);
        assert.equal((await all(admin.listSubscriptionsRuntimeProperties(topic)))[0].totalMessageCount, 1);
    },

    async exists() {
        const [queue, topic] = [newName('queue'), newName('topic')];
        await admin.createQueue(queue);
        await admin.createTopic(topic);
        await admin.createSubscription(topic, 'all');
        assert.deepEqual(
            await Promise.all([
                admin.queueExists(queue),
                admin.queueExists('missing'),
                admin.topicExists(topic),
                admin.topicExists('missing'),
                admin.subscriptionExists(topic, 'all'),
                admin.subscriptionExists(topic, 'missing'),
                admin.ruleExists(topic, 'all', '$Default'),
                admin.ruleExists(topic, 'all', 'missing'),
            ]),
            [true, false, true, false, true, false, true, false],
        );
    },

    async missing() {
        const topic = newName('topic');
        await admin.createTopic(topic);
        await refused(admin.getQueue('missing'), { code: 'MessageEntityNotFoundError' });
        await refused(admin.getTopic('missing'), { code: 'MessageEntityNotFoundError' });
        await refused(admin.getSubscription(topic, 'missing'), { code: 'MessageEntityNotFoundError' });
        await refused(admin.getQueueRuntimeProperties('missing'), { code: 'MessageEntityNotFoundError' });
        const gone = { code: 'MessageEntityNotFoundError', statusCode: 404 };
        await refused(admin.deleteQueue('missing'), gone);
        await refused(admin.deleteTopic('missing'), gone);
        await refused(admin.deleteSubscription(topic, 'missing'), gone);
        await refused(admin.deleteRule(topic, 'missing', 'missing'), gone);
        await refused(admin.createSubscription('missing', 'all'), gone);
        const queue = await admin.createQueue(newName('queue'));
        await admin.deleteQueue(queue.name);
        await refused(admin.updateQueue(queue), gone);
    },

    async conflict() {
        const [queue, topic] = [newName('queue'), newName('topic')];
        await admin.createQueue(queue);
        await admin.createTopic(topic);
        await admin.createSubscription(topic, 'all');
        const exists = { code: 'MessageEntityAlreadyExistsError', statusCode: 409 };
        await refused(admin.createQueue(queue), exists);
        await refused(admin.createTopic(queue), exists);
        await refused(admin.createSubscription(topic, 'all'), exists);
        await refused(admin.createRule(topic, 'all', '$Default', { sqlExpression: '1=1' }), exists);
    },

    async 'bad-values'() {
        const name = newName('queue');
        const bad = { statusCode: 400 };
        await refused(admin.createQueue(name, { lockDuration: 'P25D' }), { ...bad, message: /LockDuration is P25D/ });
        await refused(admin.createQueue(name, { maxDeliveryCount: 0 }), { ...bad, message: /MaxDeliveryCount is 0/ });
        await refused(admin.createQueue(`${name}$`), { ...bad, message: /Name/ });
        await refused(admin.createQueue(name, { lockDuration: 'soon' }), { ...bad, message: /LockDuration is 'soon'/ });
        const queue = await admin.createQueue(name);
        queue.requiresSession = true;
        await refused(admin.updateQueue(queue), { ...bad, message: /RequiresSession property/ });
    },

    async unauthorized() {
        const stranger = new ServiceBusAdministrationClient(
            address.replace(/SharedAccessKey=[^;]*/, 'SharedAccessKey=wrong'),
            options,
        );
        await refused(stranger.getNamespaceProperties(), { code: 'UnauthorizedRequestError', statusCode: 401 });
        await refused(stranger.createQueue('refused'), { code: 'UnauthorizedRequestError', statusCode: 401 });
        const listener = new ServiceBusAdministrationClient(listeningAddress, options);
        await refused(listener.createQueue('refused'), { statusCode: 401, message: /'Manage' claim/ });
        await refused(all(listener.listQueues()), { statusCode: 401 });
        assert.equal(await admin.queueExists('refused'), false);
    },
};

const listed = JSON.parse(await readFile(new URL('admin_features.json', import.meta.url), 'utf8'));
assert.deepEqual(Object.keys(features).sort(), Object.keys(listed).sort(), 'admin_features.json lists other features');
for (const [feature, show] of Object.entries(features)) {
    let report = { feature, ok: true };
    try {
        await within(FEATURE_LIMIT_MS, show(), 'the feature');
    } catch (surprise) {
        report = { feature, ok: false, surprise: surprise?.stack ?? String(surprise) };
    }
    process.stdout.write(JSON.stringify(report) + '\n');
}
