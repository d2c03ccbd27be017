// Features of message contents: what is sent comes back.

'use strict';

const assert = require('assert');
const { message: rheaMessage, types } = require('rhea');
const { Unsupported } = require('./peer');

const UUID = Buffer.from('f81d4fae7dec11d0a76500a0c91e6bf6', 'hex');
const bytes = (length, value = 0xff) => Buffer.alloc(length, value);
const pattern = (length) => Buffer.from(Array.from({ length }, (_, index) => index % 251));

// Every type, at the ends of its range: as it is sent, and as rhea shows it when it comes back.
const SIMPLE_VALUES = {
    'null': [null, null],
    'true': [true, true],
    'false': [false, false],
    'ubyte': [types.wrap_ubyte(255), 255],
    'ushort': [types.wrap_ushort(65535), 65535],
    'uint-0': [types.wrap_uint(0), 0],
    'uint-small': [types.wrap_uint(255), 255],
    'uint': [types.wrap_uint(0xffffffff), 0xffffffff],
    'ulong-0': [types.wrap_ulong(0), 0],
    'ulong-small': [types.wrap_ulong(255), 255],
    'ulong': [types.wrap_ulong(bytes(8)), bytes(8)],
    'byte': [types.wrap_byte(-128), -128],
    'short': [types.wrap_short(-32768), -32768],
    'int-small': [types.wrap_int(-128), -128],
    'int': [types.wrap_int(-2147483648), -2147483648],
    'long-small': [types.wrap_long(127), 127],
    'long': [types.wrap_long(-(2 ** 52)), -(2 ** 52)],
    'float': [types.wrap_float(-0.5), -0.5],
    'double': [types.wrap_double(Number.MAX_VALUE), Number.MAX_VALUE],
    'decimal32': [types.Decimal32(bytes(4, 0x22)), bytes(4, 0x22)],
    'decimal64': [types.Decimal64(bytes(8, 0x22)), bytes(8, 0x22)],
    'decimal128': [types.Decimal128(bytes(16, 0x22)), bytes(16, 0x22)],
    'char': [types.wrap_char(0x1f600), 0x1f600],
    'timestamp': [new Date(1311704463521), new Date(1311704463521)],
    'timestamp-before-1970': [new Date(-1), new Date(-1)],
    'uuid': [types.wrap_uuid(UUID), UUID],
    'binary-empty': [bytes(0), bytes(0)],
    'binary': [pattern(256), pattern(256)],
    'string-empty': ['', ''],
    'string': ['Grüße, Καλημέρα, 😀', 'Grüße, Καλημέρα, 😀'],
    'string-long': ['x'.repeat(256), 'x'.repeat(256)],
    'symbol': [types.wrap_symbol('amqp:some:symbol'), 'amqp:some:symbol'],
};
const column = (index) => Object.fromEntries(Object.entries(SIMPLE_VALUES).map(([name, pair]) => [name, pair[index]]));
const SENT_VALUES = column(0);
const EXPECTED_VALUES = column(1);

// The message as it comes back from the server.
async function echo(peer, message) {
    let received;
    await peer.connected(async (client) => {
        await client.send(peer.address, message);
        [received] = await client.receive(peer.address, 1);
    });
    return received.message;
}

async function requireSameBody(peer, body, expected = body) {
    const received = await echo(peer, { body });
    assert.deepStrictEqual(received.body, expected);
}

async function requireSameFields(peer, message) {
    const received = await echo(peer, { body: 'x', ...message });
    for (const [name, value] of Object.entries(message)) assert.deepStrictEqual(received[name], value, name);
}

// Bytes are shown undecoded only for a message format that rhea does not know.
async function requireSameBytes(peer, sent, format) {
    await peer.connected(async (client) => {
        const sender = await client.openSender(peer.address);
        assert.strictEqual(await client.outcomeOf(sender.send(sent, undefined, format)), 'accepted');
        const [received] = await client.receive(peer.address, 1);
        assert.strictEqual(received.format, format);
        // The server may put a header and annotations in front, never touch what follows.
        const tail = received.message.subarray(received.message.length - sent.length);
        assert.strictEqual(tail.toString('hex'), sent.toString('hex'));
    });
}

