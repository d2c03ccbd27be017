// A client on rhea that tries out a server. See tests/interop/peers/features.py for what it prints.
//
//   node main.js HOST PORT ADDRESS [FEATURE...]

'use strict';

const { Peer, Unsupported } = require('./peer');

const features = {
    ...require('./connections'),
    ...require('./messages'),
    ...require('./links'),
    ...require('./transactions'),
};

async function run(name, peer) {
    const started = process.hrtime.bigint();
    let outcome = 'passed';
    let detail = '';
    try {
        await features[name](peer);
    } catch (failure) {
        outcome = failure instanceof Unsupported ? 'unsupported' : 'failed';
        detail = failure instanceof Error ? failure.message : String(failure);
    }
    const seconds = Number((process.hrtime.bigint() - started) / 1000000n) / 1000;
    return { feature: name, outcome, detail, seconds };
}

async function main() {
    const [host, port, address, ...wanted] = process.argv.slice(2);
    const user = process.env.AMQP_USER || 'guest';
    const password = process.env.AMQP_PASSWORD || 'guest';
    for (const name of wanted.length ? wanted : Object.keys(features)) {
        const peer = new Peer(host, Number(port), `${address}.${name}`, user, password);
        const result = await run(name, peer);
        process.stdout.write(JSON.stringify(result) + '\n');
    }
}

// A connection that failed may still have sockets and timers; they must not keep the process alive.
main().then(() => process.exit(0));
