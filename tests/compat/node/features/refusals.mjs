// Features of being told no: the code of the error is what an application decides by. And of going away.

import assert from 'node:assert/strict';

import { bodies, PATIENCE, refused, SILENCE } from '../visit.mjs';

async function missingQueue(visit) {
    const missing = `${visit.queue}-missing`;
    const code = 'MessagingEntityNotFound';
    const seen = await refused(visit.client.createSender(missing).sendMessages({ body: 'lost' }), code);
    const receiver = visit.client.createReceiver(missing);
    await refused(receiver.receiveMessages(1, PATIENCE), code);
    await refused(receiver.peekMessages(1), code);
    await refused(visit.client.acceptSession(missing, 'red'), code);
    // The connection is none the worse for it.
    await visit.sender.sendMessages({ body: 'found' });
    assert.deepEqual(bodies(await visit.takeAndComplete(visit.receiver())), ['found']);
    return seen;
}

async function wrongKey(visit) {
    const connectionString = visit.connectionString.replace(/SharedAccessKey=[^;]*/, 'SharedAccessKey=wrong');
    const client = visit.connect({ connectionString });
    const seen = await refused(client.createSender(visit.queue).sendMessages({ body: 'forged' }), 'UnauthorizedAccess');
    await refused(client.createReceiver(visit.queue).receiveMessages(1, PATIENCE), 'UnauthorizedAccess');
    await refused(client.createReceiver(visit.queue).peekMessages(1), 'UnauthorizedAccess');
    await visit.expectEmpty();
    return seen;
}

async function listenOnly(visit) {
    await visit.sender.sendMessages({ body: 'heard' });
    const connectionString = visit.connectionString.replace(
        /SharedAccessKeyName=[^;]*;SharedAccessKey=[^;]*/,
        'SharedAccessKeyName=Listener;SharedAccessKey=key-of-listener',
    );
    const client = visit.connect({ connectionString });
    const seen = await refused(client.createSender(visit.queue).sendMessages({ body: 'no' }), 'UnauthorizedAccess');
    assert.deepEqual(bodies(await visit.takeAndComplete(client.createReceiver(visit.queue))), ['heard']);
    await visit.expectEmpty();
    return seen;
}

async function messageTooLarge(visit) {
    const body = Buffer.alloc(300_000, 'x');
    const seen = await refused(visit.sender.sendMessages({ body }), 'MessageSizeExceeded');
    // An array is measured by the SDK itself, by the limit that the server gave.
    await refused(visit.sender.sendMessages([{ body }]), 'MessageSizeExceeded');
    await visit.sender.sendMessages({ body: 'small enough' });
    assert.deepEqual(bodies(await visit.takeAndComplete(visit.receiver())), ['small enough']);
    return seen;
}

async function sendDisabled(visit) {
    const seen = await refused(visit.sender.sendMessages({ body: 'not now' }), 'MessagingEntityDisabled');
    assert.deepEqual(await visit.receiver().receiveMessages(1, SILENCE), []);
    return seen;
}

async function receiveDisabled(visit) {
    await visit.sender.sendMessages({ body: 'kept' });
    return refused(visit.receiver().receiveMessages(1, PATIENCE), 'MessagingEntityDisabled');
}

// A queue with sessions takes no message without one, and no receiver without one.
async function sessionRequired(visit) {
    const seen = await refused(visit.sender.sendMessages({ body: 'astray' }), 'GeneralError');
    assert.match(seen.message, /^InvalidOperationError: /);
    const receiver = await refused(visit.receiver().receiveMessages(1, PATIENCE), 'GeneralError');
    assert.match(receiver.message, /^InvalidOperationError: /);
    await visit.expectEmpty();
    return { sender: seen.message, receiver: receiver.message };
}

async function sessionNotSupported(visit) {
    let error;
    await visit.client.acceptSession(visit.queue, 'red').catch((thrown) => {
        error = thrown;
    });
    assert.ok(error, 'a queue without sessions gave one');
    return { code: error.code, message: error.message };
}

async function close(visit) {
    const client = visit.connect();
    const sender = client.createSender(visit.queue);
    const receiver = client.createReceiver(visit.queue);
    await sender.sendMessages([{ body: 'a' }, { body: 'b' }]);
    const waiting = receiver.receiveMessages(5, PATIENCE);
    assert.deepEqual(bodies(await waiting), ['a', 'b']);
    await sender.close();
    assert.ok(sender.isClosed && !receiver.isClosed);
    await client.close();
    assert.ok(receiver.isClosed);
    await assert.rejects(sender.sendMessages({ body: 'c' }));
    await assert.rejects(receiver.receiveMessages(1));
    // Locks outlive the connection: nobody else gets the messages before they end.
    assert.deepEqual(await visit.receiver().receiveMessages(1, SILENCE), []);
    return { left: bodies(await visit.peekAll()) };
}

export const features = {
    'missing-queue': missingQueue,
    'wrong-key': wrongKey,
    'listen-only': listenOnly,
    'message-too-large': messageTooLarge,
    'send-disabled': sendDisabled,
    'receive-disabled': receiveDisabled,
    'session-required': sessionRequired,
    'session-not-supported': sessionNotSupported,
    close,
};
