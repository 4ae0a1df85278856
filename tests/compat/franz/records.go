package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const largestBytes = 20_000_000

var codecs = map[string]kgo.CompressionCodec{
	"none":   kgo.NoCompression(),
	"gzip":   kgo.GzipCompression(),
	"snappy": kgo.SnappyCompression(),
	"lz4":    kgo.Lz4Compression(),
	"zstd":   kgo.ZstdCompression(),
}

var acknowledgements = map[string]kgo.Acks{"0": kgo.NoAck(), "1": kgo.LeaderAck(), "all": kgo.AllISRAcks()}

// A header as a pair of its name and its value, which is base64 or null.
type headerJSON struct {
	name  string
	value []byte
}

func (h *headerJSON) UnmarshalJSON(data []byte) error {
	return json.Unmarshal(data, &[]any{&h.name, &h.value})
}

func (h headerJSON) MarshalJSON() ([]byte, error) {
	return json.Marshal([]any{h.name, h.value})
}

type receivedRecord struct {
	Partition   int32        `json:"partition"`
	Offset      int64        `json:"offset"`
	TimestampMs int64        `json:"timestamp_ms"`
	Key         []byte       `json:"key"`
	Value       []byte       `json:"value"`
	Headers     []headerJSON `json:"headers"`
}

func produce(ctx context.Context, q *question) (any, error) {
	options := []kgo.Opt{
		kgo.RequiredAcks(acknowledgements[q.Acks]),
		kgo.ProducerBatchCompression(codecs[q.Codec]),
		kgo.ProducerBatchMaxBytes(largestBytes),
		kgo.BrokerMaxWriteBytes(2 * largestBytes),
		kgo.ProducerLinger(20 * time.Millisecond),
		kgo.AllowAutoTopicCreation(),
		kgo.UnknownTopicRetries(4),
		kgo.MaxBufferedRecords(100_000),
	}
	if !q.Idempotent {
		options = append(options, kgo.DisableIdempotentWrite())
	}
	var partition *int32
	if err := json.Unmarshal(q.Partition, &partition); err != nil {
		return nil, err
	}
	if partition != nil {
		options = append(options, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	}
	client, err := newClient(q.Bootstrap, options...)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	results := client.ProduceSync(ctx, records(q, partition)...)
	if err := results.FirstErr(); err != nil {
		return nil, err
	}
	receipts := []map[string]any{}
	if q.Acks != "0" {
		for _, one := range results {
			receipts = append(receipts, map[string]any{"partition": one.Record.Partition, "offset": one.Record.Offset})
		}
	}
	return receipts, nil
}

func records(q *question, partition *int32) []*kgo.Record {
	var found []*kgo.Record
	for _, one := range q.Messages {
		record := &kgo.Record{Topic: q.Topic, Key: one.Key, Value: one.Value}
		for _, header := range one.Headers {
			record.Headers = append(record.Headers, kgo.RecordHeader{Key: header.name, Value: header.value})
		}
		if one.TimestampMs != nil {
			record.Timestamp = time.UnixMilli(*one.TimestampMs)
		}
		if partition != nil {
			record.Partition = *partition
		}
		found = append(found, record)
	}
	return found
}

func consume(ctx context.Context, q *question) (any, error) {
	var partition int32
	if err := json.Unmarshal(q.Partition, &partition); err != nil {
		return nil, err
	}
	start, err := startOf(q.Start)
	if err != nil {
		return nil, err
	}
	client, err := newClient(
		q.Bootstrap,
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{q.Topic: {partition: start}}),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		kgo.FetchMaxPartitionBytes(largestBytes),
		kgo.FetchMaxWait(200*time.Millisecond),
	)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	found := []receivedRecord{}
	for len(found) < q.Count {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			return nil, fmt.Errorf("franz-go read %d of %d records", len(found), q.Count)
		}
		for _, failure := range fetches.Errors() {
			return nil, failure.Err
		}
		fetches.EachRecord(func(record *kgo.Record) { found = append(found, received(record)) })
	}
	return found[:q.Count], nil
}

func startOf(start json.RawMessage) (kgo.Offset, error) {
	offset := kgo.NewOffset()
	var at int64
	if json.Unmarshal(start, &at) == nil {
		return offset.At(at), nil
	}
	var timed struct {
		TimestampMs *int64 `json:"timestamp_ms"`
	}
	if json.Unmarshal(start, &timed) == nil && timed.TimestampMs != nil {
		return offset.AfterMilli(*timed.TimestampMs), nil
	}
	switch string(start) {
	case `"earliest"`:
		return offset.AtStart(), nil
	case `"latest"`:
		return offset.AtEnd(), nil
	}
	return offset, fmt.Errorf("a place to start that is not known: %s", start)
}

func received(record *kgo.Record) receivedRecord {
	headers := []headerJSON{}
	for _, header := range record.Headers {
		headers = append(headers, headerJSON{header.Key, header.Value})
	}
	return receivedRecord{
		record.Partition, record.Offset, record.Timestamp.UnixMilli(), record.Key, record.Value, headers,
	}
}

func listOffset(ctx context.Context, admin *kadm.Client, q *question) (any, error) {
	var partition int32
	if err := json.Unmarshal(q.Partition, &partition); err != nil {
		return nil, err
	}
	found, err := listed(ctx, admin, q)
	if err != nil {
		return nil, err
	}
	one, known := found.Lookup(q.Topic, partition)
	if !known {
		return nil, fmt.Errorf("partition %d of %s does not exist", partition, q.Topic)
	}
	if one.Timestamp == -1 && string(q.Spec)[0] == '{' {
		return -1, one.Err // kadm answers the end where no record is that late
	}
	return one.Offset, one.Err
}

func listed(ctx context.Context, admin *kadm.Client, q *question) (kadm.ListedOffsets, error) {
	var timed struct {
		TimestampMs *int64 `json:"timestamp_ms"`
	}
	if json.Unmarshal(q.Spec, &timed) == nil && timed.TimestampMs != nil {
		return admin.ListOffsetsAfterMilli(ctx, *timed.TimestampMs, q.Topic)
	}
	switch string(q.Spec) {
	case `"earliest"`:
		return admin.ListStartOffsets(ctx, q.Topic)
	case `"latest"`:
		return admin.ListEndOffsets(ctx, q.Topic)
	}
	return admin.ListMaxTimestampOffsets(ctx, q.Topic)
}
