// What the features need: clients of one queue or topic, and the words to say what is expected of them.

import assert from 'node:assert/strict';
import { setTimeout as delay } from 'node:timers/promises';

import { ServiceBusClient } from '@azure/service-bus';
import Long from 'long';
import WebSocket from 'ws';

import { sdkLog } from './sdk_log.mjs';

// How long a message may take that is known to be there, or to come soon: it comes at once, unless the machine is busy.
const ARRIVAL_LIMIT_MS = 60_000;
// For receiving what must come, or be refused.
export const PATIENCE = { maxWaitTimeInMs: ARRIVAL_LIMIT_MS };
// For receiving what must not come. A busy machine can hide it, but cannot make it come.
export const SILENCE = { maxWaitTimeInMs: 100 };
// How far ahead to schedule what is received afterwards: the feature waits for it.
export const SOON_MS = 700;
// How far ahead to schedule what is cancelled afterwards: no machine is so slow that it becomes due before.
export const FAR_MS = 3_600_000;
// No retries: they would hide the first answer of the server, and many errors count as worth a retry.
const ONE_TRY = { maxRetries: 0, timeoutInMs: 60_000 };
// The SDK takes back its credit at the end of a wait, and closes the link unless the server confirms this within 200 ms. A
// busy machine may be slower, though not every time.
const DRAIN_ATTEMPTS = 10;

export { delay };

// The result of a promise, unless it takes too long.
export async function within(limitMs, promise, what) {
    const aborter = new AbortController();
    const late = delay(limitMs, undefined, { signal: aborter.signal }).then(() => {
        throw new Error(`${what} took longer than ${limitMs} ms`);
    });
    late.catch(() => {});
    try {
        return await Promise.race([promise, late]);
    } finally {
        aborter.abort();
    }
}

// Wait for something that happens behind the SDK's back, and is described in words or by a function.
export async function until(condition, what) {
    const deadline = performance.now() + ARRIVAL_LIMIT_MS;
    while (!condition()) {
        if (performance.now() > deadline) {
            throw new Error(`did not happen within ${ARRIVAL_LIMIT_MS} ms: ${what instanceof Function ? what() : what}`);
        }
        await delay(10);
    }
}

// The result of an attempt in which the server confirmed in time that the credit is taken back.
export async function drained(perform) {
    for (let attempt = 1; attempt <= DRAIN_ATTEMPTS; attempt += 1) {
        const before = sdkLog.matching(/drain/i).length;
        const result = await perform();
        if (sdkLog.matching(/drain/i).length === before) return result;
    }
    throw new Error(`the server did not confirm a drain in ${DRAIN_ATTEMPTS} attempts`);
}

export const inMs = (ms) => new Date(Date.now() + ms);

// Insist that the service refuses, with this code. What it said is returned, without the part that differs each time.
export async function refused(promise, code) {
    let error;
    try {
        await promise;
    } catch (thrown) {
        error = thrown;
    }
    assert.ok(error, `expected to be refused with ${code}, and was not`);
    assert.equal(error.code, code, `expected ${code}, got ${error.code} (${error.name}): ${error.message}`);
    return { code, message: error.message.replace(/ *TrackingId:.*/s, '') };
}

export const bodies = (messages) => messages.map((message) => message.body);

// One feature's stay at its queue. Closing it closes every client that was made on the way.
export class Visit {
    constructor(connectionString, transport, queue) {
        Object.assign(this, { connectionString, transport, queue, clients: [] });
    }

    // A client, with the transport of the tour.
    connect({ connectionString = this.connectionString, ...options } = {}) {
        const client = new ServiceBusClient(this.addressed(connectionString), {
            retryOptions: ONE_TRY,
            ...(this.transport === 'websocket' ? { webSocketOptions: { webSocket: WebSocket } } : {}),
            ...options,
        });
        this.clients.push(client);
        return client;
    }

    // With the emulator's flag the SDK speaks plain TCP, without it TLS. WebSockets are always over TLS.
    addressed(connectionString) {
        const plain = connectionString.replace(/;?UseDevelopmentEmulator=true/i, '');
        return this.transport === 'tcp' ? `${plain.replace(/;$/, '')};UseDevelopmentEmulator=true` : plain;
    }

    // The client that serves when one is enough.
    get client() {
        this.sharedClient ??= this.connect();
        return this.sharedClient;
    }

    get sender() {
        this.sharedSender ??= this.client.createSender(this.queue);
        return this.sharedSender;
    }

    receiver(options) {
        return this.client.createReceiver(this.queue, options);
    }

    // A receiver from a subscription, where the queue is a topic.
    subscriber(subscription, options) {
        return this.client.createReceiver(this.queue, subscription, options);
    }

    // Exactly so many messages, in the order of their arrival.
    async take(receiver, count) {
        const deadline = performance.now() + ARRIVAL_LIMIT_MS;
        const taken = [];
        while (taken.length < count && performance.now() < deadline) {
            const maxWaitTimeInMs = Math.max(1, deadline - performance.now());
            taken.push(...(await receiver.receiveMessages(count - taken.length, { maxWaitTimeInMs })));
        }
        assert.equal(taken.length, count, `expected ${count} messages, got ${JSON.stringify(bodies(taken))}`);
        return taken;
    }

    async takeOne(receiver) {
        return (await this.take(receiver, 1))[0];
    }

    async takeAndComplete(receiver, count = 1) {
        const taken = await this.take(receiver, count);
        await Promise.all(taken.map((message) => receiver.completeMessage(message)));
        return taken;
    }

    // Insist that a lock of a minute, which the service gave at some time after this one, ends when it should.
    expectMinuteLock(lockedUntil, before) {
        const [atLeast, atMost] = [before + 60_000, Date.now() + 60_000];
        const end = lockedUntil.getTime();
        assert.ok(end >= atLeast && end <= atMost, `locked until ${end}, which is not in ${atLeast} to ${atMost}`);
        return end - before;
    }

    // Everything that is in the queue, whatever its state.
    peekAll(options) {
        return this.receiver(options).peekMessages(250, { fromSequenceNumber: Long.ONE });
    }

    async expectEmpty(options) {
        assert.deepEqual(bodies(await this.peekAll(options)), []);
    }

    async close() {
        await Promise.all(this.clients.splice(0).map((client) => client.close()));
    }
}
