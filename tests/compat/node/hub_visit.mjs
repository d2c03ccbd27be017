// What the features of event hubs need: producers and consumers of one hub, closed when the feature is over.

import { EventHubBufferedProducerClient, EventHubConsumerClient, EventHubProducerClient } from '@azure/event-hubs';
import WebSocket from 'ws';

import { until } from './visit.mjs';

// No retries: they would hide the first answer of the server.
const ONE_TRY = { maxRetries: 0, timeoutInMs: 60_000 };

export const EARLIEST = { offset: '-1' };
export const LATEST = { offset: '@latest' };

// A checkpoint store for one process: the contract of the SDK in its plainest form.
export class MemoryCheckpointStore {
    ownerships = new Map();
    checkpoints = new Map();

    async listOwnership() {
        return [...this.ownerships.values()];
    }

    async claimOwnership(wanted) {
        const claimed = [];
        for (const one of wanted) {
            const known = this.ownerships.get(one.partitionId);
            if (known && known.etag !== one.etag) continue;
            const owned = { ...one, etag: `${Math.random()}`, lastModifiedTimeInMs: Date.now() };
            this.ownerships.set(one.partitionId, owned);
            claimed.push(owned);
        }
        return claimed;
    }

    async updateCheckpoint(checkpoint) {
        this.checkpoints.set(checkpoint.partitionId, checkpoint);
    }

    async listCheckpoints() {
        return [...this.checkpoints.values()];
    }
}

// One feature's stay at its hub.
export class HubVisit {
    constructor(connectionString, transport, hub) {
        Object.assign(this, { connectionString, transport, hub, clients: [], subscriptions: [] });
    }

    get options() {
        const websocket = this.transport === 'websocket' ? { webSocketOptions: { webSocket: WebSocket } } : {};
        return { retryOptions: ONE_TRY, ...websocket };
    }

    // With the emulator's flag the SDK speaks plain TCP, without it TLS. WebSockets are always over TLS.
    get address() {
        const plain = this.connectionString.replace(/;?UseDevelopmentEmulator=true;?/i, '');
        return this.transport === 'tcp' ? `${plain};UseDevelopmentEmulator=true` : plain;
    }

    producer(options = {}, hub = this.hub) {
        return this.#kept(new EventHubProducerClient(this.address, hub, { ...this.options, ...options }));
    }

    // The SDK offers idempotent retries of its plain producer to its own buffered one only, by this very switch.
    idempotentProducer(partitionOptions) {
        const producer = this.producer();
        producer._enableIdempotentRetries = true;
        producer._partitionOptions = partitionOptions;
        return producer;
    }

    bufferedProducer(options) {
        return this.#kept(new EventHubBufferedProducerClient(this.address, this.hub, { ...this.options, ...options }));
    }

    consumer(options = {}, group = '$Default', store = undefined) {
        const own = { ...this.options, ...options };
        const client = store
            ? new EventHubConsumerClient(group, this.address, this.hub, store, own)
            : new EventHubConsumerClient(group, this.address, this.hub, own);
        return this.#kept(client);
    }

    #kept(client) {
        this.clients.push(client);
        return client;
    }

    // A subscription, and what it got. Without a partition it reads all of them.
    read(options = {}, { partition = '0', client = this.consumer(), checkpoints = false } = {}) {
        const reading = { events: [], errors: [], partitions: new Set(), last: undefined };
        const handlers = {
            async processInitialize(context) {
                reading.partitions.add(context.partitionId);
            },
            async processClose(reason, context) {
                reading.partitions.delete(context.partitionId);
            },
            async processEvents(events, context) {
                reading.events.push(...events.map((event) => ({ ...event, partitionId: context.partitionId })));
                reading.last = context.lastEnqueuedEventProperties ?? reading.last;
                if (checkpoints && events.length) await context.updateCheckpoint(events.at(-1));
            },
            async processError(error) {
                reading.errors.push(error);
            },
        };
        const own = { startPosition: EARLIEST, maxBatchSize: 100, maxWaitTimeInSeconds: 1, ...options };
        const subscription =
            partition === null ? client.subscribe(handlers, own) : client.subscribe(partition, handlers, own);
        this.subscriptions.push(subscription);
        reading.close = () => subscription.close();
        return reading;
    }

    // Exactly so many events, in the order of their arrival.
    async take(count, options, more) {
        const reading = this.read(options, more);
        await until(
            () => reading.events.length >= count || reading.errors.length,
            () => `${count} events, have ${reading.events.length}`,
        );
        if (reading.errors.length) throw reading.errors[0];
        await reading.close();
        return reading.events;
    }

    async close() {
        await Promise.allSettled(this.subscriptions.splice(0).map((one) => one.close()));
        await Promise.allSettled(this.clients.splice(0).map((client) => client.close()));
    }
}
