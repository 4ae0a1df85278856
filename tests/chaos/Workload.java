// The same work as workload.py does with librdkafka, with the Java client: a producer, a reader of everything, a member of the
// group. Journals have the lines that history.py describes. Words on standard input: "stop" ends the producer when everything
// is answered; "finish 0:17 1:23 ..." lets the reader go on to these ends and then ends everything.
import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

public class Workload {
    static final int DELIVERY_TIMEOUT_MS = 90_000;
    static final long COMMIT_EVERY_NS = 500_000_000L;
    static final Duration POLL = Duration.ofMillis(100);

    static String bootstrap;
    static String topic;
    static String group;
    static int partitions;
    static double rate;
    static Path directory;
    static volatile boolean isProducing = true;
    static volatile boolean isReading = true;
    static final Map<Integer, Long> positions = new ConcurrentHashMap<>();
    static final Map<String, String> failures = new ConcurrentHashMap<>();

    public static void main(String[] arguments) throws Exception {
        bootstrap = arguments[0];
        topic = arguments[1];
        partitions = Integer.parseInt(arguments[2]);
        rate = Double.parseDouble(arguments[3]);
        group = arguments[4];
        directory = Path.of(arguments[5]);
        Thread producing = started("java-producer", Workload::produce);
        Thread reading = started("java-reader", Workload::read);
        Thread member = started("java-member", Workload::join);
        say("ready");
        BufferedReader words = new BufferedReader(new InputStreamReader(System.in));
        for (String line = words.readLine(); line != null; line = words.readLine()) {
            if (line.equals("stop")) {
                isProducing = false;
                producing.join();
                say("stopped");
            } else if (line.startsWith("finish ")) {
                String late = waitFor(line.substring("finish ".length()).trim().split(" "));
                isReading = false;
                reading.join();
                member.join();
                if (late != null) failures.put("java-reader", late);
                say(failures.isEmpty() ? "finished" : "failed " + failures);
                break;
            }
        }
        System.exit(0);
    }

    interface Work { void with(Journal journal) throws Exception; }

    static Thread started(String name, Work work) {
        Thread thread = new Thread(() -> {
            try (Journal journal = new Journal(name)) {
                work.with(journal);
            } catch (Throwable error) {
                failures.put(name, String.valueOf(error));
            }
        }, name);
        thread.setDaemon(true);
        thread.start();
        return thread;
    }

    static synchronized void say(String word) {
        System.out.println(word);
        System.out.flush();
    }

    static String waitFor(String[] ends) throws InterruptedException {
        long deadline = System.nanoTime() + 60_000_000_000L;
        for (String end : ends) {
            String[] pair = end.split(":");
            int partition = Integer.parseInt(pair[0]);
            while (positions.getOrDefault(partition, 0L) < Long.parseLong(pair[1])) {
                if (System.nanoTime() > deadline || failures.containsKey("java-reader")) {
                    return "is at " + positions + " and should be at " + String.join(" ", ends);
                }
                Thread.sleep(20);
            }
        }
        return null;
    }

    static Map<String, Object> common(String name) {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("client.id", name);
        settings.put("request.timeout.ms", 10_000);
        settings.put("reconnect.backoff.ms", 50);
        settings.put("reconnect.backoff.max.ms", 500);
        settings.put("retry.backoff.ms", 50);
        settings.put("metadata.max.age.ms", 5_000);
        return settings;
    }

    static void produce(Journal journal) throws Exception {
        Map<String, Object> settings = common("java-producer");
        settings.put("acks", "all");
        settings.put("enable.idempotence", true);
        settings.put("max.in.flight.requests.per.connection", 5);
        settings.put("linger.ms", 5);
        settings.put("delivery.timeout.ms", DELIVERY_TIMEOUT_MS);
        settings.put("max.block.ms", (long) DELIVERY_TIMEOUT_MS);
        try (var producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            long begun = System.nanoTime();
            for (long number = 0; isProducing; ) {
                long due = (long) ((System.nanoTime() - begun) / 1e9 * rate);
                for (; number < due && isProducing; number++) {
                    send(producer, journal, (int) (number % partitions), number / partitions);
                }
                Thread.sleep(5);
            }
            producer.flush();
        }
    }

    static void send(KafkaProducer<String, String> producer, Journal journal, int partition, long number) {
        String value = "java-producer-" + partition + ":" + number;
        journal.write("sent", partition, value);
        producer.send(new ProducerRecord<>(topic, partition, null, value), (metadata, error) -> {
            if (error == null) {
                journal.write("acked", partition, metadata.offset(), value);
            } else {
                journal.write("failed", partition, value, String.valueOf(error).replaceAll("\\s", " "));
            }
        });
    }

