// Features of rules, by the manager that the SDK has for them: over AMQP, and not over HTTP.

import assert from 'node:assert/strict';

import { bodies, refused } from '../visit.mjs';

const SUBSCRIPTION = 'Inventory';

const manager = (visit) => visit.client.createRuleManager(visit.queue, SUBSCRIPTION);

async function listed(rules) {
    const found = [];
    for await (const rule of rules.listRules()) found.push(rule);
    return found;
}

async function names(rules) {
    return (await listed(rules)).map((rule) => rule.name).sort();
}

// Exactly so many messages of the subscription, which is empty afterwards.
async function received(visit, count) {
    const receiver = visit.subscriber(SUBSCRIPTION, { receiveMode: 'receiveAndDelete' });
    const messages = await visit.take(receiver, count);
    assert.deepEqual(bodies(await receiver.peekMessages(10)), []);
    await receiver.close();
    return messages;
}

// Rules apply to what is sent after they were made.
async function ruleManager(visit) {
    const rules = manager(visit);
    const [byDefault] = await rules.getRules();
    assert.deepEqual([byDefault.name, byDefault.filter.sqlExpression], ['$Default', '1=1']);
    await visit.sender.sendMessages({ body: 'before', applicationProperties: { n: 0 } });
    await rules.createRule('large', { sqlExpression: "n > 10 AND colour IN ('red', 'blue')" });
    await rules.deleteRule('$Default');
    assert.deepEqual(await names(rules), ['large']);
    await visit.sender.sendMessages([
        { body: 'small', applicationProperties: { n: 10, colour: 'red' } },
        { body: 'large', applicationProperties: { n: 11, colour: 'red' } },
        { body: 'green', applicationProperties: { n: 11, colour: 'green' } },
    ]);
    assert.deepEqual(bodies(await received(visit, 2)), ['before', 'large']);
    const [{ filter, action }] = await rules.getRules();
    assert.equal(filter.sqlExpression, "n > 10 AND colour IN ('red', 'blue')");
    assert.equal(action.sqlExpression, undefined);
    await rules.deleteRule('large');
    assert.deepEqual(await rules.getRules(), []);
    return { filter };
}

async function ruleCorrelation(visit) {
    const rules = manager(visit);
    await rules.deleteRule('$Default');
    const filter = {
        correlationId: 'a',
        messageId: 'b',
        to: 'c',
        replyTo: 'd',
        subject: 'e',
        sessionId: 'f',
        replyToSessionId: 'g',
        contentType: 'h',
        applicationProperties: { text: 'x', number: 7, half: 0.5, flag: true },
    };
    await rules.createRule('whole', filter);
    const [found] = await rules.getRules();
    assert.deepEqual(found.filter, filter);
    const { applicationProperties, ...system } = filter;
    const variants = [
        filter,
        { ...filter, subject: 'E' },
        { ...filter, to: undefined },
        { ...filter, applicationProperties: { ...applicationProperties, number: '7' } },
        { ...filter, applicationProperties: { ...applicationProperties, flag: 'true' } },
        { ...system },
        { ...filter, applicationProperties: { ...applicationProperties, more: 1 } },
    ];
    await visit.sender.sendMessages(variants.map((message, body) => ({ ...message, body })));
    assert.deepEqual(bodies(await received(visit, 2)), [0, 6]);
    return { filter: found.filter };
}

async function ruleTypes(visit) {
    const rules = manager(visit);
    await rules.deleteRule('$Default');
    const values = { text: '1', one: 1, minus: -1, large: 2 ** 40, half: 1.5, truth: true };
    for (const [name, value] of Object.entries(values)) {
        await rules.createRule(name, { applicationProperties: { value } }, { sqlExpression: `SET rule = '${name}'` });
    }
    for (const value of Object.values(values)) await visit.sender.sendMessages({ body: value, applicationProperties: { value } });
    const found = await received(visit, Object.keys(values).length);
    assert.deepEqual(found.map((message) => message.applicationProperties.RuleName), Object.keys(values));
    const listedValues = (await listed(rules)).map((rule) => [rule.name, rule.filter.applicationProperties.value]);
    assert.deepEqual(Object.fromEntries(listedValues), values);
    return { values };
}

