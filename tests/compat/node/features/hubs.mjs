// Reading and writing event hubs.

import assert from 'node:assert/strict';
import { Buffer } from 'node:buffer';

import { EARLIEST, LATEST, MemoryCheckpointStore } from '../hub_visit.mjs';
import { bodies, delay, refused, until } from '../visit.mjs';
import { mapPartitionKeyToId } from '../node_modules/@azure/event-hubs/dist/esm/impl/partitionKeyToIdMapper.js';

const PARTITIONS = 4;

const events = (...texts) => texts.map((body) => ({ body }));

export const features = {
    async 'send-and-read'(visit) {
        const sent = Array.from({ length: 120 }, (_, number) => `event ${number}`);
        await visit.producer().sendBatch(events(...sent), { partitionId: '0' });
        const read = await visit.take(120);
        assert.deepEqual(bodies(read), sent);
        assert.deepEqual(read.map((event) => event.sequenceNumber), sent.map((_, number) => number));
        assert.deepEqual(read.map((event) => event.offset), sent.map((_, number) => `${number}`));
        for (const event of read) assert.ok(Math.abs(Date.now() - event.enqueuedTimeUtc) < 600_000);
    },

    async batch(visit) {
        const producer = visit.producer();
        const batch = await producer.createBatch({ partitionId: '1' });
        assert.equal(batch.maxSizeInBytes, 1_048_576);
        while (batch.tryAdd({ body: `${batch.count}`.padEnd(5_000, 'x') }));
        assert.ok(batch.count > 150);
        await producer.sendBatch(batch);
        const read = await visit.take(batch.count, {}, { partition: '1' });
        assert.deepEqual(read.map((event) => parseInt(event.body, 10)), [...read.keys()]);
    },

    async partitions(visit) {
        const producer = visit.producer();
        for (let number = 0; number < PARTITIONS; number += 1)
            await producer.sendBatch(events(`for ${number}`), { partitionId: `${number}` });
        const read = await visit.take(PARTITIONS, {}, { partition: null });
        for (const event of read) assert.equal(event.body, `for ${event.partitionId}`);
    },

    async 'partition-keys'(visit) {
        const producer = visit.producer();
        const keys = ['', 'a', 'customer-17', 'Straße', '鍵', 'x'.repeat(128), ...'bcdefghij'];
        const named = keys.filter((key) => key);
        await Promise.all(named.map((key) => producer.sendBatch(events(key), { partitionKey: key })));
        const read = await visit.take(named.length, {}, { partition: null });
        for (const event of read) {
            assert.equal(event.partitionKey, event.body);
            assert.equal(event.partitionId, `${mapPartitionKeyToId(event.body, PARTITIONS)}`, event.body);
        }
    },

    async 'body-types'(visit) {
        const producer = visit.producer();
        const sent = [
            { body: 'text' },
            { body: { deep: [1, 'two', null] } },
            { body: Buffer.from([0, 255, 7]) },
            { body: 'a value', bodyType: 'value' },
            { body: [1, 'two', [3]], bodyType: 'sequence' },
            { body: Buffer.from('raw'), bodyType: 'data' },
        ];
        await producer.sendBatch(sent, { partitionId: '0' });
        const read = await visit.take(sent.length);
        assert.deepEqual(bodies(read).map(plain), sent.map(({ body }) => plain(body)));
    },

    async properties(visit) {
        const event = {
            body: 'x',
            contentType: 'text/plain',
            correlationId: 'correlated',
            messageId: 'an-id',
            properties: { text: 'Grüße', number: 17, real: 0.5, flag: true, nothing: null },
        };
        await visit.producer().sendBatch([event], { partitionKey: 'k' });
        const [read] = await visit.take(1, {}, { partition: null });
        for (const key of ['contentType', 'correlationId', 'messageId']) assert.equal(read[key], event[key]);
        assert.deepEqual(read.properties, event.properties);
        assert.equal(read.partitionKey, 'k');
        const annotations = read.getRawAmqpMessage().messageAnnotations;
        assert.deepEqual(Object.keys(annotations).sort(), [
            'x-opt-enqueued-time',
            'x-opt-offset',
            'x-opt-partition-key',
            'x-opt-sequence-number',
            'x-opt-sequence-number-epoch',
        ]);
    },

    async positions(visit) {
        const producer = visit.producer();
        await producer.sendBatch(events('a', 'b', 'c'), { partitionId: '0' });
        await delay(10);
        const between = new Date();
        await delay(10);
        await producer.sendBatch(events('d'), { partitionId: '0' });
        const { lastEnqueuedOnUtc: ofD } = await producer.getPartitionProperties('0');
        await delay(10);
        await producer.sendBatch(events('e'), { partitionId: '0' });
        const expected = [
            [EARLIEST, 'abcde'],
            [{ offset: '1' }, 'cde'],
            [{ offset: '1', isInclusive: true }, 'bcde'],
            [{ sequenceNumber: 2 }, 'de'],
            [{ sequenceNumber: 2, isInclusive: true }, 'cde'],
            [{ enqueuedOn: between }, 'de'],
            [{ enqueuedOn: ofD.getTime() }, 'e'],
            [{ enqueuedOn: ofD.getTime() - 1 }, 'de'],
        ];
        const check = async ([startPosition, texts], number) => {
            // At most five read a partition for a group.
            const client = visit.consumer({}, number < 5 ? '$Default' : 'audit');
            const read = await visit.take(texts.length, { startPosition }, { client });
            assert.equal(bodies(read).join(''), texts, JSON.stringify(startPosition));
        };
        await Promise.all(expected.slice(0, 4).map(check));
        await Promise.all(expected.slice(4).map((one, number) => check(one, number + 5)));
        const late = visit.read({ startPosition: LATEST });
        await until(() => late.partitions.has('0'), 'the subscription');
        // It is open soon after it says that it will be: one event after another, until it is.
        const after = [];
        while (!late.events.length) {
            after.push(`f${after.length}`);
            await producer.sendBatch(events(after.at(-1)), { partitionId: '0' });
            await delay(200);
        }
        await until(() => late.events.at(-1).body === after.at(-1), 'the last event after the end');
        assert.deepEqual(bodies(late.events), after.slice(-late.events.length));
    },

    async 'invalid-position'(visit) {
        const reading = visit.read({ startPosition: { offset: '17' } });
        await until(() => reading.errors.length, 'the refusal');
        assert.equal(reading.errors[0].code, 'ArgumentError');
        assert.match(reading.errors[0].message, /The supplied offset '17' is invalid. The last offset in the system is '-1'/);
    },

    async 'runtime-information'(visit) {
        const producer = visit.producer();
        const hub = await producer.getEventHubProperties();
        assert.equal(hub.name, visit.hub);
        assert.deepEqual(hub.partitionIds, ['0', '1', '2', '3']);
        assert.ok(Math.abs(Date.now() - hub.createdOn) < 600_000);
        const empty = await producer.getPartitionProperties('2');
        assert.equal(empty.isEmpty, true);
        assert.equal(empty.beginningSequenceNumber, -1);
        assert.equal(empty.lastEnqueuedSequenceNumber, -1);
        assert.equal(empty.lastEnqueuedOffset, '-1');
        await producer.sendBatch(events('a', 'b'), { partitionId: '2' });
        const filled = await producer.getPartitionProperties('2');
        assert.equal(filled.isEmpty, false);
        assert.equal(filled.beginningSequenceNumber, 0);
        assert.equal(filled.lastEnqueuedSequenceNumber, 1);
        assert.equal(filled.lastEnqueuedOffset, '1');
        assert.ok(Math.abs(Date.now() - filled.lastEnqueuedOnUtc) < 600_000);
    },

    async 'last-enqueued-event'(visit) {
        await visit.producer().sendBatch(events('a', 'b', 'c'), { partitionId: '0' });
        const reading = visit.read({ trackLastEnqueuedEventProperties: true });
        await until(() => reading.events.length === 3, 'three events');
        assert.equal(reading.last.sequenceNumber, 2);
        assert.equal(reading.last.offset, '2');
        assert.ok(reading.last.enqueuedOn <= reading.last.retrievedOn);
    },

    async 'owner-level'(visit) {
        const producer = visit.producer();
        const first = visit.read({ ownerLevel: 1 });
        await producer.sendBatch(events('a'), { partitionId: '0' });
        await until(() => first.events.length === 1, 'the first event');
        const second = visit.read({ ownerLevel: 2, startPosition: { offset: '0' } });
        await until(() => first.errors.length, 'the theft');
        assert.equal(first.errors[0].code, 'ReceiverDisconnectedError');
        await producer.sendBatch(events('b'), { partitionId: '0' });
        await until(() => second.events.length === 1, 'the second event');
        const third = visit.read({ ownerLevel: 0 });
        await until(() => third.errors.length, 'the refusal');
        assert.equal(third.errors[0].code, 'ReceiverDisconnectedError');
        assert.deepEqual([bodies(first.events), bodies(second.events), bodies(third.events)], [['a'], ['b'], []]);
    },

    async balancing(visit) {
        const store = new MemoryCheckpointStore();
        const producer = visit.producer();
        const loadBalancingOptions = { strategy: 'greedy', updateIntervalInMs: 300, partitionOwnershipExpirationIntervalInMs: 60_000 };
        const join = () =>
            visit.read({}, { partition: null, client: visit.consumer({ loadBalancingOptions }, '$Default', store), checkpoints: true });
        const send = async (round) => {
            for (let number = 0; number < PARTITIONS; number += 1)
                await producer.sendBatch(events(`${round}-${number}`), { partitionId: `${number}` });
        };
        await send('first');
        const one = join();
        await until(() => one.events.length === PARTITIONS, 'the first round');
        const two = join();
        await until(() => one.partitions.size === 2 && two.partitions.size === 2, 'two partitions each');
        await send('second');
        await until(() => one.events.length + two.events.length >= 2 * PARTITIONS, 'the second round');
        await two.close();
        await until(() => one.partitions.size === PARTITIONS, 'the other partitions');
        await send('third');
        const seen = () => new Set([...bodies(one.events), ...bodies(two.events)]);
        await until(() => seen().size === 3 * PARTITIONS, 'the third round');
        assert.ok(two.events.length >= 2);
        assert.equal(one.events.length + two.events.length, 3 * PARTITIONS, 'nothing came twice');
    },

    async 'unknown-entities'(visit) {
        // The SDK knows these two by the sentence of the service.
        await refused(visit.producer({}, 'no-such-hub').sendBatch(events('x')), 'MessagingEntityNotFoundError');
        const reading = visit.read({}, { client: visit.consumer({}, 'no-such-group') });
        await until(() => reading.errors.length, 'the refusal');
        assert.equal(reading.errors[0].code, 'MessagingEntityNotFoundError');
        await refused(visit.producer().sendBatch(events('x'), { partitionId: '4' }), 'ArgumentOutOfRangeError');
        await assert.rejects(visit.producer().getPartitionProperties('4'), /The specified partition is invalid/);
    },

    async 'too-large'(visit) {
        const producer = visit.producer();
        const batch = await producer.createBatch();
        assert.equal(batch.tryAdd({ body: 'x'.repeat(1_100_000) }), false);
        await refused(producer.sendBatch(events('x'.repeat(1_100_000))), 'MessageTooLargeError');
    },

    async 'many-events'(visit) {
        const producer = visit.producer();
        for (let start = 0; start < 5_000; start += 500)
            await producer.sendBatch(events(...Array.from({ length: 500 }, (_, at) => start + at)), { partitionId: '0' });
        const read = await visit.take(5_000, { maxBatchSize: 50, prefetchCount: 60 });
        assert.deepEqual(bodies(read), [...read.keys()]);
    },
};

// What compares the same whether it is a Buffer or a view of one.
function plain(body) {
    return body instanceof Uint8Array ? [...body] : body;
}
