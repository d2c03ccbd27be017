// Features of sending, and of what a message carries: what is sent comes back.

import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';

import { bodies, delay } from '../visit.mjs';

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

async function sendOne(visit) {
    await visit.sender.sendMessages({ body: 'hello' });
    const receiver = visit.receiver();
    const [message] = await visit.takeAndComplete(receiver);
    assert.equal(message.body, 'hello');
    await visit.expectEmpty();
    return { sequenceNumber: String(message.sequenceNumber) };
}

async function sendArray(visit) {
    await visit.sender.sendMessages([{ body: 'a' }, { body: 'b' }, { body: 'c' }]);
    const taken = await visit.takeAndComplete(visit.receiver(), 3);
    assert.deepEqual(bodies(taken), ['a', 'b', 'c']);
    const sequenceNumbers = taken.map((message) => message.sequenceNumber.toNumber());
    assert.deepEqual(sequenceNumbers, [1, 2, 3]);
    await visit.expectEmpty();
    return { sequenceNumbers };
}

async function sendBatch(visit) {
    const batch = await visit.sender.createMessageBatch({ maxSizeInBytes: 4096 });
    while (batch.tryAddMessage({ body: `${batch.count} ${'x'.repeat(100)}` }));
    assert.ok(batch.count > 10 && batch.sizeInBytes <= 4096, `${batch.count} messages, ${batch.sizeInBytes} bytes`);
    await visit.sender.sendMessages(batch);
    const taken = await visit.takeAndComplete(visit.receiver(), batch.count);
    taken.forEach((message, index) => assert.ok(message.body.startsWith(`${index} `), message.body));
    const { maxSizeInBytes } = await visit.sender.createMessageBatch();
    assert.equal(maxSizeInBytes, 256 * 1024, 'the limit of a queue that was given none');
    return { count: batch.count, maxSizeInBytes };
}

// 1,000,000 bytes take many frames, both ways.
async function largeMessage(visit) {
    const body = randomBytes(1_000_000);
    await visit.sender.sendMessages({ body });
    const [message] = await visit.takeAndComplete(visit.receiver({ skipParsingBodyAsJson: true }));
    assert.ok(body.equals(message.body), 'other bytes came back');
    return { bytes: message.body.length };
}

async function bodyTypes(visit) {
    const sent = [
        ...[1, 1.5, 'grüße ✓', { nested: { list: [1, null, true] } }, [1, 2, 3], null, Buffer.from([0, 255, 128])].map(
            (body) => ({ body, bodyType: 'data' }),
        ),
        ...[1, -1.5, 'value', [1, 'two', false], { key: 'value' }].map((body) => ({ body, bodyType: 'value' })),
        ...[[1, 2, 3], [[1], ['two']]].map((body) => ({ body, bodyType: 'sequence' })),
    ];
    for (const message of sent) await visit.sender.sendMessages(message);
    const taken = await visit.takeAndComplete(visit.receiver(), sent.length);
    const came = taken.map((message) => ({ body: message.body, bodyType: message._rawAmqpMessage.bodyType }));
    assert.deepEqual(came, sent);
    return { count: came.length };
}

async function propertyTypes(visit) {
    const applicationProperties = {
        text: 'grüße ✓',
        empty: '',
        zero: 0,
        small: -128,
        integer: -(2 ** 31),
        long: 2 ** 40,
        double: 1.5,
        yes: true,
        no: false,
        at: new Date(1_700_000_000_123),
        nothing: null,
    };
    await visit.sender.sendMessages({ body: 'typed', applicationProperties });
    const [message] = await visit.takeAndComplete(visit.receiver({ skipConvertingDate: true }));
    assert.deepEqual(message.applicationProperties, applicationProperties);
    return Object.keys(applicationProperties);
}

async function systemProperties(visit) {
    const sent = {
        body: 'addressed',
        messageId: 'message 1',
        correlationId: 'correlation 1',
        contentType: 'text/plain',
        subject: 'subject',
        to: 'to',
        replyTo: 'reply to',
        replyToSessionId: 'reply to session',
        partitionKey: 'partition',
        timeToLive: 3_600_000,
    };
    const before = Date.now();
    await visit.sender.sendMessages(sent);
    const [message] = await visit.takeAndComplete(visit.receiver());
    for (const [name, value] of Object.entries(sent)) assert.equal(message[name], value, name);
    const enqueued = message.enqueuedTimeUtc.getTime();
    assert.ok(enqueued >= before && enqueued <= Date.now(), `sent at ${before}, enqueued at ${enqueued}`);
    assert.equal(message.expiresAtUtc.getTime(), enqueued + sent.timeToLive);
    const lockMs = visit.expectMinuteLock(message.lockedUntilUtc, before);
    assert.match(message.lockToken, UUID);
    assert.equal(message.deliveryCount, 0);
    assert.equal(message.state, 'active');
    return { lockMs, lockToken: message.lockToken };
}

