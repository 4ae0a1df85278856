// kafkajs behind one line of JSON per question and per answer; the questions are those of tests/clients/model.py.
// kafkajs consumes only as a member of a group (members.js). To read one partition from a place, its own cluster and
// broker objects are used here.
const readline = require('readline')
const { Kafka, CompressionTypes, CompressionCodecs, Partitioners, ConfigResourceTypes, logLevel } = require('kafkajs')

CompressionCodecs[CompressionTypes.Snappy] = require('kafkajs-snappy')

const COMPRESSION = { none: CompressionTypes.None, gzip: CompressionTypes.GZIP, snappy: CompressionTypes.Snappy }
const ACKS = { 0: 0, 1: 1, all: -1 }
const RETRY = { retries: 3, initialRetryTime: 100 }
const DEADLINE_MS = 25000

const encoded = value => (value === null || value === undefined ? null : Buffer.from(value).toString('base64'))
const decoded = text => (text === null ? null : Buffer.from(text, 'base64'))
const client = bootstrap =>
  new Kafka({ clientId: 'kafkajs', brokers: [bootstrap], logLevel: logLevel.NOTHING, retry: RETRY })

class Refusal extends Error {
  constructor(type, message) {
    super(message)
    this.type = type
  }
}

const withAdmin = async (bootstrap, work) => {
  const admin = client(bootstrap).admin()
  await admin.connect()
  try {
    return await work(admin)
  } finally {
    await admin.disconnect()
  }
}

const withCluster = async ({ bootstrap, topic, partition }, work) => {
  const kafka = client(bootstrap)
  const create = Object.getOwnPropertySymbols(kafka).find(s => String(s).includes('createCluster'))
  const cluster = kafka[create]({ allowAutoTopicCreation: false, metadataMaxAge: 300000 })
  await cluster.connect()
  try {
    await cluster.addTargetTopic(topic)
    const leaders = cluster.findLeaderForPartitions(topic, [partition])
    if (Object.keys(leaders).length === 0) {
      throw new Refusal('UNKNOWN_TOPIC_OR_PARTITION', 'kafkajs found no leader in the metadata')
    }
    return await work(cluster, await cluster.findBroker({ nodeId: Object.keys(leaders)[0] }))
  } finally {
    await cluster.disconnect()
  }
}

const lookUp = async (cluster, topic, partition, at) => {
  const where = typeof at === 'object' ? { fromTimestamp: at.timestamp_ms } : { fromBeginning: at === 'earliest' }
  const [{ partitions }] = await cluster.fetchTopicsOffset([{ topic, partitions: [{ partition }], ...where }])
  return partitions[0].offset
}

const received = (partition, message) => ({
  partition,
  offset: Number(message.offset),
  timestamp_ms: Number(message.timestamp),
  key: encoded(message.key),
  value: encoded(message.value),
  headers: Object.entries(message.headers || {}).map(([name, value]) => [name, encoded(value)]),
})

