// The Java client behind one line of JSON per question and per answer; the questions are those of
// tests/clients/model.py. Compiled by the test session that first needs it.
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetOutOfRangeException;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public class Driver {
    static final long DEADLINE_MS = 25_000;
    // The numbers of DescribeConfigs on the wire, which the client turns into names.
    static final Map<ConfigEntry.ConfigSource, Integer> SOURCES = Map.of(
        ConfigEntry.ConfigSource.DYNAMIC_TOPIC_CONFIG, 1,
        ConfigEntry.ConfigSource.DYNAMIC_BROKER_CONFIG, 2,
        ConfigEntry.ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG, 3,
        ConfigEntry.ConfigSource.STATIC_BROKER_CONFIG, 4,
        ConfigEntry.ConfigSource.DEFAULT_CONFIG, 5);

    interface AdminWork { Object with(Admin admin) throws Exception; }

    public static void main(String[] arguments) throws Exception {
        ObjectMapper json = new ObjectMapper();
        BufferedReader questions = new BufferedReader(new InputStreamReader(System.in));
        for (String line = questions.readLine(); line != null; line = questions.readLine()) {
            System.out.println(json.writeValueAsString(answer(json.readTree(line))));
            System.out.flush();
        }
        System.exit(0);
    }

    static Map<String, Object> answer(JsonNode question) {
        Map<String, Object> answer = new HashMap<>();
        try {
            answer.put("ok", ask(question));
        } catch (Throwable thrown) {
            Throwable error = thrown instanceof ExecutionException ? thrown.getCause() : thrown;
            String text = String.valueOf(error);
            Optional<Errors> code = codeOf(error);
            answer.put(code.isPresent() ? "refused" : "failed", code.map(Enum::name).orElse(text));
            answer.put("message", text);
        }
        return answer;
    }

    /** The broker's word behind an exception, if there is one. */
    static Optional<Errors> codeOf(Throwable error) {
        if (error instanceof OffsetOutOfRangeException) return Optional.of(Errors.OFFSET_OUT_OF_RANGE);
        if (error instanceof CommitFailedException) return Optional.of(Errors.ILLEGAL_GENERATION);
        if (String.valueOf(error).contains("not present in metadata")) return Optional.of(Errors.UNKNOWN_TOPIC_OR_PARTITION);
        Errors code = Errors.forException(error);
        return code == Errors.UNKNOWN_SERVER_ERROR ? Optional.empty() : Optional.of(code);
    }

    static Object ask(JsonNode q) throws Exception {
        String topic = q.path("topic").asText();
        switch (q.get("op").asText()) {
            case "produce": return produce(q, topic);
            case "consume": return consume(q, new TopicPartition(topic, q.get("partition").asInt()));
            case "create_topic": return admin(q, a -> a.createTopics(List.of(newTopic(q, topic))).all().get());
            case "delete_topic": return admin(q, a -> a.deleteTopics(List.of(topic)).all().get());
            case "describe_topic": return admin(q, a -> describeTopic(a, topic));
            case "add_partitions": return admin(q, a ->
                a.createPartitions(Map.of(topic, NewPartitions.increaseTo(q.get("total").asInt()))).all().get());
            case "describe_configs": return admin(q, a -> describeConfigs(a, topic));
            case "incremental_alter_configs": return admin(q, a ->
                a.incrementalAlterConfigs(Map.of(resource(topic), operations(q))).all().get());
            case "delete_records": return admin(q, a -> deleteRecords(a, q, topic));
            case "list_offset": return admin(q, a -> listOffset(a, q, topic));
            case "describe_cluster": return admin(q, a -> describeCluster(a));
            case "log_dirs": return admin(q, a -> logDirs(a, topic));
            case "log_in": return Logins.logIn(q, topic);
            default: return Members.ask(q);
        }
    }

    static Object admin(JsonNode q, AdminWork work) throws Exception {
        Map<String, Object> settings = Map.of(
            "bootstrap.servers", q.get("bootstrap").asText(),
            "default.api.timeout.ms", (int) DEADLINE_MS,
            "request.timeout.ms", 10_000);
        try (Admin admin = Admin.create(settings)) {
            return work.with(admin);
        }
    }

    static Object produce(JsonNode q, String topic) throws Exception {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", q.get("bootstrap").asText());
        settings.put("acks", q.get("acks").asText());
        settings.put("compression.type", q.get("codec").asText());
        settings.put("enable.idempotence", q.get("idempotent").asBoolean());
        settings.put("linger.ms", 20);
        settings.put("max.block.ms", 3000);
        settings.put("max.request.size", 20_000_000);
        settings.put("batch.size", 1_000_000);
        settings.put("request.timeout.ms", 10_000);
        settings.put("delivery.timeout.ms", (int) DEADLINE_MS);
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        List<Object> receipts = new ArrayList<>();
        try (var producer = new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer())) {
            for (JsonNode message : q.get("messages")) sent.add(producer.send(record(q, topic, message)));
            for (Future<RecordMetadata> future : sent) {
                RecordMetadata metadata = future.get();
                receipts.add(Map.of("partition", metadata.partition(), "offset", metadata.offset()));
            }
        }
        return q.get("acks").asText().equals("0") ? List.of() : receipts;
    }

    static ProducerRecord<byte[], byte[]> record(JsonNode q, String topic, JsonNode message) {
        List<Header> headers = new ArrayList<>();
        for (JsonNode header : message.get("headers")) {
            headers.add(new RecordHeader(header.get(0).asText(), bytes(header.get(1))));
        }
        Integer partition = q.get("partition").isNull() ? null : q.get("partition").asInt();
        Long timestamp = message.get("timestamp_ms").isNull() ? null : message.get("timestamp_ms").asLong();
        return new ProducerRecord<>(
            topic, partition, timestamp, bytes(message.get("key")), bytes(message.get("value")), headers);
    }

    static Object consume(JsonNode q, TopicPartition where) {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", q.get("bootstrap").asText());
        settings.put("auto.offset.reset", "none");
        settings.put("enable.auto.commit", false);
        settings.put("max.partition.fetch.bytes", 20_000_000);
        List<Object> records = new ArrayList<>();
        int count = q.get("count").asInt();
        long deadline = System.currentTimeMillis() + DEADLINE_MS;
        try (var consumer = new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.assign(List.of(where));
            seek(consumer, where, q.get("start"));
            while (records.size() < count && System.currentTimeMillis() < deadline) {
                for (var record : consumer.poll(Duration.ofMillis(200))) {
                    if (records.size() < count) records.add(received(record));
                }
            }
        }
        if (records.size() < count) throw new RuntimeException("read " + records.size() + " of " + count + " records");
        return records;
    }

    static void seek(KafkaConsumer<byte[], byte[]> consumer, TopicPartition where, JsonNode start) {
        if (start.isNumber()) {
            consumer.seek(where, start.asLong());
        } else if (start.isObject()) {
            consumer.seek(where, consumer.offsetsForTimes(Map.of(where, start.get("timestamp_ms").asLong()))
                .get(where).offset());
        } else if (start.asText().equals("earliest")) {
            consumer.seekToBeginning(List.of(where));
        } else {
            consumer.seekToEnd(List.of(where));
        }
    }

    static Object received(ConsumerRecord<byte[], byte[]> record) {
        List<Object> headers = new ArrayList<>();
        for (Header header : record.headers()) {
            List<Object> pair = new ArrayList<>();
            pair.add(header.key());
            pair.add(text(header.value()));
            headers.add(pair);
        }
        Map<String, Object> received = new LinkedHashMap<>();
        received.put("partition", record.partition());
        received.put("offset", record.offset());
        received.put("timestamp_ms", record.timestamp());
        received.put("key", text(record.key()));
        received.put("value", text(record.value()));
        received.put("headers", headers);
        return received;
    }

    static NewTopic newTopic(JsonNode q, String topic) {
        Map<String, String> configs = new HashMap<>();
        q.get("configs").fields().forEachRemaining(entry -> configs.put(entry.getKey(), entry.getValue().asText()));
        return new NewTopic(topic, q.get("partitions").asInt(), (short) q.get("replication").asInt()).configs(configs);
    }

    static Object describeTopic(Admin admin, String topic) throws Exception {
        List<Object> leaders = new ArrayList<>();
        admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions()
            .forEach(partition -> leaders.add(List.of(partition.partition(), partition.leader().id())));
        return leaders;
    }

    static Object describeConfigs(Admin admin, String topic) throws Exception {
        List<Object> entries = new ArrayList<>();
        for (ConfigEntry entry : admin.describeConfigs(List.of(resource(topic))).all().get().get(resource(topic)).entries()) {
            List<Object> row = new ArrayList<>();
            row.add(entry.name());
            row.add(entry.value());
            row.add(SOURCES.getOrDefault(entry.source(), 0));
            entries.add(row);
        }
        return entries;
    }

    static Collection<AlterConfigOp> operations(JsonNode q) {
        List<AlterConfigOp> operations = new ArrayList<>();
        q.get("configs").fields().forEachRemaining(entry -> operations.add(new AlterConfigOp(
            new ConfigEntry(entry.getKey(), entry.getValue().isNull() ? null : entry.getValue().asText()),
            entry.getValue().isNull() ? AlterConfigOp.OpType.DELETE : AlterConfigOp.OpType.SET)));
        return operations;
    }

    static Object deleteRecords(Admin admin, JsonNode q, String topic) throws Exception {
        TopicPartition where = new TopicPartition(topic, q.get("partition").asInt());
        RecordsToDelete before = RecordsToDelete.beforeOffset(q.get("before_offset").asLong());
        return admin.deleteRecords(Map.of(where, before)).lowWatermarks().get(where).get().lowWatermark();
    }

    static Object listOffset(Admin admin, JsonNode q, String topic) throws Exception {
        TopicPartition where = new TopicPartition(topic, q.get("partition").asInt());
        JsonNode asked = q.get("spec");
        OffsetSpec spec = asked.isObject() ? OffsetSpec.forTimestamp(asked.get("timestamp_ms").asLong())
            : asked.asText().equals("earliest") ? OffsetSpec.earliest()
            : asked.asText().equals("latest") ? OffsetSpec.latest()
            : OffsetSpec.maxTimestamp();
        return admin.listOffsets(Map.of(where, spec)).partitionResult(where).get().offset();
    }

    static Object describeCluster(Admin admin) throws Exception {
        var cluster = admin.describeCluster();
        List<Object> nodes = new ArrayList<>();
        for (Node node : cluster.nodes().get()) nodes.add(List.of(node.id(), node.host(), node.port()));
        return Map.of(
            "cluster_id", cluster.clusterId().get(),
            "controller_id", cluster.controller().get().id(),
            "nodes", nodes);
    }

    static Object logDirs(Admin admin, String topic) throws Exception {
        List<Object> sizes = new ArrayList<>();
        List<Integer> brokers = new ArrayList<>();
        for (Node node : admin.describeCluster().nodes().get()) brokers.add(node.id());
        admin.describeLogDirs(brokers).allDescriptions().get().values().forEach(directories ->
            directories.values().forEach(directory -> directory.replicaInfos().forEach((where, replica) -> {
                if (where.topic().equals(topic)) sizes.add(List.of(where.partition(), replica.size()));
            })));
        return sizes;
    }

    static ConfigResource resource(String topic) {
        return new ConfigResource(ConfigResource.Type.TOPIC, topic);
    }

    static byte[] bytes(JsonNode text) {
        return text.isNull() ? null : Base64.getDecoder().decode(text.asText());
    }

    static String text(byte[] bytes) {
        return bytes == null ? null : Base64.getEncoder().encodeToString(bytes);
    }
}
