// Members of groups that are Java consumers: the words of tests/clients/groups/model.py. Each has a thread that polls and
// does, between polls, what it is asked to; what it has seen can be looked at at any time.
import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.regex.Pattern;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

class Members {
    static final Map<String, Member> MEMBERS = new ConcurrentHashMap<>();
    static final Map<String, String> ASSIGNORS = Map.of(
        "range", "org.apache.kafka.clients.consumer.RangeAssignor",
        "roundrobin", "org.apache.kafka.clients.consumer.RoundRobinAssignor",
        "sticky", "org.apache.kafka.clients.consumer.StickyAssignor",
        "cooperative-sticky", "org.apache.kafka.clients.consumer.CooperativeStickyAssignor");

    static Object ask(JsonNode q) throws Exception {
        String name = q.path("member").asText();
        Member member = MEMBERS.get(name);
        switch (q.get("op").asText()) {
            case "ping": return null;
            case "join": MEMBERS.put(name, new Member(q)); return null;
            case "look": return member.look(q.get("seen").asInt());
            case "hold": member.isHeld = true; return member.doing(() -> null);
            case "go_on": member.isHeld = false; return null;
            case "commit": return member.doing(() -> member.commit(offsets(q), q.get("is_async").asBoolean()));
            case "committed": return member.doing(() -> member.committed(partitions(q.get("partitions"))));
            case "pause": return member.doing(() -> { member.consumer.pause(partitions(q.get("partitions"))); return null; });
            case "resume": return member.doing(() -> { member.consumer.resume(partitions(q.get("partitions"))); return null; });
            case "seek": return member.doing(() -> {
                member.consumer.seek(partition(q.get("partition")), q.get("offset").asLong());
                return null;
            });
            case "leave": member.close(); return null;
            default: return Groups.ask(q);
        }
    }

    static TopicPartition partition(JsonNode pair) {
        return new TopicPartition(pair.get(0).asText(), pair.get(1).asInt());
    }

    static List<TopicPartition> partitions(JsonNode pairs) {
        List<TopicPartition> found = new ArrayList<>();
        for (JsonNode pair : pairs) found.add(partition(pair));
        return found;
    }

    static Map<TopicPartition, OffsetAndMetadata> offsets(JsonNode q) {
        if (q.get("offsets").isNull()) return null;
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        for (JsonNode one : q.get("offsets")) {
            String metadata = one.get(3).isNull() ? "" : one.get(3).asText();
            offsets.put(partition(one), new OffsetAndMetadata(one.get(2).asLong(), metadata));
        }
        return offsets;
    }

    static List<Object> pairs(Collection<TopicPartition> partitions) {
        List<Object> pairs = new ArrayList<>();
        for (TopicPartition one : partitions) pairs.add(List.of(one.topic(), one.partition()));
        return pairs;
    }

    static class Member implements ConsumerRebalanceListener {
        final KafkaConsumer<String, String> consumer;
        final List<Object> records = new ArrayList<>();
        final List<Object> events = new ArrayList<>();
        final List<String> errors = new ArrayList<>();
        final ConcurrentLinkedQueue<FutureTask<Object>> commands = new ConcurrentLinkedQueue<>();
        final Path journal;
        final boolean commitsEach;
        final Thread thread;
        List<Object> assignment = List.of();
        String memberId = "";
        volatile boolean isHeld;
        volatile boolean isClosing;

        Member(JsonNode q) {
            journal = q.get("journal").isNull() ? null : Path.of(q.get("journal").asText());
            commitsEach = q.get("commits").asText().equals("each");
            consumer = new KafkaConsumer<>(settings(q), new StringDeserializer(), new StringDeserializer());
            if (q.get("partitions").size() > 0) {
                consumer.assign(partitions(q.get("partitions")));
            } else if (!q.get("pattern").isNull()) {
                consumer.subscribe(Pattern.compile(q.get("pattern").asText()), this);
            } else {
                List<String> topics = new ArrayList<>();
                q.get("topics").forEach(topic -> topics.add(topic.asText()));
                consumer.subscribe(topics, this);
            }
            thread = new Thread(this::run);
            thread.setDaemon(true);
            thread.start();
        }

        static Map<String, Object> settings(JsonNode q) {
            Map<String, Object> settings = new HashMap<>();
            List<String> assignors = new ArrayList<>();
            q.get("assignors").forEach(name -> assignors.add(ASSIGNORS.get(name.asText())));
            settings.put("bootstrap.servers", q.get("bootstrap").asText());
            settings.put("group.id", q.get("group").asText());
            settings.put("partition.assignment.strategy", assignors);
            settings.put("session.timeout.ms", q.get("session_timeout_ms").asInt());
            settings.put("heartbeat.interval.ms", q.get("heartbeat_interval_ms").asInt());
            settings.put("max.poll.interval.ms", q.get("max_poll_interval_ms").asInt());
            settings.put("metadata.max.age.ms", q.get("metadata_max_age_ms").asInt());
            settings.put("max.poll.records", q.get("max_poll_records").asInt());
            settings.put("enable.auto.commit", q.get("commits").asText().equals("auto"));
            settings.put("auto.commit.interval.ms", 100);
            settings.put("auto.offset.reset", q.get("reset").asText());
            settings.put("allow.auto.create.topics", false);
            settings.put("fetch.max.wait.ms", 100);
            settings.put("reconnect.backoff.max.ms", 300);
            if (!q.get("instance_id").isNull()) settings.put("group.instance.id", q.get("instance_id").asText());
            return settings;
        }

