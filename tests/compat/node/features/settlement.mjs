// Features of peek-lock: what can be done with a message that is locked, and what happens when it is not done.

import assert from 'node:assert/strict';

import { bodies, delay, refused, SILENCE } from '../visit.mjs';

const NO_RENEWAL = { maxAutoLockRenewalDurationInMs: 0 };
const ORIGINAL = { kept: 'as sent', colour: 'none' };
const MODIFICATIONS = { colour: 'red', weight: 3, ratio: 0.5, isHeavy: true };
const MODIFIED = { ...ORIGINAL, ...MODIFICATIONS };

// A locked message with properties of its own.
async function sendAndTake(visit, receiver, body = 'hello') {
    await visit.sender.sendMessages({ body, messageId: `id of ${body}`, applicationProperties: ORIGINAL });
    return visit.takeOne(receiver);
}

async function complete(visit) {
    const receiver = visit.receiver();
    const message = await sendAndTake(visit, receiver);
    await receiver.completeMessage(message);
    await visit.expectEmpty();
    await assert.rejects(receiver.completeMessage(message), /already settled/i);
    return { deliveryCount: message.deliveryCount };
}

async function abandon(visit) {
    const receiver = visit.receiver();
    const message = await sendAndTake(visit, receiver);
    await visit.sender.sendMessages({ body: 'behind it' });
    await receiver.abandonMessage(message, MODIFICATIONS);
    const [again, next] = await visit.takeAndComplete(receiver, 2);
    assert.deepEqual([again.body, next.body], ['hello', 'behind it'], 'it returns to the head of the queue');
    assert.equal(again.messageId, message.messageId);
    assert.equal(again.deliveryCount, 1);
    assert.ok(again.sequenceNumber.equals(message.sequenceNumber));
    assert.notEqual(again.lockToken, message.lockToken);
    assert.deepEqual(again.applicationProperties, MODIFIED);
    return again.applicationProperties;
}

async function defer(visit) {
    const receiver = visit.receiver();
    const message = await sendAndTake(visit, receiver);
    await receiver.deferMessage(message, MODIFICATIONS);
    assert.deepEqual(await receiver.receiveMessages(1, SILENCE), []);
    const [peeked] = await visit.peekAll();
    assert.equal(peeked.state, 'deferred');
    const [deferred] = await receiver.receiveDeferredMessages(message.sequenceNumber);
    assert.equal(deferred.body, 'hello');
    assert.equal(deferred.state, 'deferred');
    assert.deepEqual(deferred.applicationProperties, MODIFIED);
    // Deferring counts as a delivery: the tests of the SDK insist on it against the cloud service.
    assert.equal(deferred.deliveryCount, 1);
    await receiver.completeMessage(deferred);
    await visit.expectEmpty();
    return refused(receiver.receiveDeferredMessages([message.sequenceNumber]), 'MessageNotFound');
}

// A deferred message has no link: the SDK settles it through the management node.
async function deferredSettlement(visit) {
    const receiver = visit.receiver();
    const message = await sendAndTake(visit, receiver);
    const number = message.sequenceNumber;
    await receiver.deferMessage(message);
    let [deferred] = await receiver.receiveDeferredMessages(number);
    const renewed = await receiver.renewMessageLock(deferred);
    assert.ok(renewed.getTime() > Date.now());

    await receiver.abandonMessage(deferred, MODIFICATIONS);
    [deferred] = await receiver.receiveDeferredMessages(number);
    assert.deepEqual([deferred.state, deferred.deliveryCount], ['deferred', 2], 'it is still deferred');
    assert.deepEqual(deferred.applicationProperties, MODIFIED);

    await receiver.deferMessage(deferred, { colour: 'blue' });
    [deferred] = await receiver.receiveDeferredMessages(number);
    assert.equal(deferred.applicationProperties.colour, 'blue');

    const why = { deadLetterReason: 'why', deadLetterErrorDescription: 'how' };
    await receiver.deadLetterMessage(deferred, { ...why, extra: 1 });
    await visit.expectEmpty();
    const [dead] = await visit.takeAndComplete(visit.receiver({ subQueueType: 'deadLetter' }));
    assert.deepEqual([dead.deadLetterReason, dead.deadLetterErrorDescription], ['why', 'how']);
    assert.equal(dead.applicationProperties.extra, 1);
    return { deliveryCount: dead.deliveryCount };
}

async function deferredReceiveAndDelete(visit) {
    const receiver = visit.receiver();
    const message = await sendAndTake(visit, receiver);
    await receiver.deferMessage(message);
    const deleting = visit.receiver({ receiveMode: 'receiveAndDelete' });
    const taken = await deleting.receiveDeferredMessages([message.sequenceNumber]);
    assert.deepEqual(bodies(taken), ['hello']);
    await visit.expectEmpty();
    return { count: taken.length };
}

