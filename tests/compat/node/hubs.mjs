// Everything that the official JavaScript SDK can do with event hubs, against a running Tandem.
//
//   node hubs.mjs CONNECTION_STRING HUBS tcp|websocket
//
// HUBS is a JSON object of the features to run and the empty hub of each, with four partitions and a consumer group
// "audit". hub_features.json says what each feature shows, and one JSON line per feature how it went, as for tour.mjs.
// All of them run at once: each has a hub of its own, and most of their time is spent waiting.
// For WebSockets NODE_EXTRA_CA_CERTS names the authority that signed the certificate of the server.

import { features } from './features/hubs.mjs';
import { features as producers } from './features/hub_producers.mjs';
import { HubVisit } from './hub_visit.mjs';
import { within } from './visit.mjs';

const FEATURE_LIMIT_MS = 180_000;
const CLOSE_LIMIT_MS = 30_000;
const [address, hubs, transport] = process.argv.slice(2);

async function run(feature, hub, perform) {
    const started = performance.now();
    const visit = new HubVisit(address, transport, hub);
    let report = { ok: true };
    try {
        await within(FEATURE_LIMIT_MS, perform(visit), 'the feature');
    } catch (surprise) {
        report = { ok: false, surprise: surprise.stack };
    }
    await within(CLOSE_LIMIT_MS, visit.close(), 'closing the clients').catch(() => {});
    return { feature, seconds: Math.round(performance.now() - started) / 1000, ...report };
}

const named = JSON.parse(hubs);
const all = Object.entries({ ...features, ...producers }).filter(([feature]) => feature in named);
const reports = await Promise.all(all.map(([feature, perform]) => run(feature, named[feature], perform)));
for (const report of reports) console.log(JSON.stringify(report));
process.exit(0);