    static Map<String, Object> consuming(String name) {
        Map<String, Object> settings = common(name);
        settings.put("enable.auto.commit", false);
        settings.put("allow.auto.create.topics", false);
        settings.put("fetch.max.wait.ms", 100);
        settings.put("default.api.timeout.ms", 30_000);
        return settings;
    }

    static void read(Journal journal) {
        Map<String, Object> settings = consuming("java-reader");
        settings.put("auto.offset.reset", "none");
        List<TopicPartition> all = new ArrayList<>();
        for (int each = 0; each < partitions; each++) all.add(new TopicPartition(topic, each));
        try (var consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            consumer.assign(all);
            for (TopicPartition each : all) {
                consumer.seek(each, 0);
                journal.write("begun", each.partition(), 0);
            }
            while (isReading) {
                for (ConsumerRecord<String, String> record : consumer.poll(POLL)) {
                    journal.write("read", record.partition(), record.offset(), record.value());
                    positions.put(record.partition(), record.offset() + 1);
                }
            }
        }
    }

    static void join(Journal journal) {
        Map<String, Object> settings = consuming("java-member");
        settings.put("group.id", group);
        settings.put("partition.assignment.strategy", "org.apache.kafka.clients.consumer.RangeAssignor");
        settings.put("session.timeout.ms", 10_000);
        settings.put("heartbeat.interval.ms", 500);
        settings.put("auto.offset.reset", "earliest");
        try (var consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            Member member = new Member(consumer, journal);
            consumer.subscribe(List.of(topic), member);
            long committed = System.nanoTime();
            while (isReading) {
                for (ConsumerRecord<String, String> record : consumer.poll(POLL)) {
                    journal.write("read", record.partition(), record.offset(), record.value());
                    member.read.put(record.partition(), record.offset() + 1);
                }
                if (System.nanoTime() - committed > COMMIT_EVERY_NS) {
                    member.commit();
                    committed = System.nanoTime();
                }
            }
            member.commit();
        }
    }

    static class Member implements ConsumerRebalanceListener {
        final KafkaConsumer<String, String> consumer;
        final Journal journal;
        final Map<Integer, Long> read = new HashMap<>();

        Member(KafkaConsumer<String, String> consumer, Journal journal) {
            this.consumer = consumer;
            this.journal = journal;
        }

        void commit() {
            Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
            read.forEach((partition, end) ->
                offsets.put(new TopicPartition(topic, partition), new OffsetAndMetadata(end)));
            if (offsets.isEmpty()) return;
            try {
                consumer.commitSync(offsets);
                offsets.forEach((each, end) -> journal.write("committed", each.partition(), end.offset()));
            } catch (KafkaException refused) {
                // The coordinator is away, or somebody else has the partition: what is not committed is read again.
            }
        }

        @Override public void onPartitionsRevoked(Collection<TopicPartition> revoked) {
            commit();
            for (TopicPartition each : revoked) read.remove(each.partition());
        }

        @Override public void onPartitionsLost(Collection<TopicPartition> lost) {
            for (TopicPartition each : lost) read.remove(each.partition());
        }

        @Override public void onPartitionsAssigned(Collection<TopicPartition> assigned) {
            while (isReading) {
                long asked = System.nanoTime();
                try {
                    var found = consumer.committed(new HashSet<>(assigned));
                    for (TopicPartition each : assigned) resume(each, found.get(each), asked);
                    return;
                } catch (KafkaException notNow) {
                    // Asked again: without an answer it would not be known where to begin.
                }
            }
        }

        void resume(TopicPartition partition, OffsetAndMetadata committed, long asked) {
            long offset = committed == null ? -1 : committed.offset();
            journal.write("resumed", partition.partition(), offset, asked);
            journal.write("begun", partition.partition(), Math.max(offset, 0));
            consumer.seek(partition, Math.max(offset, 0));
        }
    }

    static class Journal implements AutoCloseable {
        final BufferedWriter file;

        Journal(String name) throws IOException {
            file = Files.newBufferedWriter(directory.resolve(name + ".journal"));
        }

        synchronized void write(String event, int partition, Object... rest) {
            StringBuilder line = new StringBuilder(event).append('\t').append(System.nanoTime()).append('\t').append(partition);
            for (Object each : rest) line.append('\t').append(each);
            try {
                file.write(line.append('\n').toString());
            } catch (IOException error) {
                throw new UncheckedIOException(error);
            }
        }

        @Override public synchronized void close() throws IOException {
            file.close();
        }
    }
}