module.exports = {
    'body-binary': async (peer) => {
        for (const size of [0, 1, 255, 256, 70000]) {
            const { body } = await echo(peer, { body: rheaMessage.data_section(pattern(size)) });
            assert.strictEqual(body.typecode, 0x75);
            assert.deepStrictEqual(body.content, pattern(size));
        }
    },

    'body-string': async (peer) => {
        for (const text of ['', 'Grüße', 'x'.repeat(255), 'x'.repeat(256), '😀'.repeat(10000)]) {
            await requireSameBody(peer, text);
        }
    },

    'body-null': (peer) => requireSameBody(peer, null),

    'body-list': async (peer) => {
        const nested = (values) => [...values, values, [[[[values]]]]];
        await requireSameBody(peer, []);
        await requireSameBody(peer, nested(Object.values(SENT_VALUES)), nested(Object.values(EXPECTED_VALUES)));
    },

    'body-map': async (peer) => {
        await requireSameBody(peer, {});
        await requireSameBody(peer, { ...SENT_VALUES, nested: { a: 1 } }, { ...EXPECTED_VALUES, nested: { a: 1 } });
    },

    'body-array': async (peer) => {
        await requireSameBody(peer, types.wrap_array([1, -2147483648], 0x71), [1, -2147483648]);
        await requireSameBody(peer, types.wrap_array(['a', 'b'.repeat(300)], 0xb3), ['a', 'b'.repeat(300)]);
        await requireSameBody(peer, types.wrap_array([UUID], 0x98), [UUID]);
    },

    'body-described': async () => {
        throw new Unsupported('rhea has no place for the descriptor of a body');
    },

    'body-sequence': async (peer) => {
        const { body } = await echo(peer, { body: rheaMessage.sequence_section([1, 'two', [3]]) });
        assert.strictEqual(body.typecode, 0x76);
        assert.deepStrictEqual(body.content, [1, 'two', [3]]);
    },

    'body-data-sections': async (peer) => {
        const sections = [Buffer.from('one'), pattern(300)];
        const { body } = await echo(peer, { body: rheaMessage.data_sections(sections) });
        assert.strictEqual(body.typecode, 0x75);
        assert.deepStrictEqual(body.content, sections);
    },

    'header': async (peer) => {
        const received = await echo(peer, { body: 'x', durable: true, priority: 7, ttl: 3600000 });
        assert.deepStrictEqual([received.durable, received.priority], [true, 7]);
        // A server may count the time that a message waited.
        assert.ok(received.ttl > 3500000 && received.ttl <= 3600000, `time to live ${received.ttl}`);
    },

    'properties': (peer) =>
        requireSameFields(peer, {
            message_id: 'the id',
            user_id: Buffer.from('guest'),
            to: 'the address',
            subject: 'the subject',
            reply_to: 'the reply',
            correlation_id: 'the correlation',
            content_type: 'text/plain',
            content_encoding: 'identity',
            absolute_expiry_time: new Date(4102444800000),
            creation_time: new Date(1311704463500),
            group_id: 'the group',
            group_sequence: 4294967295,
            reply_to_group_id: 'the reply group',
        }),

    'message-id-types': async (peer) => {
        await requireSameFields(peer, { message_id: 'text', correlation_id: 'text' });
        await requireSameFields(peer, { message_id: 2 ** 52, correlation_id: 0 });
        await requireSameFields(peer, { message_id: UUID, correlation_id: UUID });
        const binary = types.wrap_binary(Buffer.from([0, 255]));
        const received = await echo(peer, { body: 'x', message_id: binary, correlation_id: binary });
        assert.deepStrictEqual(received.message_id, Buffer.from([0, 255]));
    },

    'message-annotations': async (peer) => {
        const annotations = { 'x-opt-text': 'text', 'x-opt-list': [1, [2]], 'x-opt-time': new Date(1) };
        const received = await echo(peer, { body: 'x', message_annotations: annotations });
        // The server may have added annotations of its own.
        for (const key of Object.keys(annotations)) {
            assert.deepStrictEqual(received.message_annotations[key], annotations[key]);
        }
    },

    'application-properties': async (peer) => {
        const described = types.wrap_described('inner', 'example:described');
        const sent = { ...SENT_VALUES, described };
        const { described: received, ...others } = (await echo(peer, { application_properties: sent }))
            .application_properties;
        assert.deepStrictEqual(others, EXPECTED_VALUES);
        assert.deepStrictEqual([received.descriptor.value, received.value], ['example:described', 'inner']);
    },

    'footer': async (peer) => {
        const received = await echo(peer, { body: 'x', footer: { checksum: bytes(4) } });
        assert.deepStrictEqual(received.footer, { checksum: bytes(4) });
    },

    'message-format': (peer) => requireSameBytes(peer, Buffer.from('005377a10178', 'hex'), 0x01020304),

    'bare-message-bytes': (peer) => {
        // Descriptors as 8-byte ulong and as symbol, 4-byte sizes and a 4-byte zero where shorter forms exist.
        const properties = '00800000000000000073d00000000b00000001b1000000026964';
        const applicationProperties = '00800000000000000074d10000000f00000002b1000000016b7000000000';
        const value = '00a30c616d71703a76616c75653a2a810000000000000001';
        return requireSameBytes(peer, Buffer.from(properties + applicationProperties + value, 'hex'), 1);
    },

    'large-message': (peer) =>
        peer.connected(
            async (client) => {
                await client.send(peer.address, { body: pattern(300000) });
                const [received] = await client.receive(peer.address, 1);
                assert.ok(pattern(300000).equals(received.message.body));
            },
            { max_frame_size: 4096 },
        ),

    'session-window': (peer) =>
        peer.connected(
            async (client) => {
                const bodies = [0, 1, 2, 3, 4].map((number) => bytes(100000, number));
                await client.send(peer.address, ...bodies.map((body) => ({ body })));
                const session = await client.openSession({ incoming: 32 });
                // rhea opens its window again when it has something else to say, such as an acceptance; hence at
                // once, and hence the window has to hold a message: 25 of its 32 frames.
                const receiver = await client.openReceiver(peer.address, { autoaccept: true }, session);
                receiver.add_credit(5);
                const received = await client.take(receiver, 5);
                received.forEach((one, index) => assert.ok(bodies[index].equals(one.message.body)));
            },
            { max_frame_size: 4096 },
        ),
};
