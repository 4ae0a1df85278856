import com.fasterxml.jackson.databind.JsonNode;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

/** The Java client on listeners with TLS and logins: one record is produced. */
final class Logins {
    private Logins() {}

    static Object logIn(JsonNode q, String topic) throws Exception {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", q.get("bootstrap").asText());
        settings.put("max.block.ms", 20_000);
        q.get("properties").fields().forEachRemaining(each -> settings.put(each.getKey(), each.getValue().asText()));
        try (KafkaProducer<String, String> producer =
                 new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            return producer.send(new ProducerRecord<>(topic, 0, null, q.get("word").asText())).get().offset();
        }
    }
}