async function ruleTrueAndFalse(visit) {
    const rules = manager(visit);
    await rules.deleteRule('$Default');
    await rules.createRule('nothing', { sqlExpression: '1=0' });
    await visit.sender.sendMessages({ body: 'unseen' });
    await rules.createRule('everything', { sqlExpression: '1=1' });
    await visit.sender.sendMessages({ body: 'seen' });
    assert.deepEqual(bodies(await received(visit, 1)), ['seen']);
    const filters = Object.fromEntries((await rules.getRules()).map((rule) => [rule.name, rule.filter.sqlExpression]));
    assert.deepEqual(filters, { nothing: '1=0', everything: '1=1' });
    return { filters };
}

// One copy for all rules without an action, one for each rule with one.
async function ruleActions(visit) {
    const rules = manager(visit);
    const action = { sqlExpression: "SET priority = 'high'; REMOVE secret; SET sys.Label = 'raised'" };
    await rules.createRule('raise', { sqlExpression: 'n > 10' }, action);
    await rules.createRule('also', { applicationProperties: { n: 20 } });
    const sent = { body: 'x', subject: 'plain', applicationProperties: { n: 20, secret: 's' } };
    await visit.sender.sendMessages(sent);
    const found = await received(visit, 2);
    const changed = found.find((message) => message.applicationProperties.RuleName);
    const plain = found.find((message) => message !== changed);
    assert.deepEqual(changed.applicationProperties, { n: 20, priority: 'high', RuleName: 'raise' });
    assert.equal(changed.subject, 'raised');
    assert.deepEqual(plain.applicationProperties, sent.applicationProperties);
    assert.equal(plain.subject, 'plain');
    const raise = (await rules.getRules()).find((rule) => rule.name === 'raise');
    assert.deepEqual(raise.action, action);
    return { changed: changed.applicationProperties };
}

async function ruleErrors(visit) {
    const rules = manager(visit);
    await refused(rules.createRule('$Default', { sqlExpression: '1=1' }), 'MessagingEntityAlreadyExists');
    await refused(rules.deleteRule('missing'), 'MessagingEntityNotFound');
    const bad = await refused(rules.createRule('bad', { sqlExpression: 'n = = 1' }), 'GeneralError');
    assert.match(bad.message, /n = = 1\n +\^/);
    const badAction = await refused(
        rules.createRule('bad', { sqlExpression: '1=1' }, { sqlExpression: 'SET n' }),
        'GeneralError',
    );
    assert.match(badAction.message, /SET n\n +\^/);
    assert.deepEqual(await names(rules), ['$Default']);
    const missing = visit.client.createRuleManager(visit.queue, 'Missing');
    await refused(missing.getRules(), 'MessagingEntityNotFound');
    return { bad: bad.message };
}

// Listing goes on behind the first page, which holds a hundred.
async function rulePages(visit) {
    const rules = manager(visit);
    const expected = Array.from({ length: 110 }, (_, number) => `rule-${String(number).padStart(3, '0')}`);
    await Promise.all(expected.map((name, number) => rules.createRule(name, { sqlExpression: `n = ${number}` })));
    assert.deepEqual(await names(rules), ['$Default', ...expected]);
    const sizes = [];
    for await (const page of rules.listRules().byPage({ maxPageSize: 50 })) sizes.push(page.length);
    assert.deepEqual(sizes, [50, 50, 11]);
    return { sizes };
}

export const features = {
    'rule-manager': ruleManager,
    'rule-correlation': ruleCorrelation,
    'rule-types': ruleTypes,
    'rule-true-and-false': ruleTrueAndFalse,
    'rule-actions': ruleActions,
    'rule-errors': ruleErrors,
    'rule-pages': rulePages,
};