async function deadLetter(visit) {
    const receiver = visit.receiver();
    const message = await sendAndTake(visit, receiver);
    await receiver.deadLetterMessage(message, {
        deadLetterReason: 'unreadable',
        deadLetterErrorDescription: 'no such colour',
        ...MODIFICATIONS,
    });
    await visit.expectEmpty();
    const deadLetters = visit.receiver({ subQueueType: 'deadLetter' });
    const dead = await visit.takeOne(deadLetters);
    assert.equal(dead.body, 'hello');
    assert.equal(dead.messageId, message.messageId);
    assert.deepEqual([dead.deadLetterReason, dead.deadLetterErrorDescription], ['unreadable', 'no such colour']);
    assert.deepEqual(dead.applicationProperties, {
        ...MODIFIED,
        DeadLetterReason: 'unreadable',
        DeadLetterErrorDescription: 'no such colour',
    });
    assert.equal(dead.deliveryCount, 0, 'being dead-lettered is not a failed delivery');
    await deadLetters.completeMessage(dead);
    await visit.expectEmpty({ subQueueType: 'deadLetter' });
    return { reason: dead.deadLetterReason };
}

async function deadLetterTwice(visit) {
    const receiver = visit.receiver();
    await receiver.deadLetterMessage(await sendAndTake(visit, receiver));
    const deadLetters = visit.receiver({ subQueueType: 'deadLetter' });
    const seen = await refused(deadLetters.deadLetterMessage(await visit.takeOne(deadLetters)), 'GeneralError');
    assert.deepEqual(bodies(await visit.peekAll({ subQueueType: 'deadLetter' })), ['hello'], 'it stays where it is');
    return seen;
}

async function maxDeliveryCount(visit) {
    const receiver = visit.receiver();
    await receiver.abandonMessage(await sendAndTake(visit, receiver));
    const last = await visit.takeOne(receiver);
    assert.equal(last.deliveryCount, 1);
    await receiver.abandonMessage(last);
    const [dead] = await visit.takeAndComplete(visit.receiver({ subQueueType: 'deadLetter' }));
    assert.equal(dead.deadLetterReason, 'MaxDeliveryCountExceeded');
    await visit.expectEmpty();
    return { description: dead.deadLetterErrorDescription };
}

async function renewLock(visit) {
    const receiver = visit.receiver(NO_RENEWAL);
    const message = await sendAndTake(visit, receiver);
    const before = message.lockedUntilUtc;
    await delay(20);
    const renewed = await receiver.renewMessageLock(message);
    assert.ok(renewed > before, `${renewed.toISOString()} is not after ${before.toISOString()}`);
    assert.equal(message.lockedUntilUtc.getTime(), renewed.getTime());
    await receiver.completeMessage(message);
    return { ms: renewed - before, ...(await refused(receiver.renewMessageLock(message), 'MessageLockLost')) };
}

// The queue's locks last 10 s; the SDK renews them after the first half, which leaves 5 s for a slow machine.
async function autoRenewal(visit) {
    const receiver = visit.receiver();
    const message = await sendAndTake(visit, receiver);
    const before = message.lockedUntilUtc;
    await delay(Math.max(0, before - Date.now()) + 500);
    assert.ok(message.lockedUntilUtc > before, 'the SDK did not renew the lock');
    await receiver.completeMessage(message);
    await visit.expectEmpty();
    return { ms: message.lockedUntilUtc - before };
}

// The queue's locks last 1 s.
async function lockLost(visit) {
    const receiver = visit.receiver(NO_RENEWAL);
    const message = await sendAndTake(visit, receiver);
    const again = await visit.takeOne(visit.receiver(NO_RENEWAL));
    assert.equal(again.deliveryCount, 1);
    assert.notEqual(again.lockToken, message.lockToken);
    const seen = await refused(receiver.completeMessage(message), 'MessageLockLost');
    assert.deepEqual(bodies(await visit.peekAll()), ['hello']);
    return seen;
}

// The lock outlives the link: the SDK then settles through the management node.
async function settleAfterClose(visit) {
    const receiver = visit.receiver();
    const kept = visit.receiver();
    const abandoned = await sendAndTake(visit, receiver, 'abandoned');
    const completed = await sendAndTake(visit, receiver, 'completed');
    await receiver.close();
    assert.ok(receiver.isClosed);
    await kept.completeMessage(completed);
    await kept.abandonMessage(abandoned, MODIFICATIONS);
    const again = await visit.takeOne(kept);
    assert.deepEqual([again.body, again.deliveryCount], ['abandoned', 1]);
    assert.deepEqual(again.applicationProperties, MODIFIED);
    await kept.completeMessage(again);
    await visit.expectEmpty();
    return { deliveryCount: again.deliveryCount };
}

export const features = {
    complete,
    abandon,
    defer,
    'deferred-settlement': deferredSettlement,
    'deferred-receive-and-delete': deferredReceiveAndDelete,
    'dead-letter': deadLetter,
    'dead-letter-twice': deadLetterTwice,
    'max-delivery-count': maxDeliveryCount,
    'renew-lock': renewLock,
    'auto-renewal': autoRenewal,
    'lock-lost': lockLost,
    'settle-after-close': settleAfterClose,
};
