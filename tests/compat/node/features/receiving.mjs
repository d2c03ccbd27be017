// Features of asking for messages: how many, for how long, and without taking them.

import assert from 'node:assert/strict';

import { bodies, delay, drained, PATIENCE } from '../visit.mjs';

const COUNT = 300;

async function receiveAndDelete(visit) {
    await visit.sender.sendMessages([{ body: 'a' }, { body: 'b' }]);
    const taken = await visit.take(visit.receiver({ receiveMode: 'receiveAndDelete' }), 2);
    assert.deepEqual(bodies(taken), ['a', 'b']);
    assert.equal(taken[0].lockToken, undefined);
    await visit.expectEmpty();
    return { deliveryCount: taken[0].deliveryCount };
}

async function receiveInOrder(visit) {
    const numbers = Array.from({ length: COUNT }, (_, index) => index);
    for (let start = 0; start < COUNT; start += 100) {
        await visit.sender.sendMessages(numbers.slice(start, start + 100).map((body) => ({ body })));
    }
    // All settled at once, so that the answers may come merged.
    assert.deepEqual(bodies(await visit.takeAndComplete(visit.receiver(), COUNT)), numbers);
    await visit.expectEmpty();
    return { count: COUNT };
}

// The SDK takes its credit back at the end of the wait. A server that does not confirm this has its link closed.
async function receiveNothing(visit) {
    const receiver = visit.receiver();
    const waitedMs = await drained(async () => {
        const started = performance.now();
        assert.deepEqual(await receiver.receiveMessages(5, { maxWaitTimeInMs: 300 }), []);
        return Math.round(performance.now() - started);
    });
    assert.ok(waitedMs >= 300, `returned after ${waitedMs} ms`);
    // The credit is gone: what comes now is for whoever asks next.
    await visit.sender.sendMessages({ body: 'later' });
    await delay(50);
    const other = visit.receiver();
    assert.deepEqual(bodies(await visit.takeAndComplete(other)), ['later']);
    // And the link can be used again.
    await visit.sender.sendMessages({ body: 'last' });
    assert.deepEqual(bodies(await visit.takeAndComplete(receiver)), ['last']);
    return { waitedMs };
}

async function receiveFewer(visit) {
    return drained(async () => {
        await visit.sender.sendMessages([{ body: 'a' }, { body: 'b' }]);
        const receiver = visit.receiver();
        const taken = await receiver.receiveMessages(10, PATIENCE);
        assert.deepEqual(bodies(taken), ['a', 'b']);
        await Promise.all(taken.map((message) => receiver.completeMessage(message)));
        await visit.expectEmpty();
        return { count: taken.length };
    });
}

async function receiveWaits(visit) {
    const waiting = visit.takeOne(visit.receiver({ receiveMode: 'receiveAndDelete' }));
    await delay(200);
    await visit.sender.sendMessages({ body: 'at last' });
    const started = performance.now();
    assert.equal((await waiting).body, 'at last');
    return { afterMs: Math.round(performance.now() - started) };
}

async function competingReceivers(visit) {
    await visit.sender.sendMessages(Array.from({ length: 20 }, (_, body) => ({ body })));
    const one = visit.connect().createReceiver(visit.queue);
    const other = visit.connect().createReceiver(visit.queue);
    const taken = await Promise.all([visit.takeAndComplete(one, 10), visit.takeAndComplete(other, 10)]);
    const all = bodies(taken.flat()).sort((left, right) => left - right);
    assert.deepEqual(all, Array.from({ length: 20 }, (_, body) => body));
    return { one: bodies(taken[0]), other: bodies(taken[1]) };
}

async function peek(visit) {
    const receiver = visit.receiver();
    assert.deepEqual(await receiver.peekMessages(10), []);
    await visit.sender.sendMessages(['a', 'b', 'c', 'd'].map((body) => ({ body, applicationProperties: { body } })));
    // Each call goes on where the last one ended.
    const first = await receiver.peekMessages(2);
    const second = await receiver.peekMessages(10);
    assert.deepEqual([bodies(first), bodies(second)], [['a', 'b'], ['c', 'd']]);
    assert.deepEqual(await receiver.peekMessages(10), []);
    const again = await receiver.peekMessages(2, { fromSequenceNumber: first[1].sequenceNumber });
    assert.deepEqual(bodies(again), ['b', 'c']);
    assert.deepEqual(first[0].applicationProperties, { body: 'a' });
    assert.equal(first[0].lockToken, undefined);
    assert.equal(first[0].state, 'active');
    await assert.rejects(receiver.completeMessage(first[0]), 'a peeked message cannot be settled');
    // Peeking takes nothing away, and a locked message is seen too.
    await visit.takeOne(receiver);
    assert.deepEqual(bodies(await visit.peekAll()), ['a', 'b', 'c', 'd']);
    return { sequenceNumbers: [...first, ...second].map((message) => String(message.sequenceNumber)) };
}

export const features = {
    'receive-and-delete': receiveAndDelete,
    'receive-in-order': receiveInOrder,
    'receive-nothing': receiveNothing,
    'receive-fewer': receiveFewer,
    'receive-waits': receiveWaits,
    'competing-receivers': competingReceivers,
    peek,
};
