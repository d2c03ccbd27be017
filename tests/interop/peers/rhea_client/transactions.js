// Features of local transactions. rhea knows nothing of them, but lets us build the frames, except for the state of a
// transfer: messages cannot be sent in a transaction, only received.

'use strict';

const assert = require('assert');
const { message: rheaMessage, types } = require('rhea');
const { Unsupported } = require('./peer');

const COORDINATOR = 0x30;
const DECLARE = 0x31;
const DISCHARGE = 0x32;
const DECLARED = 0x33;
const TRANSACTIONAL_STATE = 0x34;

const SYMBOL = 0xa3;
const VALUE_SECTION = Buffer.from('005377', 'hex');

// A message whose body is a described list. rhea's own encoder would lose the descriptor.
function request(descriptor, fields) {
    const writer = new types.Writer();
    writer.write(types.wrap_described(fields, descriptor));
    return Buffer.concat([VALUE_SECTION, writer.toBuffer()]);
}

class Coordinator {
    static async attach(client) {
        const session = await client.openSession();
        const sender = session.create_sender('coordinator', {});
        const capabilities = types.wrap_array(['amqp:local-transactions'], SYMBOL);
        sender.set_source({});
        sender.local.attach.target = types.wrap_described([capabilities], COORDINATOR);
        sender.attach();
        await client.until(() => sender.is_remote_open() && sender.sendable(), 'attaching to the coordinator');
        return new Coordinator(client, sender);
    }

    constructor(client, sender) {
        this.client = client;
        this.sender = sender;
    }

    async declare() {
        const delivery = this.sender.send(request(DECLARE, [null]), undefined, 0);
        await this.client.until(() => delivery.remote_settled, 'declaring');
        const state = delivery.remote_state;
        assert.ok(state.descriptor && state.descriptor.value === DECLARED, `the server answered ${state}`);
        return state.value[0].value;
    }

    // Returns the outcome, as rhea unwraps it.
    async discharge(transactionId, isFailed) {
        const delivery = this.sender.send(request(DISCHARGE, [transactionId, isFailed]), undefined, 0);
        await this.client.until(() => delivery.remote_settled, 'discharging');
        return delivery.remote_state;
    }
}

// Accept one message in a transaction, discharge it, and return what is left in the queue.
async function leftAfterDischarge(client, address, isFailed) {
    await client.send(address, { body: 'once' });
    const receiver = await client.openReceiver(address);
    receiver.add_credit(1);
    const [{ delivery }] = await client.take(receiver, 1);
    const coordinator = await Coordinator.attach(client);
    const transactionId = await coordinator.declare();
    delivery.update(false, types.wrap_described([transactionId, rheaMessage.accepted().described()], TRANSACTIONAL_STATE));
    const outcome = await coordinator.discharge(transactionId, isFailed);
    assert.strictEqual(outcome.constructor.composite_type, 'accepted');
    // After a rollback the delivery is the receiver's again, unless the server has settled it.
    if (isFailed) delivery.release();
    await client.closeLink(receiver);
    return client.leftIn(address);
}

const cannotPost = async () => {
    throw new Unsupported('rhea cannot put a state on a transfer');
};

module.exports = {
    'transaction-commit': cannotPost,

    'transaction-rollback': cannotPost,

    'transaction-accept-commit': (peer) =>
        peer.connected(async (client) => {
            assert.deepStrictEqual(await leftAfterDischarge(client, peer.address, false), []);
        }),

    'transaction-accept-rollback': (peer) =>
        peer.connected(async (client) => {
            assert.deepStrictEqual(await leftAfterDischarge(client, peer.address, true), ['once']);
        }),

    'transaction-unknown': (peer) =>
        peer.connected(async (client) => {
            const coordinator = await Coordinator.attach(client);
            const outcome = await coordinator.discharge(Buffer.from('no such transaction'), false);
            assert.strictEqual(outcome.constructor.composite_type, 'rejected');
            assert.strictEqual(outcome.error.condition, 'amqp:transaction:unknown-id');
        }),
};
