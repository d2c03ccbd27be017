// A tour of everything that the official JavaScript SDK can do with queues and topics, against a running Tandem.
//
//   node tour.mjs [--keep-going] CONNECTION_STRING QUEUES tcp|tls|websocket
//
// QUEUES is a JSON object of features and the empty queue for each, or a topic: {"send-one": "orders", ...}.
// features.json says what each feature shows, which settings its queue needs or which subscriptions its topic has. Several
// features run side by side: most of their time is spent waiting. One JSON line per feature says how it went:
//
//   {"feature": "send-one", "ok": true, "seconds": 0.1, "seen": ...}
//   {"feature": "send-one", "ok": false, "seconds": 0.1, "surprise": "...", "log": [...]}
//
// After a surprise no other feature is started, unless there is --keep-going; the exit code is then 1.
// For TLS and WebSockets NODE_EXTRA_CA_CERTS names the authority that signed the certificate of the server.

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';

import * as messages from './features/messages.mjs';
import * as receiving from './features/receiving.mjs';
import * as refusals from './features/refusals.mjs';
import * as rules from './features/rules.mjs';
import * as scheduling from './features/scheduling.mjs';
import * as sessions from './features/sessions.mjs';
import * as settlement from './features/settlement.mjs';
import * as streaming from './features/streaming.mjs';
import * as topics from './features/topics.mjs';
import { sdkLog } from './sdk_log.mjs';
import { Visit, within } from './visit.mjs';

// How many features are under way at a time.
const AT_ONCE = 8;
// Long enough for the waits of a feature on a slow machine, short enough that a server which does not answer is reported,
// feature by feature, before the limit of the whole run.
const FEATURE_LIMIT_MS = 120_000;
const CLOSE_LIMIT_MS = 30_000;

const features = {
    ...messages.features,
    ...receiving.features,
    ...scheduling.features,
    ...settlement.features,
    ...sessions.features,
    ...streaming.features,
    ...refusals.features,
    ...topics.features,
    ...rules.features,
};

async function run(feature, visit) {
    const started = performance.now();
    let report;
    try {
        const seen = await within(FEATURE_LIMIT_MS, features[feature](visit), 'the feature');
        await within(CLOSE_LIMIT_MS, visit.close(), 'closing the clients');
        report = { ok: true, seen };
    } catch (surprise) {
        report = { ok: false, surprise: describe(surprise), log: sdkLog.lines.slice(-20) };
        // Whatever can be closed is closed, so that it does not disturb the next feature.
        await within(CLOSE_LIMIT_MS, visit.close(), 'closing the clients').catch(() => {});
    }
    return { feature, ok: report.ok, seconds: Math.round(performance.now() - started) / 1000, ...report };
}

function describe(surprise) {
    if (!(surprise instanceof Error)) return `thrown: ${JSON.stringify(surprise)}`;
    return surprise.code ? `${surprise.code}: ${surprise.stack}` : surprise.stack;
}

async function main() {
    const given = process.argv.slice(2);
    const isKeptGoing = given[0] === '--keep-going';
    const [connectionString, queues, transport] = isKeptGoing ? given.slice(1) : given;
    const listed = JSON.parse(await readFile(new URL('features.json', import.meta.url), 'utf8'));
    assert.deepEqual(Object.keys(features).sort(), Object.keys(listed).sort(), 'features.json lists other features');
    const waiting = Object.entries(JSON.parse(queues));
    for (const [feature] of waiting) {
        if (!(feature in features)) throw new Error(`${feature}: no such feature, see features.json`);
    }
    let surprises = 0;
    const runInTurn = async () => {
        while (waiting.length && (isKeptGoing || !surprises)) {
            const [feature, queue] = waiting.shift();
            const report = await sdkLog.run(() => run(feature, new Visit(connectionString, transport, queue)));
            process.stdout.write(JSON.stringify(report) + '\n');
            surprises += report.ok ? 0 : 1;
        }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, runInTurn));
    return surprises ? 1 : 0;
}

// A feature that failed may have left sockets and timers; they must not keep the process alive.
main().then(
    (code) => process.exit(code),
    (error) => {
        process.stderr.write(`${error.stack}\n`);
        process.exit(2);
    },
);
