// The gRPC consumer of the source document, and a stream of records, by generated Go clients.
// Prints a JSON object with what was produced and what was heard.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	pb "ottla/grpc/ottla/v1"
)

const count = 100

type GRPCClient struct {
	client pb.ConsumerServiceClient
	heard  []string
}

func (c *GRPCClient) StartConsuming(ctx context.Context, topic string) error {
	stream, err := c.client.Subscribe(ctx, &pb.SubscribeRequest{
		Topics:      []string{topic},
		GroupId:     "my-group",
		OffsetReset: pb.OffsetReset_OFFSET_RESET_EARLIEST,
	})
	if err != nil {
		return err
	}
	for len(c.heard) < count {
		message, err := stream.Recv()
		if err != nil {
			log.Printf("Stream error: %v", err)
			return err
		}
		c.heard = append(c.heard, string(message.Value))
		_, err = c.client.Commit(ctx, &pb.CommitRequest{GroupId: "my-group", Offsets: []*pb.PartitionOffset{
			{Topic: message.Topic, Partition: message.Partition, Offset: message.Offset + 1}}})
		if err != nil {
			return err
		}
	}
	return nil
}

func produce(ctx context.Context, producer pb.ProducerServiceClient, topic string) ([]int64, error) {
	stream, err := producer.ProduceStream(ctx)
	if err != nil {
		return nil, err
	}
	for number := 0; number < count; number++ {
		record := &pb.Record{Value: []byte(fmt.Sprint(number))}
		if err := stream.Send(&pb.ProduceRequest{Topic: topic, Records: []*pb.Record{record}}); err != nil {
			return nil, err
		}
	}
	if err := stream.CloseSend(); err != nil {
		return nil, err
	}
	var offsets []int64
	for {
		answer, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return offsets, nil
		}
		if err != nil {
			return nil, err
		}
		offsets = append(offsets, answer.Outcomes[0].Offset)
	}
}

func reason(err error) string {
	for _, detail := range status.Convert(err).Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok {
			return info.Reason
		}
	}
	return ""
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	connection, err := grpc.NewClient(os.Args[1], grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		log.Fatal(err)
	}
	defer connection.Close()
	offsets, err := produce(ctx, pb.NewProducerServiceClient(connection), os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	consumer := &GRPCClient{client: pb.NewConsumerServiceClient(connection)}
	if err := consumer.StartConsuming(ctx, os.Args[2]); err != nil {
		log.Fatal(err)
	}
	_, missing := pb.NewTopicServiceClient(connection).DescribeTopic(ctx, &pb.DescribeTopicRequest{Name: "nowhere"})
	json.NewEncoder(os.Stdout).Encode(map[string]any{"offsets": offsets, "heard": consumer.heard, "missing": reason(missing)})
}
