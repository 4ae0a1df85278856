import com.google.protobuf.ByteString;
import com.google.rpc.ErrorInfo;
import io.grpc.Grpc;
import io.grpc.InsecureChannelCredentials;
import io.grpc.ManagedChannel;
import io.grpc.StatusRuntimeException;
import io.grpc.protobuf.StatusProto;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.concurrent.TimeUnit;
import ottla.v1.*;
import ottla.v1.Record;

/** Produces, subscribes, commits and asks for a topic that is not there, by the clients that protoc generated. */
public class GrpcCaller {
    static final int COUNT = 100;

    public static void main(String[] arguments) throws Exception {
        ManagedChannel channel =
                Grpc.newChannelBuilder(arguments[0], InsecureChannelCredentials.create()).build();
        String topic = arguments[1];
        List<String> offsets = new ArrayList<>(), heard = new ArrayList<>();
        var producer = ProducerServiceGrpc.newBlockingStub(channel).withDeadlineAfter(60, TimeUnit.SECONDS);
        for (int number = 0; number < COUNT; number++) {
            var record = Record.newBuilder().setValue(ByteString.copyFromUtf8("" + number));
            var answer = producer.produce(ProduceRequest.newBuilder().setTopic(topic).addRecords(record).build());
            offsets.add("" + answer.getOutcomes(0).getOffset());
        }
        var consumer = ConsumerServiceGrpc.newBlockingStub(channel).withDeadlineAfter(60, TimeUnit.SECONDS);
        Iterator<Message> stream = consumer.subscribe(SubscribeRequest.newBuilder()
                .addTopics(topic).setGroupId("java").setOffsetReset(OffsetReset.OFFSET_RESET_EARLIEST).build());
        while (heard.size() < COUNT) {
            Message message = stream.next();
            heard.add('"' + message.getValue().toStringUtf8() + '"');
            consumer.commit(CommitRequest.newBuilder().setGroupId("java").addOffsets(PartitionOffset.newBuilder()
                    .setTopic(topic).setPartition(message.getPartition()).setOffset(message.getOffset() + 1)).build());
        }
        String missing = "";
        try {
            TopicServiceGrpc.newBlockingStub(channel)
                    .describeTopic(DescribeTopicRequest.newBuilder().setName("nowhere").build());
        } catch (StatusRuntimeException error) {
            missing = StatusProto.fromThrowable(error).getDetails(0).unpack(ErrorInfo.class).getReason();
        }
        System.out.println("{\"offsets\": " + offsets + ", \"heard\": " + heard + ", \"missing\": \"" + missing + "\"}");
        channel.shutdownNow();
    }
}
