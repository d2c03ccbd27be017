// Features of topics: one send, a copy in every subscription that wants it.

import assert from 'node:assert/strict';

import { bodies, FAR_MS, inMs, PATIENCE, refused, SOON_MS, until } from '../visit.mjs';

const peekAll = (visit, subscription, options) => visit.subscriber(subscription, options).peekMessages(250);

async function publish(visit) {
    await visit.sender.sendMessages({ body: 'a' });
    await visit.sender.sendMessages([{ body: 'b' }, { body: 'c' }]);
    const batch = await visit.sender.createMessageBatch();
    assert.ok(batch.tryAddMessage({ body: 'd' }) && batch.tryAddMessage({ body: 'e' }));
    await visit.sender.sendMessages(batch);
    const locked = await visit.takeAndComplete(visit.subscriber('Inventory'), 5);
    const deleted = await visit.take(visit.subscriber('Dashboard', { receiveMode: 'receiveAndDelete' }), 5);
    for (const copies of [locked, deleted]) {
        assert.deepEqual(bodies(copies), ['a', 'b', 'c', 'd', 'e']);
        assert.deepEqual(copies.map((message) => Number(message.sequenceNumber)), [1, 2, 3, 4, 5]);
    }
    assert.deepEqual(await peekAll(visit, 'Inventory'), []);
    assert.deepEqual(await peekAll(visit, 'Dashboard'), []);
    return { copies: locked.length + deleted.length };
}

// StoreName = 'Store1' is what the Dashboard wants.
async function publishFiltered(visit) {
    const stores = ['Store1', 'Store2', 'Store1'];
    await visit.sender.sendMessages(
        stores.map((StoreName, body) => ({ body, applicationProperties: { StoreName } })),
    );
    assert.deepEqual(bodies(await visit.takeAndComplete(visit.subscriber('Inventory'), 3)), [0, 1, 2]);
    assert.deepEqual(bodies(await visit.takeAndComplete(visit.subscriber('Dashboard'), 2)), [0, 2]);
    assert.deepEqual(await peekAll(visit, 'Dashboard'), []);
    return { stores };
}

async function publishScheduled(visit) {
    const cancelled = await visit.sender.scheduleMessages({ body: 'cancelled' }, inMs(FAR_MS));
    assert.deepEqual(await peekAll(visit, 'Inventory'), []);
    await visit.sender.cancelScheduledMessages(cancelled);
    await refused(visit.sender.cancelScheduledMessages(cancelled), 'MessageNotFound');
    const due = inMs(SOON_MS);
    const kept = await visit.sender.scheduleMessages({ body: 'kept' }, due);
    for (const name of ['Inventory', 'Dashboard']) {
        const [copy] = await visit.takeAndComplete(visit.subscriber(name));
        assert.equal(copy.body, 'kept');
        assert.ok(copy.enqueuedTimeUtc >= due);
        assert.deepEqual(await peekAll(visit, name), []);
    }
    return refused(visit.sender.cancelScheduledMessages(kept), 'MessageNotFound');
}

async function publishDuplicates(visit) {
    await visit.sender.sendMessages({ body: 'first', messageId: 'one' });
    await visit.sender.sendMessages([{ body: 'again', messageId: 'one' }]);
    await visit.sender.sendMessages({ body: 'second', messageId: 'two' });
    for (const name of ['Inventory', 'Dashboard']) {
        assert.deepEqual(bodies(await visit.takeAndComplete(visit.subscriber(name), 2)), ['first', 'second']);
        assert.deepEqual(await peekAll(visit, name), []);
    }
    return { copies: 4 };
}

