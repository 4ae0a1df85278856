import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.clients.consumer.internals.AbstractPartitionAssignor;
import org.apache.kafka.common.TopicPartition;

/** What Java's assignors give: a group per line in, as JSON; the partitions of each member out. */
public class Assignors {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            System.out.println(JSON.writeValueAsString(divided(JSON.readTree(line))));
            System.out.flush();
        }
    }

    private static Map<String, List<List<Object>>> divided(JsonNode group) {
        Map<String, Integer> counts = new HashMap<>();
        group.get("counts").fields().forEachRemaining(each -> counts.put(each.getKey(), each.getValue().asInt()));
        Map<String, Subscription> members = new HashMap<>();
        for (JsonNode member : group.get("members")) {
            members.put(member.get("id").asText(), subscription(member));
        }
        Map<String, List<List<Object>>> found = new TreeMap<>();
        assignor(group.get("assignor").asText()).assign(counts, members).forEach((id, partitions) -> {
            List<List<Object>> shown = new ArrayList<>();
            partitions.forEach(each -> shown.add(List.of(each.topic(), each.partition())));
            found.put(id, shown);
        });
        return found;
    }

    private static Subscription subscription(JsonNode member) {
        List<String> topics = new ArrayList<>();
        member.get("topics").forEach(each -> topics.add(each.asText()));
        List<TopicPartition> owned = new ArrayList<>();
        member.get("owned").forEach(each -> owned.add(new TopicPartition(each.get(0).asText(), each.get(1).asInt())));
        ByteBuffer userData = member.get("userData").isNull()
            ? null
            : ByteBuffer.wrap(HexFormat.of().parseHex(member.get("userData").asText()));
        int generation = member.get("generation").asInt();
        Subscription made = new Subscription(topics, userData, owned, generation, Optional.empty());
        if (!member.get("instance").isNull()) {
            made.setGroupInstanceId(Optional.of(member.get("instance").asText()));
        }
        return made;
    }

    private static AbstractPartitionAssignor assignor(String name) {
        return switch (name) {
            case "range" -> new RangeAssignor();
            case "roundrobin" -> new RoundRobinAssignor();
            case "sticky" -> new StickyAssignor();
            default -> new CooperativeStickyAssignor();
        };
    }
}
