// Members of groups that are kafkajs consumers: the words of tests/clients/groups/model.py.
// kafkajs has no listener for assignments; its GROUP_JOIN event says what a member was given, REBALANCING that it is to
// join again. A member that is held keeps its handler waiting, as one that is busy with a record would: kafkajs does not
// heartbeat meanwhile. Its own round robin goes by a name of its own, so the assignors that other clients share are
// written here, as its guide tells users to.
const fs = require('fs')
const { Kafka, AssignerProtocol, logLevel } = require('kafkajs')

const { MemberMetadata, MemberAssignment } = AssignerProtocol
const members = {}
const wait = ms => new Promise(resolve => setTimeout(resolve, ms))

const shares = {
  range: (topics, ids, place) => {
    for (const { topic, count } of topics) {
      const least = Math.floor(count / ids.length)
      let next = 0
      ids.forEach((id, index) => {
        const share = least + (index < count % ids.length ? 1 : 0)
        for (let n = 0; n < share; n++) place(id, topic, next++)
      })
    }
  },
  roundrobin: (topics, ids, place) => {
    let turn = 0
    for (const { topic, count } of topics) {
      for (let partition = 0; partition < count; partition++) place(ids[turn++ % ids.length], topic, partition)
    }
  },
}

const assigner = name => ({ cluster }) => ({
  name,
  version: 0,
  async assign({ members, topics }) {
    const ids = members.map(member => member.memberId).sort()
    const assignment = Object.fromEntries(ids.map(id => [id, {}]))
    const counted = [...topics].sort().map(topic => ({ topic, count: cluster.findTopicPartitionMetadata(topic).length }))
    shares[name](counted, ids, (id, topic, partition) => {
      assignment[id][topic] = [...(assignment[id][topic] || []), partition]
    })
    return ids.map(memberId => ({
      memberId,
      memberAssignment: MemberAssignment.encode({ version: 0, assignment: assignment[memberId], userData: Buffer.alloc(0) }),
    }))
  },
  protocol({ topics }) {
    return { name, metadata: MemberMetadata.encode({ version: 0, topics, userData: Buffer.alloc(0) }) }
  },
})

const pairs = assignment =>
  Object.entries(assignment).flatMap(([topic, partitions]) => partitions.map(partition => [topic, partition]))

class Member {
  constructor(question) {
    const kafka = new Kafka({
      clientId: 'kafkajs',
      brokers: [question.bootstrap],
      logLevel: logLevel.NOTHING,
      retry: { retries: 20, initialRetryTime: 50, maxRetryTime: 300 },
    })
    Object.assign(this, { question, kafka, memberId: '', assignment: [], records: [], events: [], errors: [] })
    this.isHeld = false
    this.consumer = kafka.consumer({
      groupId: question.group,
      partitionAssigners: question.assignors.map(assigner),
      sessionTimeout: question.session_timeout_ms,
      rebalanceTimeout: question.max_poll_interval_ms,
      heartbeatInterval: question.heartbeat_interval_ms,
      metadataMaxAge: question.metadata_max_age_ms,
      maxWaitTimeInMs: 100,
      allowAutoTopicCreation: false,
    })
    this.listen()
    this.started = this.start().catch(error => this.fail(error))
  }

  listen() {
    const { GROUP_JOIN, REBALANCING, CRASH } = this.consumer.events
    this.consumer.on(GROUP_JOIN, ({ payload }) => {
      this.memberId = payload.memberId
      this.assignment = pairs(payload.memberAssignment)
      this.events.push(['assigned', this.assignment])
    })
    this.consumer.on(REBALANCING, () => {
      this.events.push(['revoked', this.assignment])
      this.assignment = []
    })
    this.consumer.on(CRASH, ({ payload }) => {
      this.assignment = []
      this.fail(payload.error)
    })
  }

  async start() {
    const { topics, pattern, reset, commits } = this.question
    await this.consumer.connect()
    const wanted = pattern === null ? topics : [new RegExp(pattern)]
    await this.consumer.subscribe({ topics: wanted, fromBeginning: reset === 'earliest' })
    await this.consumer.run({
      autoCommit: commits === 'auto',
      autoCommitInterval: 100,
      eachMessage: record => this.receive(record),
    })
  }

  async receive({ topic, partition, message }) {
    while (this.isHeld) await wait(20)
    const offset = Number(message.offset)
    const value = message.value.toString()
    this.write(`got ${partition} ${offset} ${value}`)
    this.records.push([topic, partition, offset, value])
    if (this.question.commits !== 'each') return
    await this.consumer.commitOffsets([{ topic, partition, offset: String(offset + 1) }])
    this.write(`committed ${partition} ${offset + 1}`)
  }

  write(line) {
    if (this.question.journal !== null) fs.appendFileSync(this.question.journal, line + '\n')
  }

  fail(error) {
    const said = error.type || `${error.name}: ${error.message}`
    if (this.errors[this.errors.length - 1] !== said) this.errors.push(said)
  }

  look({ seen }) {
    const { memberId, assignment, records, events, errors } = this
    return { member_id: memberId, assignment, records: records.slice(seen), events, errors }
  }

  async commit({ offsets }) {
    const last = {}
    for (const [topic, partition, offset] of this.records) last[`${topic} ${partition}`] = [topic, partition, offset + 1, null]
    await this.consumer.commitOffsets(
      (offsets || Object.values(last)).map(([topic, partition, offset, metadata]) => ({
        topic,
        partition,
        offset: String(offset),
        metadata,
      }))
    )
  }

  async committed({ partitions }) {
    const admin = this.kafka.admin()
    await admin.connect()
    try {
      const topics = [...new Set(partitions.map(([topic]) => topic))]
      const found = await admin.fetchOffsets({ groupId: this.question.group, topics })
      return partitions.map(([topic, partition]) => {
        const one = found.find(t => t.topic === topic).partitions.find(p => p.partition === partition)
        return one ? [topic, partition, Number(one.offset), one.metadata || ''] : [topic, partition, -1, '']
      })
    } finally {
      await admin.disconnect()
    }
  }

  async leave() {
    this.isHeld = false
    await this.started
    await this.consumer.disconnect()
  }
}

const asked = partitions => partitions.map(([topic, partition]) => ({ topic, partitions: [partition] }))

module.exports = {
  ping: async () => null,
  join: async question => {
    members[question.member] = new Member(question)
  },
  look: async question => members[question.member].look(question),
  hold: async ({ member }) => {
    members[member].isHeld = true
  },
  go_on: async ({ member }) => {
    members[member].isHeld = false
  },
  commit: async question => members[question.member].commit(question),
  committed: async question => members[question.member].committed(question),
  pause: async ({ member, partitions }) => members[member].consumer.pause(asked(partitions)),
  resume: async ({ member, partitions }) => members[member].consumer.resume(asked(partitions)),
  seek: async ({ member, partition: [topic, partition], offset }) =>
    members[member].consumer.seek({ topic, partition, offset: String(offset) }),
  leave: async ({ member }) => members[member].leave(),
}
