// Features of links: credit, drain, settlement and outcomes.

'use strict';

const assert = require('assert');

const SETTLED = 1; // snd-settle-mode: the sender settles in advance
const SECOND = 1; // rcv-settle-mode: the receiver settles after the sender

const numbers = (count) => [...Array(count).keys()];
const bodies = (received) => received.map((one) => one.message.body);
const sendNumbers = (client, address, count) => client.send(address, ...numbers(count).map((body) => ({ body })));

// Send one message and take it, not yet settled.
async function takeOne(client, address) {
    await client.send(address, { body: 'once' });
    const receiver = await client.openReceiver(address);
    receiver.add_credit(1);
    const [received] = await client.take(receiver, 1);
    return { receiver, delivery: received.delivery };
}

// The second delivery of a message, after what was done to the first.
async function takeAgain(client, address, settle) {
    const { receiver, delivery } = await takeOne(client, address);
    settle(delivery);
    receiver.add_credit(1);
    const [again] = await client.take(receiver, 1);
    again.delivery.accept();
    return again.message;
}

async function requireGone(peer, settle) {
    await peer.connected(async (client) => {
        const { delivery } = await takeOne(client, peer.address);
        settle(delivery);
        assert.deepStrictEqual(await client.leftIn(peer.address), []);
    });
}

const modifyAsFailed = (delivery) =>
    delivery.modified({ delivery_failed: true, message_annotations: { 'x-opt-tried-by': 'rhea' } });

module.exports = {
    'credit-window': (peer) =>
        peer.connected(async (client) => {
            const sender = await client.openSender(peer.address);
            const deliveries = [];
            for (const body of numbers(1000)) {
                await client.until(() => sender.sendable(), 'waiting for credit');
                deliveries.push(sender.send({ body }));
            }
            await client.until(() => deliveries.every((one) => one.remote_settled), 'waiting for all outcomes');
            const receiver = await client.openReceiver(peer.address, { credit_window: 50, autoaccept: true });
            assert.deepStrictEqual(bodies(await client.take(receiver, 1000)), numbers(1000));
        }),

    'credit-exact': (peer) =>
        peer.connected(async (client) => {
            await sendNumbers(client, peer.address, 10);
            const receiver = await client.openReceiver(peer.address);
            receiver.add_credit(4);
            const first = await client.take(receiver, 4);
            // A round trip on the same session: what the server sent before it is here.
            await sendNumbers(client, `${peer.address}.other`, 1);
            assert.deepStrictEqual(receiver.inbox, [], 'more messages came than there was credit for');
            receiver.add_credit(6);
            const second = await client.take(receiver, 6);
            assert.deepStrictEqual(bodies([...first, ...second]), numbers(10));
            [...first, ...second].forEach((one) => one.delivery.accept());
            await client.receive(`${peer.address}.other`, 1);
        }),

    'drain': (peer) =>
        peer.connected(async (client) => {
            await sendNumbers(client, peer.address, 3);
            const receiver = await client.openReceiver(peer.address);
            receiver.add_credit(10);
            const received = await client.drain(receiver);
            assert.deepStrictEqual(bodies(received), numbers(3));
            received.forEach((one) => one.delivery.accept());
            // The link works on, with new credit.
            await sendNumbers(client, peer.address, 1);
            assert.deepStrictEqual(receiver.inbox, [], 'a message came without credit');
            receiver.add_credit(1);
            const [last] = await client.take(receiver, 1);
            last.delivery.accept();
        }),

    'drain-empty': (peer) =>
        peer.connected(async (client) => {
            const receiver = await client.openReceiver(peer.address);
            receiver.add_credit(100);
            assert.deepStrictEqual(await client.drain(receiver), []);
        }),

    'presettled-send': (peer) =>
        peer.connected(async (client) => {
            const sender = await client.openSender(peer.address, { snd_settle_mode: SETTLED });
            numbers(10).forEach((body) => sender.send({ body }));
            await client.closeLink(sender);
            assert.deepStrictEqual(bodies(await client.receive(peer.address, 10)), numbers(10));
        }),

    'presettled-receive': (peer) =>
        peer.connected(async (client) => {
            await sendNumbers(client, peer.address, 3);
            const receiver = await client.openReceiver(peer.address, { snd_settle_mode: SETTLED });
            assert.strictEqual(receiver.snd_settle_mode, SETTLED, 'the server did not agree to settle');
            receiver.add_credit(3);
            const received = await client.take(receiver, 3);
            received.forEach((one) => assert.ok(one.delivery.remote_settled, 'the message came unsettled'));
            await client.closeLink(receiver);
            assert.deepStrictEqual(await client.leftIn(peer.address), []);
        }),

    'settle-second': (peer) =>
        peer.connected(async (client) => {
            await sendNumbers(client, peer.address, 1);
            const receiver = await client.openReceiver(peer.address, { rcv_settle_mode: SECOND });
            assert.strictEqual(receiver.rcv_settle_mode, SECOND, 'the server did not agree to the mode');
            receiver.add_credit(1);
            const [received] = await client.take(receiver, 1);
            received.delivery.accept();
            await client.until(() => received.delivery.remote_settled, 'waiting for the server to settle');
            await client.closeLink(receiver);
            assert.deepStrictEqual(await client.leftIn(peer.address), []);
        }),

    'outcome-accepted': (peer) => requireGone(peer, (delivery) => delivery.accept()),

    'outcome-rejected': (peer) =>
        requireGone(peer, (delivery) => delivery.reject({ condition: 'amqp:decode-error', description: 'unreadable' })),

    'outcome-released': (peer) =>
        peer.connected(async (client) => {
            const again = await takeAgain(client, peer.address, (delivery) => delivery.release());
            assert.strictEqual(again.body, 'once');
            assert.deepStrictEqual(await client.leftIn(peer.address), []);
        }),

    'outcome-modified': (peer) =>
        peer.connected(async (client) => {
            const again = await takeAgain(client, peer.address, modifyAsFailed);
            assert.strictEqual(again.body, 'once');
        }),

    'modified-delivery-count': (peer) =>
        peer.connected(async (client) => {
            const again = await takeAgain(client, peer.address, modifyAsFailed);
            assert.strictEqual(again.delivery_count, 1);
        }),

    'batched-dispositions': (peer) =>
        peer.connected(async (client) => {
            await sendNumbers(client, peer.address, 100);
            const receiver = await client.openReceiver(peer.address);
            receiver.add_credit(100);
            // rhea writes one disposition for neighbours that are accepted in one turn.
            (await client.take(receiver, 100)).forEach((one) => one.delivery.accept());
            await client.closeLink(receiver);
            assert.deepStrictEqual(await client.leftIn(peer.address), []);
        }),

    'detach-returns-unsettled': (peer) =>
        peer.connected(async (client) => {
            const { receiver } = await takeOne(client, peer.address);
            await client.closeLink(receiver);
            assert.deepStrictEqual(await client.leftIn(peer.address), ['once']);
        }),
};
