// Producers of event hubs that do more than send: buffered and idempotent ones, and what only they show.

import assert from 'node:assert/strict';

import { createSasTokenProvider } from '@azure/core-amqp';

import { bodies, refused } from '../visit.mjs';

const events = (...texts) => texts.map((body) => ({ body }));
const ZERO = { partitionId: '0' };

async function buffered(visit, options) {
    const failed = [];
    const sent = [];
    const producer = visit.bufferedProducer({
        onSendEventsErrorHandler: (context) => failed.push(context.error),
        onSendEventsSuccessHandler: (context) => sent.push(...context.events),
        maxWaitTimeInMs: 200,
        ...options,
    });
    for (let number = 0; number < 300; number += 1)
        await producer.enqueueEvent({ body: number }, { partitionKey: `key-${number % 3}` });
    await producer.flush();
    assert.deepEqual(failed, []);
    assert.equal(sent.length, 300);
    const read = await visit.take(300, {}, { partition: null });
    for (let rest = 0; rest < 3; rest += 1) {
        const own = bodies(read).filter((number) => number % 3 === rest);
        assert.deepEqual(own, Array.from({ length: 100 }, (_, at) => 3 * at + rest));
    }
}

export const features = {
    async 'buffered-producer'(visit) {
        await buffered(visit, {});
    },

    async 'idempotent-buffered'(visit) {
        await buffered(visit, { enableIdempotentRetries: true });
    },

    async 'idempotent-producer'(visit) {
        const producer = visit.idempotentProducer();
        const fresh = await producer.getPartitionPublishingProperties('0');
        assert.equal(fresh.isIdempotentPublishingEnabled, true);
        assert.ok(Number.isSafeInteger(fresh.producerGroupId) && fresh.producerGroupId >= 0);
        const first = await producer.createBatch(ZERO);
        for (const text of 'ab') first.tryAdd({ body: text });
        await producer.sendBatch(first);
        assert.equal(first.startingPublishedSequenceNumber, fresh.lastPublishedSequenceNumber + 1);
        const second = events('c');
        await producer.sendBatch(second, ZERO);
        assert.equal(second[0]._publishedSequenceNumber, first.startingPublishedSequenceNumber + 2);
        const { producerGroupId, ownerLevel } = await producer.getPartitionPublishingProperties('0');
        await producer.close();
        // The same producer on a new link: the service knows where it stands.
        const again = visit.idempotentProducer({ 0: { producerGroupId, ownerLevel: ownerLevel + 1 } });
        const known = await again.getPartitionPublishingProperties('0');
        assert.equal(known.producerGroupId, producerGroupId);
        assert.equal(known.lastPublishedSequenceNumber, second[0]._publishedSequenceNumber);
        await again.sendBatch(events('d'), ZERO);
        assert.deepEqual(bodies(await visit.take(4)), ['a', 'b', 'c', 'd']);
    },

    async 'idempotent-retry'(visit) {
        const producer = visit.idempotentProducer();
        await producer.sendBatch(events('a'), ZERO);
        const [sender] = [...producer._sendersMap.values()];
        const before = { ...sender._localPublishingProperties };
        await producer.sendBatch(events('b', 'c'), ZERO);
        // As if the acknowledgement had been lost with the link: the SDK opens another one, and sends again.
        await sender._sender.close();
        sender._localPublishingProperties = before;
        await producer.sendBatch(events('b', 'c'), ZERO);
        await producer.sendBatch(events('d'), ZERO);
        assert.deepEqual(bodies(await visit.take(4)), ['a', 'b', 'c', 'd']);
    },

    async 'idempotent-epoch'(visit) {
        const options = { 0: { producerGroupId: 4_711, ownerLevel: 1, startingSequenceNumber: 10 } };
        const first = visit.idempotentProducer(options);
        await first.sendBatch(events('a'), ZERO);
        const second = visit.idempotentProducer({ 0: { ...options[0], ownerLevel: 2 } });
        const batch = events('b');
        await second.sendBatch(batch, ZERO);
        assert.equal(batch[0]._publishedSequenceNumber, 11);
        await refused(first.sendBatch(events('lost'), ZERO), 'ProducerDisconnectedError');
        const third = visit.idempotentProducer(options);
        // The SDK has a name for this refusal of an event, and none for that of a link.
        await assert.rejects(third.sendBatch(events('lost'), ZERO), /a link with epoch 1 is older/);
        assert.deepEqual(bodies(await visit.take(2)), ['a', 'b']);
    },

    async 'idempotent-old-number'(visit) {
        const first = visit.idempotentProducer();
        await first.sendBatch(events('a', 'b', 'c', 'd', 'e'), ZERO);
        const { producerGroupId, lastPublishedSequenceNumber } = await first.getPartitionPublishingProperties('0');
        assert.equal(lastPublishedSequenceNumber, 5);
        for (const [startingSequenceNumber, texts] of [[1, ['x']], [4, ['x']], [0, ['a', 'b', 'c', 'd', 'x']]]) {
            const second = visit.idempotentProducer({ 0: { producerGroupId, startingSequenceNumber } });
            const sending = second.sendBatch(events(...texts), ZERO);
            await assert.rejects(sending, (error) => error.code === 'SequenceOutOfOrderError' && /old sequence/.test(error.message));
        }
        await first.sendBatch(events('f'), ZERO);
        assert.deepEqual(bodies(await visit.take(6)), ['a', 'b', 'c', 'd', 'e', 'f']);
    },

    async 'idempotent-invalid-state'(visit) {
        const producer = visit.idempotentProducer({ 0: { ownerLevel: -1 } });
        const text = /Invalid range for idempotent producer state. Producer Id, Epoch, and Sequence Number must be zero or positive./;
        const sending = producer.sendBatch(events('a'), ZERO);
        await assert.rejects(sending, (error) => error.code === 'ArgumentOutOfRangeError' && text.test(error.message));
    },

    async 'rotated-key'(visit) {
        const producer = visit.producer();
        await producer.getEventHubProperties();
        // As the SDK does when the application updates its credential: the next request has a token of the new key.
        const valid = producer._context.tokenCredential;
        const [, sharedAccessKeyName] = /SharedAccessKeyName=([^;]+)/.exec(visit.connectionString);
        producer._context.tokenCredential = createSasTokenProvider({ sharedAccessKeyName, sharedAccessKey: 'rotated' });
        await refused(producer.getEventHubProperties(), 'UnauthorizedError');
        await refused(producer.getPartitionProperties('0'), 'UnauthorizedError');
        producer._context.tokenCredential = valid;
        assert.equal((await producer.getEventHubProperties()).name, visit.hub);
    },

    async 'null-body'(visit) {
        await visit.producer().sendBatch([{ body: null, bodyType: 'data' }, { body: null }], ZERO);
        assert.deepEqual(bodies(await visit.take(2)), [null, null]);
    },
};
