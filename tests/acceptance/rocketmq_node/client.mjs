// RocketMQ's official Node client, told what to do: one JSON object a line, the same as
// ../rocketmq_python.py understands. Nothing is caught that the client itself does not
// catch: where it brings its process down, this one goes down.

import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';
import process from 'node:process';

const require = createRequire(process.env.CLIENT_HOME + '/package.json');
const rocketmq = require('rocketmq-client-nodejs');
const protocol = require(
  'rocketmq-client-nodejs/proto/apache/rocketmq/v2/definition_pb',
);

const RESOLUTIONS = {
  commit: protocol.TransactionResolution.COMMIT,
  rollback: protocol.TransactionResolution.ROLLBACK,
  unknown: protocol.TransactionResolution.TRANSACTION_RESOLUTION_UNSPECIFIED,
};
const silent = () => {};
const complain = (...words) => console.error(...words);
const logger = { info: silent, debug: silent, warn: complain, error: complain };

const clients = new Map();
const transactions = new Map();
const messages = new Map(); // by receipt

const tell = (what) => process.stdout.write(JSON.stringify(what) + '\n');

function options(how) {
  const sessionCredentials = how.access_key
    ? { accessKey: how.access_key, accessSecret: how.secret_key }
    : undefined;
  return {
    endpoints: how.endpoints,
    namespace: how.namespace ?? '',
    sslEnabled: how.tls ?? false,
    requestTimeout: (how.timeout_s ?? 10) * 1000,
    sessionCredentials,
    logger,
  };
}

function filters(topics) {
  const found = new Map();
  for (const [topic, wanted] of Object.entries(topics)) {
    const expression =
      typeof wanted === 'string'
        ? new rocketmq.FilterExpression(wanted)
        : new rocketmq.FilterExpression(wanted.sql, protocol.FilterType.SQL);
    found.set(topic, expression);
  }
  return found;
}

function messageOf(what) {
  return {
    topic: what.topic,
    body: Buffer.from(what.body, 'base64'),
    tag: what.tag || undefined,
    keys: what.keys,
    messageGroup: what.group || undefined,
    deliveryTimestamp: what.due_ms ? new Date(what.due_ms) : undefined,
    properties: what.properties ? new Map(Object.entries(what.properties)) : undefined,
  };
}

function shown(message) {
  return {
    message_id: message.messageId,
    topic: message.topic,
    body: message.body.toString('base64'),
    tag: message.tag ?? '',
    keys: [...message.keys].sort(),
    group: message.messageGroup ?? '',
    properties: Object.fromEntries(message.properties),
    attempt: message.deliveryAttempt,
    receipt: message.receiptHandle ?? '',
    due_ms: message.deliveryTimestamp?.getTime() ?? 0,
    born_ms: message.bornTimestamp?.getTime(),
    corrupted: message.corrupted ?? false,
  };
}

async function start(name, client) {
  await client.startup();
  clients.set(name, client);
}

const work = {
  async producer({ name, topics, answer, ...how }) {
    const checker = answer && {
      async check(message) {
        tell({ event: 'checked', producer: name, message: shown(message) });
        return RESOLUTIONS[answer];
      },
    };
    await start(name, new rocketmq.Producer({ ...options(how), topics, checker }));
  },

  async simple({ name, group, topics, wait_s, ...how }) {
    const made = new rocketmq.SimpleConsumer({
      ...options(how),
      consumerGroup: group,
      subscriptions: filters(topics),
      awaitDuration: wait_s * 1000,
    });
    await start(name, made);
  },

  async push({ name, group, topics, fail = 0, ...how }) {
    const messageListener = {
      async consume(message) {
        const fails = fail < 0 || message.deliveryAttempt <= fail;
        const result = fails ? 'FAILURE' : 'SUCCESS';
        tell({ event: 'consumed', consumer: name, message: shown(message), result });
        return rocketmq.ConsumeResult[result];
      },
    };
    const made = new rocketmq.PushConsumer({
      ...options(how),
      consumerGroup: group,
      subscriptions: filters(topics),
      messageListener,
    });
    await start(name, made);
  },

  async send({ producer, transaction, ...what }) {
    const client = clients.get(producer);
    let begun;
    if (transaction) {
      begun = client.beginTransaction();
      transactions.set(transaction, begun);
    }
    const sent = await client.send(messageOf(what), begun);
    return {
      message_id: sent.messageId,
      transaction_id: sent.transactionId,
      recall_handle: sent.recallHandle,
      offset: sent.offset,
    };
  },

  async send_async(what) {
    return work.send(what);
  },

  async end({ transaction, commit }) {
    const ended = transactions.get(transaction);
    transactions.delete(transaction);
    await (commit ? ended.commit() : ended.rollback());
  },

  async recall({ producer, topic, handle }) {
    return (await clients.get(producer).recallMessage(topic, handle)).messageId;
  },

  async receive({ consumer, count, hidden_s }) {
    const found = await clients.get(consumer).receive(count, hidden_s * 1000);
    for (const message of found) messages.set(message.receiptHandle, message);
    return found.map(shown);
  },

  async ack({ consumer, receipt }) {
    await clients.get(consumer).ack(messages.get(receipt));
  },

  async hide({ consumer, receipt, hidden_s }) {
    const message = messages.get(receipt);
    await clients.get(consumer).changeInvisibleDuration(message, hidden_s * 1000);
    messages.set(message.receiptHandle, message);
    return message.receiptHandle;
  },

  async stop({ name }) {
    const client = clients.get(name);
    clients.delete(name);
    await client.shutdown();
  },
};

const lines = createInterface({ input: process.stdin });
lines.on('line', (line) => {
  const { id, do: what, ...given } = JSON.parse(line);
  work[what](given).then(
    (result) => tell({ id, result: result ?? null }),
    (error) =>
      tell({
        id,
        error: {
          kind: error.name === 'Error' ? error.constructor.name : error.name,
          code: error.code ?? null,
          message: [error.message, error.cause?.message].filter(Boolean).join(': '),
        },
      }),
  );
});
lines.on('close', () => process.exit(0));
