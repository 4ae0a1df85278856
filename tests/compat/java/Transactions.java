// Transactional producers, and readers of committed records: the words of tests/compat/transactional_client.py.
import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

class Transactions {
    static final Duration POLL = Duration.ofMillis(200);
    static final Map<String, KafkaProducer<String, String>> producers = new HashMap<>();

    static Object ask(JsonNode q) throws Exception {
        try {
            return answer(q);
        } catch (ExecutionException error) {
            throw cause(error.getCause());
        } catch (KafkaException error) {
            throw cause(error);
        }
    }

    /** The error that put the producer into its error state, of which it speaks in a general exception. */
    static Exception cause(Throwable error) {
        boolean isGeneral = error.getClass() == KafkaException.class && error.getCause() != null;
        return (Exception) (isGeneral ? error.getCause() : error);
    }

    static Object answer(JsonNode q) throws Exception {
        KafkaProducer<String, String> producer = producers.get(q.path("producer").asText());
        switch (q.get("op").asText()) {
            case "open_producer": open(q); return null;
            case "drop_producer": producers.remove(q.get("producer").asText()).close(Duration.ZERO); return null;
            case "close_producer": producers.remove(q.get("producer").asText()).close(); return null;
            case "begin_transaction": producer.beginTransaction(); return null;
            case "commit_transaction": producer.commitTransaction(); return null;
            case "abort_transaction": producer.abortTransaction(); return null;
            case "send_in_transaction": return send(producer, q);
            case "send_offset": sendOffset(producer, q); return null;
            case "transaction": return Driver.admin(q, a -> transaction(a
                .describeTransactions(List.of(q.get("transactional_id").asText())).all().get().values().iterator().next()));
            case "stable_offset": return stableOffset(q);
            case "read_to_the_end": return read(q);
            case "ends": return ends(q);
            default: throw new IllegalArgumentException("no such operation: " + q);
        }
    }

    static void open(JsonNode q) {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", q.get("bootstrap").asText());
        settings.put("transactional.id", q.get("transactional_id").asText());
        settings.put("transaction.timeout.ms", q.path("transaction_timeout_ms").asInt(60_000));
        settings.put("max.block.ms", Driver.DEADLINE_MS);
        settings.put("request.timeout.ms", 10_000);
        settings.put("delivery.timeout.ms", (int) Driver.DEADLINE_MS);
        var opened = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
        producers.put(q.get("producer").asText(), opened);
        opened.initTransactions();
    }

    static Object send(KafkaProducer<String, String> producer, JsonNode q) throws Exception {
        String topic = q.get("topic").asText();
        String value = q.get("value").asText();
        return producer.send(new ProducerRecord<>(topic, q.get("partition").asInt(), null, value)).get().offset();
    }

    static void sendOffset(KafkaProducer<String, String> producer, JsonNode q) {
        var where = new TopicPartition(q.get("topic").asText(), q.get("partition").asInt());
        var offset = new OffsetAndMetadata(q.get("offset").asLong());
        producer.sendOffsetsToTransaction(Map.of(where, offset), new ConsumerGroupMetadata(q.get("group").asText()));
    }

    static Object transaction(org.apache.kafka.clients.admin.TransactionDescription described) {
        return Map.of("state", described.state().toString(), "epoch", described.producerEpoch());
    }

    /** The group's offset as a consumer asks for it that waits for the end of transactions; null if there is none. */
    static Object stableOffset(JsonNode q) {
        var where = new TopicPartition(q.get("topic").asText(), q.get("partition").asInt());
        try (var consumer = consumer(q, Map.of("group.id", q.get("group").asText()))) {
            Duration patience = Duration.ofMillis(q.path("patience_ms").asLong(Driver.DEADLINE_MS));
            OffsetAndMetadata found = consumer.committed(java.util.Set.of(where), patience).get(where);
            return found == null ? null : found.offset();
        }
    }

    /** Keys and values of each partition up to its end; the end is a position, since no reader sees a marker. */
    static Object read(JsonNode q) {
        try (var consumer = consumer(q, Map.of())) {
            List<TopicPartition> partitions = partitionsOf(consumer, q.get("topic").asText());
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            Map<TopicPartition, Long> ends = consumer.endOffsets(partitions);
            Map<Integer, List<Object>> found = new HashMap<>();
            for (TopicPartition each : partitions) found.put(each.partition(), new ArrayList<>());
            long deadline = System.nanoTime() + Driver.DEADLINE_MS * 1_000_000;
            while (partitions.stream().anyMatch(each -> consumer.position(each) < ends.get(each))) {
                if (System.nanoTime() > deadline) throw new IllegalStateException("ends " + ends + " were not reached");
                for (ConsumerRecord<String, String> record : consumer.poll(POLL)) {
                    found.get(record.partition()).add(Arrays.asList(record.key(), record.value()));
                }
            }
            return found;
        }
    }

    /** The sum of the partitions' end offsets. */
    static Object ends(JsonNode q) {
        try (var consumer = consumer(q, Map.of())) {
            List<TopicPartition> partitions = partitionsOf(consumer, q.get("topic").asText());
            return consumer.endOffsets(partitions).values().stream().mapToLong(Long::longValue).sum();
        }
    }

    static List<TopicPartition> partitionsOf(KafkaConsumer<String, String> consumer, String topic) {
        return consumer.partitionsFor(topic).stream().map(each -> new TopicPartition(topic, each.partition())).toList();
    }

    static KafkaConsumer<String, String> consumer(JsonNode q, Map<String, Object> more) {
        Map<String, Object> settings = new HashMap<>(more);
        settings.put("bootstrap.servers", q.get("bootstrap").asText());
        settings.put("isolation.level", q.path("isolation").asText("read_committed"));
        settings.put("enable.auto.commit", false);
        settings.put("default.api.timeout.ms", (int) Driver.DEADLINE_MS);
        return new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
    }
}
