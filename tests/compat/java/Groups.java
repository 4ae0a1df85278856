// Groups from outside, through the Java admin client: the words of tests/clients/groups/admin.py.
import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListGroupsOptions;
import org.apache.kafka.clients.admin.MemberToRemove;
import org.apache.kafka.clients.admin.RemoveMembersFromConsumerGroupOptions;

class Groups {
    static Object ask(JsonNode q) throws Exception {
        String group = q.path("group").asText();
        switch (q.get("op").asText()) {
            case "list_groups": return Driver.admin(q, Groups::list);
            case "describe_group": return Driver.admin(q, a -> describe(a, group));
            case "delete_group": return Driver.admin(q, a -> a.deleteConsumerGroups(List.of(group)).all().get());
            case "group_offsets": return Driver.admin(q, a -> offsets(a, group));
            case "alter_group_offsets": return Driver.admin(q, a ->
                a.alterConsumerGroupOffsets(group, Members.offsets(q)).all().get());
            case "delete_group_offsets": return Driver.admin(q, a ->
                a.deleteConsumerGroupOffsets(group, new HashSet<>(Members.partitions(q.get("partitions")))).all().get());
            case "remove_instance": return Driver.admin(q, a -> a.removeMembersFromConsumerGroup(group,
                new RemoveMembersFromConsumerGroupOptions(List.of(new MemberToRemove(q.get("instance_id").asText())))).all().get());
            default: return Transactions.ask(q);
        }
    }

    static Object list(Admin admin) throws Exception {
        Map<String, Object> states = new HashMap<>();
        for (var group : admin.listGroups(new ListGroupsOptions()).all().get()) {
            states.put(group.groupId(), group.groupState().get().toString());
        }
        return states;
    }

    static Object describe(Admin admin, String group) throws Exception {
        var described = admin.describeConsumerGroups(List.of(group)).all().get().get(group);
        List<Object> members = new ArrayList<>();
        for (var member : described.members()) {
            Map<String, Object> one = new HashMap<>();
            one.put("member_id", member.consumerId());
            one.put("instance_id", member.groupInstanceId().orElse(null));
            one.put("client_id", member.clientId());
            one.put("host", member.host());
            one.put("assignment", Members.pairs(member.assignment().topicPartitions()));
            members.add(one);
        }
        return Map.of(
            "state", described.groupState().toString(),
            "protocol", described.partitionAssignor(),
            "members", members);
    }

    static Object offsets(Admin admin, String group) throws Exception {
        List<Object> found = new ArrayList<>();
        admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get().forEach((where, offset) ->
            found.add(List.of(where.topic(), where.partition(), offset.offset(), offset.metadata())));
        return found;
    }
}
