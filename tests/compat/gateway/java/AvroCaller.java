import io.confluent.kafka.serializers.KafkaAvroDeserializer;
import io.confluent.kafka.serializers.KafkaAvroSerializer;
import java.util.HexFormat;
import java.util.Map;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericData;
import org.apache.avro.generic.GenericRecord;

/** Confluent's serializer and deserializer for Avro: AvroCaller URL TOPIC SCHEMA OURS, where OURS is our data in hex. */
public final class AvroCaller {
    private static final HexFormat HEX = HexFormat.of();

    public static void main(String[] given) {
        Map<String, Object> config = Map.of("schema.registry.url", given[0]);
        String topic = given[1];
        GenericRecord order = new GenericData.Record(new Schema.Parser().parse(given[2]));
        order.put("id", 7L);
        order.put("item", "coffee");
        try (KafkaAvroSerializer writes = new KafkaAvroSerializer();
                KafkaAvroDeserializer reads = new KafkaAvroDeserializer()) {
            writes.configure(config, false);
            reads.configure(config, false);
            String written = HEX.formatHex(writes.serialize(topic, order));
            Object read = reads.deserialize(topic, HEX.parseHex(given[3]));
            System.out.println("{\"written\": \"" + written + "\", \"read\": " + read + "}");
        }
    }
}
