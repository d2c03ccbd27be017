// What the SDK would write to its log: the only place where it tells of trouble that it got over by itself.

import { AsyncLocalStorage } from 'node:async_hooks';
import { createRequire } from 'node:module';
import { format } from 'node:util';

// The SDK is a CommonJS module, so it has the CommonJS instance of the logger; an import would give another one.
const { AzureLogger, setLogLevel } = createRequire(import.meta.url)('@azure/logger');

// Features run side by side. Timers and sockets that a feature causes write to the lines of that feature.
const linesOfFeature = new AsyncLocalStorage();

export const sdkLog = {
    // Run a feature with a log of its own, which is empty at first.
    run(feature) {
        return linesOfFeature.run([], feature);
    },

    get lines() {
        return linesOfFeature.getStore();
    },

    matching(pattern) {
        return this.lines.filter((line) => pattern.test(line));
    },
};

setLogLevel('warning');
AzureLogger.log = (...parts) => sdkLog.lines?.push(format(...parts).split('\n')[0]);