const operations = {
  ...require('./members'),
  ...require('./groups')(withAdmin),
  ...require('./logins'),

  async produce({ bootstrap, topic, messages, partition, codec, acks, idempotent }) {
    const producer = client(bootstrap).producer({
      idempotent,
      createPartitioner: Partitioners.DefaultPartitioner,
      ...(idempotent ? { maxInFlightRequests: 1 } : {}),
    })
    await producer.connect()
    try {
      const sent = messages.map(message => ({
        key: decoded(message.key),
        value: decoded(message.value),
        headers: Object.fromEntries(message.headers.map(([name, value]) => [name, decoded(value)])),
        ...(partition === null ? {} : { partition }),
        ...(message.timestamp_ms === null ? {} : { timestamp: String(message.timestamp_ms) }),
      }))
      const answers = await producer.send({ topic, acks: ACKS[acks], compression: COMPRESSION[codec], messages: sent })
      if (acks === '0') return []
      if (answers.length === 0) throw new Refusal('UNKNOWN_TOPIC_OR_PARTITION', 'kafkajs sent nothing and answers nothing')
      if (partition === null) return answers.map(a => ({ partition: a.partition, offset: Number(a.baseOffset) }))
      return sent.map((_, index) => ({ partition, offset: Number(answers[0].baseOffset) + index }))
    } finally {
      await producer.disconnect()
    }
  },

  consume: question =>
    withCluster(question, async (cluster, broker) => {
      const { topic, partition, start, count } = question
      let offset = typeof start === 'number' ? String(start) : await lookUp(cluster, topic, partition, start)
      const records = []
      const deadline = Date.now() + DEADLINE_MS
      while (records.length < count && Date.now() < deadline) {
        const asked = [{ topic, partitions: [{ partition, fetchOffset: offset, maxBytes: 20000000 }] }]
        const answer = await broker.fetch({ topics: asked, maxWaitTime: 200, minBytes: 1, maxBytes: 20000000 })
        const { messages } = answer.responses[0].partitions[0]
        const wanted = messages.filter(message => BigInt(message.offset) >= BigInt(offset))
        records.push(...wanted.map(message => received(partition, message)))
        if (wanted.length) offset = String(BigInt(wanted[wanted.length - 1].offset) + 1n)
      }
      if (records.length < count) throw new Error(`kafkajs read ${records.length} of ${count} records`)
      return records.slice(0, count)
    }),

  create_topic: ({ bootstrap, topic, partitions, replication, configs }) =>
    withAdmin(bootstrap, async admin => {
      const configEntries = Object.entries(configs).map(([name, value]) => ({ name, value }))
      const asked = [{ topic, numPartitions: partitions, replicationFactor: replication, configEntries }]
      const created = await admin.createTopics({ topics: asked, waitForLeaders: false })
      if (!created) throw new Refusal('TOPIC_ALREADY_EXISTS', 'kafkajs answers false')
    }),

  delete_topic: ({ bootstrap, topic }) => withAdmin(bootstrap, admin => admin.deleteTopics({ topics: [topic] })),

  describe_topic: ({ bootstrap, topic }) =>
    withAdmin(bootstrap, async admin => {
      const { topics } = await admin.fetchTopicMetadata({ topics: [topic] })
      return topics[0].partitions.map(p => [p.partitionId, p.leader])
    }),

  add_partitions: ({ bootstrap, topic, total }) =>
    withAdmin(bootstrap, admin => admin.createPartitions({ topicPartitions: [{ topic, count: total }] })),

  describe_configs: ({ bootstrap, topic }) =>
    withAdmin(bootstrap, async admin => {
      const resources = [{ type: ConfigResourceTypes.TOPIC, name: topic }]
      const answer = await admin.describeConfigs({ resources, includeSynonyms: false })
      return answer.resources[0].configEntries.map(e => [e.configName, e.configValue, e.configSource])
    }),

  alter_configs: ({ bootstrap, topic, configs }) =>
    withAdmin(bootstrap, async admin => {
      const configEntries = Object.entries(configs).map(([name, value]) => ({ name, value }))
      await admin.alterConfigs({ resources: [{ type: ConfigResourceTypes.TOPIC, name: topic, configEntries }] })
    }),

  delete_records: ({ bootstrap, topic, partition, before_offset }) =>
    withAdmin(bootstrap, async admin => {
      await admin.fetchTopicOffsets(topic) // it looks for the leader before it has asked for metadata
      await admin.deleteTopicRecords({ topic, partitions: [{ partition, offset: String(before_offset) }] })
      return Number((await admin.fetchTopicOffsets(topic)).find(p => p.partition === partition).low)
    }),

  list_offset: question =>
    withCluster(question, async cluster =>
      Number(await lookUp(cluster, question.topic, question.partition, question.spec))
    ),

  describe_cluster: ({ bootstrap }) =>
    withAdmin(bootstrap, async admin => {
      const { brokers, controller, clusterId } = await admin.describeCluster()
      const nodes = brokers.map(b => [b.nodeId, b.host, b.port])
      return { cluster_id: clusterId, controller_id: controller, nodes }
    }),
}

const typeOf = error => {
  for (let e = error; e; e = e.cause) {
    if (e.type) return e.type
    const inner = (e.errors || e.partitions || e.groups || [])[0]
    if (inner) return typeOf(inner.error || inner)
    if (e.name === 'KafkaJSOffsetOutOfRange') return 'OFFSET_OUT_OF_RANGE'
    // Its own words, from its own copy of the metadata.
    if (/does not host this topic-partition|not present in the metadata/.test(e.message)) return 'UNKNOWN_TOPIC_OR_PARTITION'
  }
  return null
}

const answer = async line => {
  const { op, ...question } = JSON.parse(line)
  try {
    const result = await operations[op](question)
    return { ok: result === undefined ? null : result }
  } catch (error) {
    const type = typeOf(error)
    return type ? { refused: type, message: error.message } : { failed: String(error.stack || error) }
  }
}

let last = Promise.resolve()
readline.createInterface({ input: process.stdin }).on('line', line => {
  last = last.then(async () => process.stdout.write(JSON.stringify(await answer(line)) + '\n'))
})
