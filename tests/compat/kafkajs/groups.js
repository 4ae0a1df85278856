// Groups from outside, through kafkajs' admin client: the words of tests/clients/groups/admin.py.
const { AssignerProtocol } = require('kafkajs')

const refuse = errorCode => {
  const { createErrorFromCode } = require('kafkajs/src/protocol/error')
  if (errorCode) throw createErrorFromCode(errorCode)
}

const described = group => ({
  state: group.state,
  protocol: group.protocol,
  members: group.members.map(member => {
    const decoded = member.memberAssignment.length ? AssignerProtocol.MemberAssignment.decode(member.memberAssignment) : null
    const assignment = Object.entries(decoded ? decoded.assignment : {}).flatMap(([topic, partitions]) =>
      partitions.map(partition => [topic, partition])
    )
    return { member_id: member.memberId, instance_id: null, client_id: member.clientId, host: member.clientHost, assignment }
  }),
})

module.exports = withAdmin => ({
  list_groups: ({ bootstrap }) =>
    withAdmin(bootstrap, async admin => {
      const { groups } = await admin.listGroups()
      return Object.fromEntries(groups.map(group => [group.groupId, null]))
    }),

  describe_group: ({ bootstrap, group }) =>
    withAdmin(bootstrap, async admin => {
      const { groups } = await admin.describeGroups([group])
      refuse(groups[0].errorCode)
      return described(groups[0])
    }),

  delete_group: ({ bootstrap, group }) => withAdmin(bootstrap, admin => admin.deleteGroups([group])),

  group_offsets: ({ bootstrap, group }) =>
    withAdmin(bootstrap, async admin => {
      const topics = await admin.fetchOffsets({ groupId: group })
      return topics.flatMap(({ topic, partitions }) =>
        partitions.map(p => [topic, p.partition, Number(p.offset), p.metadata || ''])
      )
    }),

  alter_group_offsets: ({ bootstrap, group, offsets }) =>
    withAdmin(bootstrap, async admin => {
      for (const [topic, partition, offset] of offsets) {
        await admin.setOffsets({ groupId: group, topic, partitions: [{ partition, offset: String(offset) }] })
      }
    }),
})
