// rhea's events, turned into things to wait for.

'use strict';

const rhea = require('rhea');

// Long enough for a loaded machine, short enough that a server which does not answer is reported soon.
const ANSWER_LIMIT_MS = 60000;

const GOOD_EVENTS = [
    'connection_open', 'connection_close', 'session_open', 'session_close', 'sender_open', 'sender_close',
    'receiver_open', 'receiver_close', 'receiver_flow', 'sendable', 'settled', 'accepted', 'rejected', 'released',
    'modified',
];
const BAD_EVENTS = [
    'connection_error', 'session_error', 'sender_error', 'receiver_error', 'protocol_error', 'disconnected', 'error',
];

// rhea cannot do this.
class Unsupported extends Error {}

// One connection. Whatever happens on it wakes those who wait; whatever goes wrong fails them.
class Client {
    constructor(options) {
        this.failure = undefined;
        this.waiters = new Set();
        this.container = rhea.create_container();
        GOOD_EVENTS.forEach((name) => this.container.on(name, () => this.wake()));
        BAD_EVENTS.forEach((name) => this.container.on(name, (context) => this.fail(name, context)));
        this.container.on('message', (context) => {
            context.receiver.inbox.push(context);
            this.wake();
        });
        this.container.on('receiver_drained', (context) => {
            context.receiver.isDrained = true;
            this.wake();
        });
        this.connection = this.container.connect({ reconnect: false, ...options });
    }

    wake() {
        // After rhea has finished with the event: its own state changes around the call of a listener.
        setImmediate(() => this.waiters.forEach((waiter) => waiter()));
    }

    fail(name, context) {
        const endpoint = context.receiver || context.sender || context.session || context.connection;
        const error = context.error || (endpoint && endpoint.error) || context;
        const text = error.condition ? `${error.condition}: ${error.description}` : error.message || '';
        this.failure = this.failure || new Error(`${name} ${text}`.trim());
        this.wake();
    }

    // Wait for a condition, to be looked at after every event.
    until(condition, what) {
        return new Promise((resolve, reject) => {
            const waiter = () => {
                if (condition()) settle(resolve);
                else if (this.failure) settle(() => reject(this.failure));
            };
            const timer = setTimeout(() => settle(() => reject(new Error(`timed out: ${what}`))), ANSWER_LIMIT_MS);
            const settle = (answer) => {
                clearTimeout(timer);
                this.waiters.delete(waiter);
                answer();
            };
            this.waiters.add(waiter);
            waiter();
        });
    }

    async openSession(bufferSize) {
        const session = this.connection.create_session(bufferSize);
        session.open();
        await this.until(() => session.is_remote_open(), 'beginning a session');
        return session;
    }

    async openSender(address, options = {}, session = this.connection) {
        const sender = session.open_sender({ target: address, ...options });
        await this.until(() => sender.is_remote_open() && sender.sendable(), 'attaching a sender and getting credit');
        return sender;
    }

    // A receiver with no credit but what is given by hand.
    async openReceiver(address, options = {}, session = this.connection) {
        const receiver = session.open_receiver({ source: address, credit_window: 0, autoaccept: false, ...options });
        receiver.inbox = [];
        await this.until(() => receiver.is_remote_open(), 'attaching a receiver');
        return receiver;
    }

    async closeLink(link) {
        link.close();
        await this.until(() => link.is_itself_closed(), 'closing a link');
        // rhea forgets the link, and with it the name, one turn later.
        await new Promise(setImmediate);
    }

    // The next messages, as contexts of rhea: message, delivery, format.
    async take(receiver, count) {
        await this.until(() => receiver.inbox.length >= count, `waiting for ${count} messages`);
        return receiver.inbox.splice(0, count);
    }

    // Ask for the credit back. What arrived before it was back is returned.
    async drain(receiver) {
        receiver.isDrained = false;
        receiver.drain_credit();
        await this.until(() => receiver.isDrained, 'draining');
        receiver.drain = false;
        return receiver.inbox.splice(0);
    }

    // Wait until the server has settled, and say how: accepted, rejected, ...
    async outcomeOf(delivery) {
        await this.until(() => delivery.remote_settled, 'waiting for the outcome');
        return delivery.remote_state.constructor.composite_type;
    }

    // Send and insist that every message is accepted. Bytes are sent as they are.
    async send(address, ...messages) {
        const sender = await this.openSender(address);
        for (const message of messages) {
            const format = Buffer.isBuffer(message) ? 0 : undefined;
            const outcome = await this.outcomeOf(sender.send(message, undefined, format));
            if (outcome !== 'accepted') throw new Error(`the server answered ${outcome}`);
        }
        await this.closeLink(sender);
    }

    // Receive and accept.
    async receive(address, count) {
        const receiver = await this.openReceiver(address);
        receiver.add_credit(count);
        const received = await this.take(receiver, count);
        received.forEach((one) => one.delivery.accept());
        await this.closeLink(receiver);
        return received;
    }

    // The bodies of all messages that are still in a queue, which is empty afterwards.
    async leftIn(address) {
        const receiver = await this.openReceiver(address);
        receiver.add_credit(100);
        const received = await this.drain(receiver);
        received.forEach((one) => one.delivery.accept());
        await this.closeLink(receiver);
        return received.map((one) => one.message.body);
    }

    async close(error) {
        this.connection.close(error);
        await this.until(() => this.connection.is_closed(), 'closing the connection');
    }
}

// The server under test, and the queue of the feature.
class Peer {
    constructor(host, port, address, user, password) {
        Object.assign(this, { host, port, address, user, password });
    }

    // A connection, SASL ANONYMOUS unless the options say otherwise.
    async connect(options = {}) {
        const client = new Client({ host: this.host, port: this.port, username: 'anonymous', ...options });
        await client.until(() => client.connection.is_remote_open(), 'opening a connection');
        return client;
    }

    // Run the steps on a connection, and close it in good order if they succeed.
    async connected(steps, options) {
        const client = await this.connect(options);
        await steps(client);
        await client.close();
    }
}

module.exports = { Peer, Unsupported };
