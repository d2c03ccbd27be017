// What the SDK would write to its log: the only place where it tells of trouble that it got over by itself.

import { createRequire } from 'node:module';
import { format } from 'node:util';

// The SDK is a CommonJS module, so it has the CommonJS instance of the logger; an import would give another one.
const { AzureLogger, setLogLevel } = createRequire(import.meta.url)('@azure/logger');

export const sdkLog = {
    lines: [],

    clear() {
        this.lines = [];
    },

    matching(pattern) {
        return this.lines.filter((line) => pattern.test(line));
    },
};

setLogLevel('warning');
AzureLogger.log = (...parts) => sdkLog.lines.push(format(...parts).split('\n')[0]);
