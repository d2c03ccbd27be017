// Features of connections, sessions and the naming of links.

'use strict';

const assert = require('assert');

// rhea gives up after twice this time. Servers refuse less than a second.
const IDLE_TIMEOUT_MS = 2000;

const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

module.exports = {
    'sasl-anonymous': (peer) => peer.connected(async () => {}),

    'sasl-plain': (peer) =>
        peer.connected(
            async (client) => {
                await client.send(peer.address, { body: 'authenticated' });
                await client.receive(peer.address, 1);
            },
            { username: peer.user, password: peer.password },
        ),

    'sasl-plain-refused': async (peer) => {
        const credentials = { username: peer.user, password: `not ${peer.password}` };
        // rhea says this for a SASL outcome with the code auth, and for nothing else.
        await assert.rejects(peer.connect(credentials), /Failed to authenticate: 1/);
    },

    'close-with-error': async (peer) => {
        const client = await peer.connect();
        await client.close({ condition: 'amqp:internal-error', description: 'the client has had enough' });
    },

    'idle-timeout': (peer) =>
        peer.connected(
            async (client) => {
                await pause(IDLE_TIMEOUT_MS * 2);
                await client.send(peer.address, { body: 'still here' });
                await client.receive(peer.address, 1);
            },
            { idle_time_out: IDLE_TIMEOUT_MS },
        ),

    'two-sessions': (peer) =>
        peer.connected(async (client) => {
            const session = await client.openSession();
            const receiver = await client.openReceiver(peer.address, {}, session);
            receiver.add_credit(2);
            await client.send(peer.address, { body: 'from one session to the other' });
            const [received] = await client.take(receiver, 1);
            assert.strictEqual(received.message.body, 'from one session to the other');
            session.close();
            await client.until(() => session.is_itself_closed(), 'ending a session');
            // The delivery was not settled when its session ended, so that the other session may get it again.
            await client.leftIn(peer.address);
            await client.send(peer.address, { body: 'the other session lives on' });
            assert.deepStrictEqual(await client.leftIn(peer.address), ['the other session lives on']);
        }),

    'many-links': (peer) =>
        peer.connected(async (client) => {
            const numbers = [...Array(50).keys()];
            const addresses = numbers.map((number) => `${peer.address}.${number}`);
            const senders = await Promise.all(addresses.map((address) => client.openSender(address)));
            const receivers = await Promise.all(addresses.map((address) => client.openReceiver(address)));
            senders.forEach((sender, number) => sender.send({ body: number }));
            for (const number of numbers) {
                receivers[number].add_credit(1);
                const [received] = await client.take(receivers[number], 1);
                assert.strictEqual(received.message.body, number);
                received.delivery.accept();
            }
        }),

    'link-reattach': (peer) =>
        peer.connected(async (client) => {
            for (let attempt = 0; attempt < 3; attempt++) {
                await client.send(peer.address, { body: attempt });
                const receiver = await client.openReceiver(peer.address, { name: 'the same name' });
                receiver.add_credit(1);
                const [received] = await client.take(receiver, 1);
                assert.strictEqual(received.message.body, attempt);
                received.delivery.accept();
                await client.closeLink(receiver);
            }
        }),
};
