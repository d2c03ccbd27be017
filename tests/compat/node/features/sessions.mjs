// Features of sessions: one receiver at a time, its messages in order, and a state beside them.

import assert from 'node:assert/strict';

import { bodies, delay, inMs, refused, SILENCE, SOON_MS, until } from '../visit.mjs';

const NO_RENEWAL = { maxAutoLockRenewalDurationInMs: 0 };
// How long the server is told to wait for a session. The client gives up by itself after a minute.
const NEXT_SESSION = { retryOptions: { maxRetries: 0, timeoutInMs: 1_500 } };
const GIVEN_UP_BY_CLIENT = /due to operation timeout|within allocated time/;

const inSession = (sessionId, ...texts) => texts.map((body) => ({ body, sessionId }));

async function acceptSession(visit) {
    await visit.sender.sendMessages([...inSession('red', 'r1', 'r2'), ...inSession('blue', 'b1')]);
    const before = Date.now();
    const red = await visit.client.acceptSession(visit.queue, 'red');
    assert.equal(red.sessionId, 'red');
    const lockMs = visit.expectMinuteLock(red.sessionLockedUntilUtc, before);
    const taken = await visit.takeAndComplete(red, 2);
    assert.deepEqual(bodies(taken), ['r1', 'r2']);
    assert.deepEqual(taken.map((message) => message.sessionId), ['red', 'red']);
    assert.deepEqual(await red.receiveMessages(1, SILENCE), [], 'the other session is not its own');
    assert.deepEqual(bodies(await visit.peekAll()), ['b1']);
    return { lockMs };
}

// The messages of two sessions, sent alternately, arrive in the order of their session.
async function sessionOrder(visit) {
    const numbers = Array.from({ length: 50 }, (_, body) => body);
    await visit.sender.sendMessages(numbers.map((body) => ({ body, sessionId: body % 2 ? 'odd' : 'even' })));
    const receivers = await Promise.all(['odd', 'even'].map((id) => visit.client.acceptSession(visit.queue, id)));
    const [odd, even] = await Promise.all(receivers.map((receiver) => visit.takeAndComplete(receiver, 25)));
    assert.deepEqual(bodies(odd), numbers.filter((number) => number % 2));
    assert.deepEqual(bodies(even), numbers.filter((number) => !(number % 2)));
    await visit.expectEmpty();
    return { count: odd.length + even.length };
}

async function acceptNextSession(visit) {
    await visit.sender.sendMessages([...inSession('red', 'r1'), ...inSession('blue', 'b1')]);
    const one = await visit.client.acceptNextSession(visit.queue);
    const other = await visit.client.acceptNextSession(visit.queue);
    const ids = [one.sessionId, other.sessionId];
    assert.deepEqual([...ids].sort(), ['blue', 'red']);
    for (const receiver of [one, other]) {
        const [message] = await visit.takeAndComplete(receiver);
        assert.equal(message.sessionId, receiver.sessionId);
    }
    return { ids };
}

// The session that is waited for comes with its first message.
async function nextSessionWaits(visit) {
    const waiting = visit.client.acceptNextSession(visit.queue);
    await delay(200);
    await visit.sender.sendMessages(inSession('late', 'l1'));
    const receiver = await waiting;
    assert.equal(receiver.sessionId, 'late');
    assert.deepEqual(bodies(await visit.takeAndComplete(receiver)), ['l1']);
    return { id: receiver.sessionId };
}

async function nextSessionTimeout(visit) {
    const client = visit.connect(NEXT_SESSION);
    const seen = await refused(client.acceptNextSession(visit.queue), 'ServiceTimeout');
    // The client's own timer has the same code: the answer of the server has to be seen.
    assert.doesNotMatch(seen.message, GIVEN_UP_BY_CLIENT);
    return seen;
}

async function sessionCannotBeLocked(visit) {
    const holder = await visit.client.acceptSession(visit.queue, 'red');
    const other = visit.connect();
    const seen = await refused(other.acceptSession(visit.queue, 'red'), 'SessionCannotBeLocked');
    // Closing gives the session back at once.
    await holder.close();
    const receiver = await other.acceptSession(visit.queue, 'red');
    assert.equal(receiver.sessionId, 'red');
    return seen;
}

// What a closed receiver had not settled is at the head of its session for the next one.
async function sessionHandover(visit) {
    await visit.sender.sendMessages(inSession('red', 'r1', 'r2', 'r3'));
    const holder = await visit.client.acceptSession(visit.queue, 'red');
    const [first] = await visit.take(holder, 2);
    await holder.completeMessage(first);
    await holder.close();
    const next = await visit.client.acceptNextSession(visit.queue);
    assert.equal(next.sessionId, 'red');
    const taken = await visit.takeAndComplete(next, 2);
    assert.deepEqual(bodies(taken), ['r2', 'r3']);
    // Closing a session is no failed delivery, letting its lock end is one.
    assert.deepEqual(taken.map((message) => message.deliveryCount), [0, 0]);
    await visit.expectEmpty();
    return { id: next.sessionId };
}

