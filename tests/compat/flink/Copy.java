import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.serialization.SimpleStringSchema;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/**
 * Copies a topic with Flink, exactly once: a transaction for each checkpoint and each of two writers.
 *
 * <p>java Copy BOOTSTRAP FROM TO CHECKPOINTS [CHECKPOINT], the last to go on from. It runs until it is killed.
 */
public final class Copy {
    public static void main(String[] arguments) throws Exception {
        Configuration settings = new Configuration();
        settings.setString("execution.checkpointing.interval", "300ms");
        settings.setString("execution.checkpointing.dir", "file://" + arguments[3]);
        settings.setString("execution.checkpointing.externalized-checkpoint-retention", "RETAIN_ON_CANCELLATION");
        settings.setString("restart-strategy.type", "none");
        settings.setString("taskmanager.memory.managed.size", "16m");
        settings.setString("taskmanager.memory.network.min", "8m");
        settings.setString("taskmanager.memory.network.max", "8m");
        if (arguments.length > 4) {
            settings.setString("execution.state-recovery.path", "file://" + arguments[4]);
        }
        StreamExecutionEnvironment flink = StreamExecutionEnvironment.getExecutionEnvironment(settings);
        flink.setParallelism(2);
        KafkaSource<String> source = KafkaSource.<String>builder()
                .setBootstrapServers(arguments[0])
                .setTopics(arguments[1])
                .setGroupId("flink-copy")
                .setStartingOffsets(OffsetsInitializer.earliest())
                .setProperty("isolation.level", "read_committed")
                .setValueOnlyDeserializer(new SimpleStringSchema())
                .build();
        KafkaSink<String> sink = KafkaSink.<String>builder()
                .setBootstrapServers(arguments[0])
                .setRecordSerializer(KafkaRecordSerializationSchema.builder()
                        .setTopic(arguments[2])
                        .setValueSerializationSchema(new SimpleStringSchema())
                        .build())
                .setDeliveryGuarantee(DeliveryGuarantee.EXACTLY_ONCE)
                .setTransactionalIdPrefix("flink-copy")
                .setProperty("transaction.timeout.ms", "600000")
                .build();
        flink.fromSource(source, WatermarkStrategy.noWatermarks(), "from").uid("from").sinkTo(sink).uid("to");
        flink.execute("copy");
    }
}