        void run() {
            while (!isClosing) {
                try {
                    turn();
                } catch (Throwable error) {
                    fail(error);
                    pause();
                }
            }
            try {
                consumer.close();
            } catch (Throwable error) {
                fail(error);
            }
        }

        void turn() throws Exception {
            for (FutureTask<Object> command = commands.poll(); command != null; command = commands.poll()) command.run();
            if (isHeld) {
                pause();
                return;
            }
            List<ConsumerRecord<String, String>> polled = new ArrayList<>();
            consumer.poll(Duration.ofMillis(20)).forEach(polled::add);
            keep(polled);
            if (commitsEach && !polled.isEmpty()) commitPolled(polled);
        }

        void keep(List<ConsumerRecord<String, String>> polled) throws IOException {
            List<Object> owned = pairs(consumer.assignment());
            String id = consumer.groupMetadata().memberId();
            for (var record : polled) write("got " + record.partition() + " " + record.offset() + " " + record.value());
            synchronized (this) {
                assignment = owned;
                memberId = id;
                for (var record : polled) {
                    records.add(List.of(record.topic(), record.partition(), record.offset(), record.value()));
                }
            }
        }

        void commitPolled(List<ConsumerRecord<String, String>> polled) throws IOException {
            Map<TopicPartition, OffsetAndMetadata> ends = new HashMap<>();
            for (var record : polled) {
                ends.put(new TopicPartition(record.topic(), record.partition()), new OffsetAndMetadata(record.offset() + 1));
            }
            consumer.commitSync(ends);
            for (var end : ends.entrySet()) write("committed " + end.getKey().partition() + " " + end.getValue().offset());
        }

        void write(String line) throws IOException {
            if (journal == null) return;
            Files.writeString(journal, line + "\n", StandardOpenOption.CREATE, StandardOpenOption.APPEND);
        }

        void pause() {
            try {
                Thread.sleep(20);
            } catch (InterruptedException ended) {
                Thread.currentThread().interrupt();
            }
        }

        synchronized void fail(Throwable error) {
            String said = Driver.codeOf(error).map(Enum::name).orElse(String.valueOf(error));
            if (errors.isEmpty() || !errors.get(errors.size() - 1).equals(said)) errors.add(said);
        }

        synchronized Object look(int seen) {
            return Map.of(
                "member_id", memberId,
                "assignment", assignment,
                "records", List.copyOf(records.subList(seen, records.size())),
                "events", List.copyOf(events),
                "errors", List.copyOf(errors));
        }

        Object doing(Callable<Object> work) throws Exception {
            FutureTask<Object> task = new FutureTask<>(work);
            commands.add(task);
            return task.get(Driver.DEADLINE_MS, TimeUnit.MILLISECONDS);
        }

        Object commit(Map<TopicPartition, OffsetAndMetadata> offsets, boolean isAsync) {
            if (isAsync && offsets == null) consumer.commitAsync();
            else if (isAsync) consumer.commitAsync(offsets, null);
            else if (offsets == null) consumer.commitSync();
            else consumer.commitSync(offsets);
            return null;
        }

        Object committed(List<TopicPartition> partitions) {
            Map<TopicPartition, OffsetAndMetadata> found = consumer.committed(new java.util.HashSet<>(partitions));
            List<Object> answer = new ArrayList<>();
            for (TopicPartition one : partitions) {
                OffsetAndMetadata offset = found.get(one);
                answer.add(offset == null ? List.of(one.topic(), one.partition(), -1, "")
                    : List.of(one.topic(), one.partition(), offset.offset(), offset.metadata()));
            }
            return answer;
        }

        void close() throws InterruptedException {
            isClosing = true;
            thread.join(Driver.DEADLINE_MS);
        }

        synchronized void hear(String kind, Collection<TopicPartition> partitions) {
            events.add(List.of(kind, pairs(partitions)));
        }

        @Override public void onPartitionsAssigned(Collection<TopicPartition> partitions) { hear("assigned", partitions); }
        @Override public void onPartitionsRevoked(Collection<TopicPartition> partitions) { hear("revoked", partitions); }
        @Override public void onPartitionsLost(Collection<TopicPartition> partitions) { hear("lost", partitions); }
    }
}