async function subscriptionSettlement(visit) {
    await visit.sender.sendMessages(['complete', 'abandon', 'defer', 'dead'].map((body) => ({ body })));
    const receiver = visit.subscriber('Inventory');
    const [complete, abandon, defer, dead] = await visit.take(receiver, 4);
    const before = complete.lockedUntilUtc;
    assert.ok((await receiver.renewMessageLock(complete)) >= before);
    await receiver.completeMessage(complete);
    await receiver.abandonMessage(abandon, { tried: true });
    await receiver.deferMessage(defer);
    await receiver.deadLetterMessage(dead, { deadLetterReason: 'why', deadLetterErrorDescription: 'because' });
    const [again] = await visit.takeAndComplete(receiver);
    assert.deepEqual([again.body, again.deliveryCount, again.applicationProperties.tried], ['abandon', 1, true]);
    const [deferred] = await receiver.receiveDeferredMessages([defer.sequenceNumber]);
    assert.equal(deferred.body, 'defer');
    await receiver.completeMessage(deferred);
    const [letter] = await visit.takeAndComplete(visit.subscriber('Inventory', { subQueueType: 'deadLetter' }));
    assert.deepEqual([letter.body, letter.deadLetterReason], ['dead', 'why']);
    assert.deepEqual(await peekAll(visit, 'Inventory'), []);
    assert.equal((await peekAll(visit, 'Dashboard')).length, 4, 'the copies of others stay as they are');
    return { settled: 4 };
}

async function subscriptionSessions(visit) {
    await visit.sender.sendMessages(
        ['red', 'blue', 'red'].map((sessionId, body) => ({ body, sessionId })),
    );
    await visit.sender.sendMessages({ body: 'without' });
    const red = await visit.client.acceptSession(visit.queue, 'Sessions', 'red');
    assert.deepEqual(bodies(await visit.takeAndComplete(red, 2)), [0, 2]);
    await red.setSessionState('done');
    const next = await visit.client.acceptNextSession(visit.queue, 'Sessions');
    assert.equal(next.sessionId, 'blue');
    await red.close();
    const [dead] = await visit.takeAndComplete(visit.subscriber('Sessions', { subQueueType: 'deadLetter' }));
    assert.deepEqual([dead.body, dead.deadLetterReason], ['without', 'Session ID is null']);
    assert.deepEqual(bodies(await visit.takeAndComplete(visit.subscriber('Plain'), 4)), [0, 1, 2, 'without']);
    return { state: 'done' };
}

async function subscriptionStreaming(visit) {
    const came = [];
    const errors = [];
    const subscription = visit.subscriber('Inventory').subscribe({
        processMessage: async (message) => came.push(message.body),
        processError: async (args) => errors.push(args.error),
    });
    await visit.sender.sendMessages(Array.from({ length: 10 }, (_, body) => ({ body })));
    await until(() => came.length === 10, 'ten copies are handled');
    await subscription.close();
    assert.deepEqual(errors, []);
    assert.deepEqual(came, Array.from({ length: 10 }, (_, body) => body));
    assert.deepEqual(await peekAll(visit, 'Inventory'), []);
    return { came };
}

async function topicRefusals(visit) {
    const receiver = visit.client.createReceiver(visit.queue);
    const fromTopic = await refused(receiver.receiveMessages(1, PATIENCE), 'GeneralError');
    assert.match(fromTopic.message, /^InvalidOperationError: .*subscriptions/);
    const sender = visit.client.createSender(`${visit.queue}/Subscriptions/Inventory`);
    const toSubscription = await refused(sender.sendMessages({ body: 'smuggled' }), 'GeneralError');
    assert.match(toSubscription.message, /^InvalidOperationError: .*topic/);
    const missing = visit.subscriber('Missing');
    await refused(missing.receiveMessages(1, PATIENCE), 'MessagingEntityNotFound');
    assert.deepEqual(await peekAll(visit, 'Inventory'), []);
    // The connection is none the worse for it.
    await visit.sender.sendMessages({ body: 'found' });
    assert.deepEqual(bodies(await visit.takeAndComplete(visit.subscriber('Inventory'))), ['found']);
    return { fromTopic: fromTopic.message, toSubscription: toSubscription.message };
}

export const features = {
    publish,
    'publish-filtered': publishFiltered,
    'publish-scheduled': publishScheduled,
    'publish-duplicates': publishDuplicates,
    'subscription-settlement': subscriptionSettlement,
    'subscription-sessions': subscriptionSessions,
    'subscription-streaming': subscriptionStreaming,
    'topic-refusals': topicRefusals,
};
