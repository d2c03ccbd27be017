// Features of handlers that the SDK calls for each message.

import assert from 'node:assert/strict';

import { bodies, drained, until } from '../visit.mjs';

// A subscription that remembers what came, and what went wrong.
function subscribe(receiver, processMessage, options) {
    const came = [];
    const errors = [];
    const subscription = receiver.subscribe(
        {
            processMessage: async (message) => {
                came.push(message);
                await processMessage?.(message);
            },
            processError: async (args) => {
                errors.push(args);
            },
        },
        options,
    );
    return { came, errors, subscription };
}

const assertNoErrors = (errors) => assert.deepEqual(errors.map((args) => `${args.errorSource}: ${args.error}`), []);

async function subscribeAutoComplete(visit) {
    return drained(async () => {
        await visit.sender.sendMessages([{ body: 'a' }, { body: 'b' }]);
        const receiver = visit.receiver();
        const { came, errors, subscription } = subscribe(receiver);
        await until(() => came.length === 2, 'two messages are handled');
        await visit.sender.sendMessages({ body: 'c' });
        await until(() => came.length === 3, 'a third message is handled');
        await subscription.close();
        assert.deepEqual(bodies(came), ['a', 'b', 'c']);
        assertNoErrors(errors);
        await visit.expectEmpty();
        // Whoever has stopped listening gets nothing more.
        await visit.sender.sendMessages({ body: 'd' });
        assert.deepEqual(bodies(await visit.takeAndComplete(visit.receiver())), ['d']);
        await receiver.close();
        return { came: bodies(came) };
    });
}

async function subscribeByHand(visit) {
    await visit.sender.sendMessages([{ body: 'good' }, { body: 'bad' }]);
    const receiver = visit.receiver();
    let settled = 0;
    const { errors, subscription } = subscribe(
        receiver,
        async (message) => {
            if (message.body === 'good') await receiver.completeMessage(message);
            else await receiver.deadLetterMessage(message);
            settled += 1;
        },
        { autoCompleteMessages: false },
    );
    await until(() => settled === 2, 'both messages are settled');
    await subscription.close();
    assertNoErrors(errors);
    await visit.expectEmpty();
    const [dead] = await visit.takeAndComplete(visit.receiver({ subQueueType: 'deadLetter' }));
    assert.equal(dead.body, 'bad');
    return { settled };
}

// The SDK abandons a message whose handler fails.
async function subscribeHandlerError(visit) {
    await visit.sender.sendMessages({ body: 'fails once' });
    const { came, errors, subscription } = subscribe(visit.receiver(), async (message) => {
        if (message.deliveryCount === 0) throw new Error('not today');
    });
    await until(() => came.length === 2, 'the message is handled again');
    await subscription.close();
    assert.deepEqual(came.map((message) => message.deliveryCount), [0, 1]);
    assert.deepEqual(errors.map((args) => args.errorSource), ['processMessageCallback']);
    await visit.expectEmpty();
    return { error: errors[0].error.message };
}

async function subscribeConcurrently(visit) {
    await visit.sender.sendMessages(Array.from({ length: 9 }, (_, body) => ({ body })));
    let running = 0;
    let most = 0;
    const { came, errors, subscription } = subscribe(
        visit.receiver(),
        async () => {
            running += 1;
            most = Math.max(most, running);
            // The first three wait for each other: a server that gave less credit would be found out.
            await until(() => most === 3, 'three handlers run at once');
            running -= 1;
        },
        { maxConcurrentCalls: 3 },
    );
    await until(() => came.length === 9 && running === 0, 'nine messages are handled');
    await subscription.close();
    assert.equal(most, 3);
    assertNoErrors(errors);
    await visit.expectEmpty();
    return { most };
}

async function iterator(visit) {
    await visit.sender.sendMessages([{ body: 'a' }, { body: 'b' }, { body: 'c' }]);
    const receiver = visit.receiver();
    const came = [];
    for await (const message of receiver.getMessageIterator()) {
        came.push(message.body);
        await receiver.completeMessage(message);
        if (came.length === 3) break;
    }
    assert.deepEqual(came, ['a', 'b', 'c']);
    await visit.expectEmpty();
    return { came };
}

async function sessionSubscribe(visit) {
    await visit.sender.sendMessages(['a', 'b', 'c'].map((body) => ({ body, sessionId: 'red' })));
    const receiver = await visit.client.acceptNextSession(visit.queue);
    const { came, errors, subscription } = subscribe(receiver);
    await until(() => came.length === 3, 'three messages are handled');
    await subscription.close();
    assert.deepEqual(bodies(came), ['a', 'b', 'c']);
    assertNoErrors(errors);
    await receiver.close();
    await visit.expectEmpty();
    return { came: bodies(came) };
}

export const features = {
    'subscribe-auto-complete': subscribeAutoComplete,
    'subscribe-by-hand': subscribeByHand,
    'subscribe-handler-error': subscribeHandlerError,
    'subscribe-concurrently': subscribeConcurrently,
    iterator,
    'session-subscribe': sessionSubscribe,
};