async function messageIdTypes(visit) {
    // The SDK sends 16 bytes as a UUID.
    const ids = ['text', 42, randomBytes(16)];
    for (const id of ids) await visit.sender.sendMessages({ body: 'named', messageId: id, correlationId: id });
    const taken = await visit.takeAndComplete(visit.receiver(), ids.length);
    assert.deepEqual(taken.map((message) => message.messageId), ids);
    assert.deepEqual(taken.map((message) => message.correlationId), ids);
    return { ids: taken.map((message) => typeof message.messageId) };
}

// The SDK sends no id of its own, and cannot settle a message that comes without one.
async function messageIdAssigned(visit) {
    await visit.sender.sendMessages({ body: 'one' });
    await visit.sender.sendMessages([{ body: 'two' }, { body: 'three' }]);
    const taken = await visit.takeAndComplete(visit.receiver(), 3);
    const ids = taken.map((message) => message.messageId);
    ids.forEach((id) => assert.equal(typeof id, 'string'));
    assert.equal(new Set(ids).size, 3, `not three different ids: ${ids}`);
    return { ids };
}

// The sections that only the SDK's lower level lets a sender fill.
async function annotatedMessage(visit) {
    const sent = {
        body: 'annotated',
        bodyType: 'value',
        header: { durable: false, firstAcquirer: false, priority: 7, timeToLive: 100_000 },
        footer: { checksum: 'foot' },
        messageAnnotations: { 'x-mine': 'annotation' },
        properties: { contentEncoding: 'utf-8', messageId: 'annotated 1', correlationId: 'other', groupId: 'group' },
        applicationProperties: { one: 1 },
    };
    await visit.sender.sendMessages(sent);
    const [message] = await visit.takeAndComplete(visit.receiver());
    const came = message._rawAmqpMessage;
    assert.equal(came.body, sent.body);
    assert.equal(came.bodyType, sent.bodyType);
    assert.deepEqual(came.footer, sent.footer);
    assert.deepEqual(came.applicationProperties, sent.applicationProperties);
    assert.equal(came.messageAnnotations['x-mine'], 'annotation');
    for (const [name, value] of Object.entries(sent.header)) assert.equal(came.header[name], value, name);
    for (const [name, value] of Object.entries(sent.properties)) assert.equal(came.properties[name], value, name);
    return came.header;
}

async function timeToLive(visit) {
    await visit.sender.sendMessages([{ body: 'short', timeToLive: 300 }, { body: 'long', timeToLive: 3_600_000 }]);
    const deadLetters = visit.receiver({ subQueueType: 'deadLetter' });
    const expired = await visit.takeOne(deadLetters);
    assert.equal(expired.body, 'short');
    assert.equal(expired.deadLetterReason, 'TTLExpiredException');
    assert.deepEqual(bodies(await visit.takeAndComplete(visit.receiver())), ['long']);
    return { reason: expired.deadLetterReason, description: expired.deadLetterErrorDescription };
}

async function duplicateDetection(visit) {
    for (const body of ['first', 'again', 'and again']) await visit.sender.sendMessages({ body, messageId: 'same' });
    await visit.sender.sendMessages({ body: 'other', messageId: 'other' });
    assert.deepEqual(bodies(await visit.peekAll()), ['first', 'other']);
    await visit.takeAndComplete(visit.receiver(), 2);
    await delay(20);
    await visit.sender.sendMessages({ body: 'after it was completed', messageId: 'same' });
    await visit.expectEmpty();
    return { kept: ['first', 'other'] };
}

async function forwarding(visit) {
    await visit.sender.sendMessages([{ body: 'a' }, { body: 'b' }]);
    const target = visit.client.createReceiver(`${visit.queue}-target`);
    assert.deepEqual(bodies(await visit.takeAndComplete(target, 2)), ['a', 'b']);
    await visit.expectEmpty();
    return { count: 2 };
}

async function partitionedQueue(visit) {
    for (const body of ['a', 'b', 'c']) await visit.sender.sendMessages({ body, partitionKey: 'one' });
    const taken = await visit.takeAndComplete(visit.receiver(), 3);
    assert.deepEqual(bodies(taken), ['a', 'b', 'c']);
    assert.deepEqual(taken.map((message) => message.partitionKey), ['one', 'one', 'one']);
    return { sequenceNumbers: taken.map((message) => String(message.sequenceNumber)) };
}

export const features = {
    'send-one': sendOne,
    'send-array': sendArray,
    'send-batch': sendBatch,
    'large-message': largeMessage,
    'body-types': bodyTypes,
    'property-types': propertyTypes,
    'system-properties': systemProperties,
    'message-id-types': messageIdTypes,
    'message-id-assigned': messageIdAssigned,
    'annotated-message': annotatedMessage,
    'time-to-live': timeToLive,
    'duplicate-detection': duplicateDetection,
    forwarding,
    'partitioned-queue': partitionedQueue,
};
