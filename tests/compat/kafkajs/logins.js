// kafkajs on listeners with TLS and logins: one record is produced and one read, by a mechanism, over a protocol.
const fs = require('fs')
const { Kafka, Partitioners, logLevel } = require('kafkajs')

const MECHANISMS = { PLAIN: 'plain', 'SCRAM-SHA-256': 'scram-sha-256', 'SCRAM-SHA-512': 'scram-sha-512' }

const tls = ({ protocol, ca_file, certificate_file, key_file }) => {
  if (!protocol.endsWith('SSL')) return false
  const own = certificate_file ? { cert: fs.readFileSync(certificate_file), key: fs.readFileSync(key_file) } : {}
  return { ca: [fs.readFileSync(ca_file)], ...own }
}

const sasl = ({ protocol, mechanism, username, password, token }) => {
  if (!protocol.startsWith('SASL')) return undefined
  if (mechanism === 'OAUTHBEARER') return { mechanism: 'oauthbearer', oauthBearerProvider: async () => ({ value: token }) }
  return { mechanism: MECHANISMS[mechanism], username, password }
}

module.exports = {
  async log_in({ bootstrap, topic, word, security }) {
    const kafka = new Kafka({
      clientId: 'kafkajs',
      brokers: [bootstrap],
      logLevel: logLevel.NOTHING,
      retry: { retries: 0 },
      ssl: tls(security),
      sasl: sasl(security),
    })
    const producer = kafka.producer({ createPartitioner: Partitioners.DefaultPartitioner })
    try {
      await producer.connect()
      const [answer] = await producer.send({ topic, acks: -1, messages: [{ value: word, partition: 0 }] })
      return Number(answer.baseOffset)
    } finally {
      await producer.disconnect()
    }
  },
}
