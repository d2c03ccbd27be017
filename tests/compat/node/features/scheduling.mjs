// Features of messages that come later.

import assert from 'node:assert/strict';

import { bodies, FAR_MS, inMs, refused, SOON_MS } from '../visit.mjs';

// How much later than due the service enqueued the message: on a slow machine any time.
function assertNotEarly(message, due) {
    const lateMs = message.enqueuedTimeUtc.getTime() - due.getTime();
    assert.ok(lateMs >= 0, `enqueued ${-lateMs} ms before it was due`);
    return lateMs;
}

async function schedule(visit) {
    const far = inMs(FAR_MS);
    const sequenceNumbers = await visit.sender.scheduleMessages([{ body: 'a' }, { body: 'b' }], far);
    assert.equal(sequenceNumbers.length, 2);
    const peeked = await visit.peekAll();
    assert.deepEqual(bodies(peeked), ['a', 'b']);
    assert.deepEqual(peeked.map((message) => message.state), ['scheduled', 'scheduled']);
    assert.deepEqual(peeked.map((message) => message.sequenceNumber.toString()), sequenceNumbers.map(String));
    assert.equal(peeked[0].scheduledEnqueueTimeUtc.getTime(), far.getTime());
    await visit.sender.cancelScheduledMessages(sequenceNumbers);
    const due = inMs(SOON_MS);
    await visit.sender.scheduleMessages([{ body: 'c' }, { body: 'd' }], due);
    const taken = await visit.takeAndComplete(visit.receiver(), 2);
    assert.deepEqual(bodies(taken), ['c', 'd']);
    await visit.expectEmpty();
    return { lateMs: taken.map((message) => assertNotEarly(message, due)) };
}

async function scheduleByProperty(visit) {
    const receiver = visit.receiver();
    await visit.sender.sendMessages({ body: 'far', scheduledEnqueueTimeUtc: inMs(FAR_MS) });
    await visit.sender.sendMessages({ body: 'now' });
    assert.deepEqual(bodies(await visit.takeAndComplete(receiver)), ['now']);
    const [far] = await visit.peekAll();
    assert.deepEqual([far.body, far.state], ['far', 'scheduled']);
    const due = inMs(SOON_MS);
    await visit.sender.sendMessages({ body: 'soon', scheduledEnqueueTimeUtc: due });
    const [soon] = await visit.takeAndComplete(receiver);
    assert.equal(soon.body, 'soon');
    return { lateMs: assertNotEarly(soon, due) };
}

async function cancelScheduled(visit) {
    const [kept, first, second] = await visit.sender.scheduleMessages(
        [{ body: 'kept' }, { body: 'first' }, { body: 'second' }],
        inMs(FAR_MS),
    );
    await visit.sender.cancelScheduledMessages([first, second]);
    assert.deepEqual(bodies(await visit.peekAll()), ['kept']);
    await visit.sender.cancelScheduledMessages(kept);
    await visit.expectEmpty();
    return refused(visit.sender.cancelScheduledMessages(kept), 'MessageNotFound');
}

export const features = {
    schedule,
    'schedule-by-property': scheduleByProperty,
    'cancel-scheduled': cancelScheduled,
};