async function sessionState(visit) {
    const receiver = await visit.client.acceptSession(visit.queue, 'red');
    assert.equal((await receiver.getSessionState()) ?? null, null, 'a new session has no state');
    const state = { step: 3, done: ['a', 'b'] };
    await receiver.setSessionState(state);
    assert.deepEqual(await receiver.getSessionState(), state);
    await receiver.setSessionState(Buffer.from([0, 1, 255]));
    assert.deepEqual(await receiver.getSessionState(), Buffer.from([0, 1, 255]));
    await receiver.setSessionState('kept');
    await receiver.close();
    const next = await visit.client.acceptSession(visit.queue, 'red');
    assert.equal(await next.getSessionState(), 'kept');
    await next.setSessionState(null);
    assert.equal(await next.getSessionState(), null);
    return { state };
}

async function renewSessionLock(visit) {
    const receiver = await visit.client.acceptSession(visit.queue, 'red', NO_RENEWAL);
    const before = receiver.sessionLockedUntilUtc;
    await delay(20);
    const renewed = await receiver.renewSessionLock();
    assert.ok(renewed > before, `${renewed.toISOString()} is not after ${before.toISOString()}`);
    assert.equal(receiver.sessionLockedUntilUtc.getTime(), renewed.getTime());
    return { ms: renewed - before };
}

// The queue's locks last 10 s: as long as the receiver has for its message, and the next one for the same.
async function sessionLockLost(visit) {
    await visit.sender.sendMessages(inSession('red', 'r1'));
    const receiver = await visit.client.acceptSession(visit.queue, 'red', NO_RENEWAL);
    const message = await visit.takeOne(receiver);
    await until(() => receiver.isClosed, 'the server detaches the link of the lost session');
    const seen = await refused(receiver.completeMessage(message), 'SessionLockLost');
    const next = await visit.client.acceptSession(visit.queue, 'red');
    const [again] = await visit.takeAndComplete(next);
    assert.deepEqual([again.body, again.deliveryCount], ['r1', 1]);
    return seen;
}

async function sessionSettlement(visit) {
    await visit.sender.sendMessages(inSession('red', 'abandoned', 'deferred', 'dead'));
    const receiver = await visit.client.acceptSession(visit.queue, 'red');
    const [abandoned, deferred, dead] = await visit.take(receiver, 3);
    await receiver.deferMessage(deferred, { colour: 'red' });
    await receiver.deadLetterMessage(dead, { deadLetterReason: 'why', deadLetterErrorDescription: 'how' });
    await receiver.abandonMessage(abandoned, { colour: 'red' });
    const [again] = await visit.takeAndComplete(receiver);
    assert.deepEqual([again.body, again.deliveryCount, again.applicationProperties.colour], ['abandoned', 1, 'red']);
    const [byNumber] = await receiver.receiveDeferredMessages(deferred.sequenceNumber);
    assert.deepEqual([byNumber.body, byNumber.applicationProperties.colour], ['deferred', 'red']);
    await receiver.completeMessage(byNumber);
    // The dead-letter queue of a queue with sessions has none.
    const [fromDeadLetters] = await visit.takeAndComplete(visit.receiver({ subQueueType: 'deadLetter' }));
    assert.deepEqual([fromDeadLetters.body, fromDeadLetters.sessionId], ['dead', 'red']);
    await visit.expectEmpty();
    return { reason: fromDeadLetters.deadLetterReason };
}

async function sessionPeek(visit) {
    await visit.sender.sendMessages([...inSession('red', 'r1'), ...inSession('blue', 'b1'), ...inSession('red', 'r2')]);
    const receiver = await visit.client.acceptSession(visit.queue, 'red');
    assert.deepEqual(bodies(await receiver.peekMessages(10)), ['r1', 'r2']);
    assert.deepEqual(bodies(await visit.peekAll()), ['r1', 'b1', 'r2']);
    return { own: ['r1', 'r2'] };
}

async function sessionReceiveAndDelete(visit) {
    await visit.sender.sendMessages(inSession('red', 'r1', 'r2'));
    const receiver = await visit.client.acceptSession(visit.queue, 'red', { receiveMode: 'receiveAndDelete' });
    assert.deepEqual(bodies(await visit.take(receiver, 2)), ['r1', 'r2']);
    await visit.expectEmpty();
    return { id: receiver.sessionId };
}

async function sessionSchedule(visit) {
    await visit.sender.scheduleMessages(inSession('red', 'r1'), inMs(SOON_MS));
    const receiver = await visit.client.acceptNextSession(visit.queue);
    assert.equal(receiver.sessionId, 'red');
    assert.deepEqual(bodies(await visit.takeAndComplete(receiver)), ['r1']);
    return { id: receiver.sessionId };
}

export const features = {
    'accept-session': acceptSession,
    'session-order': sessionOrder,
    'accept-next-session': acceptNextSession,
    'next-session-waits': nextSessionWaits,
    'next-session-timeout': nextSessionTimeout,
    'session-cannot-be-locked': sessionCannotBeLocked,
    'session-handover': sessionHandover,
    'session-state': sessionState,
    'renew-session-lock': renewSessionLock,
    'session-lock-lost': sessionLockLost,
    'session-settlement': sessionSettlement,
    'session-peek': sessionPeek,
    'session-receive-and-delete': sessionReceiveAndDelete,
    'session-schedule': sessionSchedule,
};
