// Features of messages that come later.

import assert from 'node:assert/strict';

import { bodies, refused } from '../visit.mjs';

const HOUR_MS = 3_600_000;

const inMs = (ms) => new Date(Date.now() + ms);

function assertOnTime(message, due) {
    const lateMs = message.enqueuedTimeUtc.getTime() - due.getTime();
    assert.ok(lateMs >= 0 && lateMs < 1_000, `enqueued ${lateMs} ms after it was due`);
    return lateMs;
}

async function schedule(visit) {
    const due = inMs(700);
    const sequenceNumbers = await visit.sender.scheduleMessages([{ body: 'a' }, { body: 'b' }], due);
    assert.equal(sequenceNumbers.length, 2);
    const peeked = await visit.peekAll();
    assert.deepEqual(bodies(peeked), ['a', 'b']);
    assert.deepEqual(peeked.map((message) => message.state), ['scheduled', 'scheduled']);
    assert.deepEqual(peeked.map((message) => message.sequenceNumber.toString()), sequenceNumbers.map(String));
    assert.equal(peeked[0].scheduledEnqueueTimeUtc.getTime(), due.getTime());
    const taken = await visit.takeAndComplete(visit.receiver(), 2);
    assert.deepEqual(bodies(taken), ['a', 'b']);
    await visit.expectEmpty();
    return { lateMs: assertOnTime(taken[0], due) };
}

async function scheduleByProperty(visit) {
    const due = inMs(700);
    await visit.sender.sendMessages({ body: 'later', scheduledEnqueueTimeUtc: due });
    await visit.sender.sendMessages({ body: 'now' });
    const taken = await visit.takeAndComplete(visit.receiver(), 2);
    assert.deepEqual(bodies(taken), ['now', 'later']);
    return { lateMs: assertOnTime(taken[1], due) };
}

async function cancelScheduled(visit) {
    const [kept, first, second] = await visit.sender.scheduleMessages(
        [{ body: 'kept' }, { body: 'first' }, { body: 'second' }],
        inMs(HOUR_MS),
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
