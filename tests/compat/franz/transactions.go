// Transactional producers, readers of committed records, and a loop that copies a topic exactly once: the words of
// tests/compat/transactional_client.py.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

type transacting struct {
	Producer        string `json:"producer"`
	TransactionalID string `json:"transactional_id"`
	Value           string `json:"value"`
	Isolation       string `json:"isolation"`
	To              string `json:"to"`
}

var producers = map[string]*kgo.Client{}

func init() {
	operations["open_producer"] = openProducer
	operations["close_producer"] = func(_ context.Context, q *question) (any, error) {
		producers[q.Producer].Close()
		delete(producers, q.Producer)
		return nil, nil
	}
	operations["begin_transaction"] = func(_ context.Context, q *question) (any, error) {
		return nil, producers[q.Producer].BeginTransaction()
	}
	operations["commit_transaction"] = func(ctx context.Context, q *question) (any, error) {
		return nil, producers[q.Producer].EndTransaction(ctx, kgo.TryCommit)
	}
	operations["abort_transaction"] = func(ctx context.Context, q *question) (any, error) {
		return nil, producers[q.Producer].EndTransaction(ctx, kgo.TryAbort)
	}
	operations["send_in_transaction"] = sendInTransaction
	operations["transaction"] = withAdmin(describeTransaction)
	operations["read_to_the_end"] = readToTheEnd
	operations["copy_exactly_once"] = copyExactlyOnce
}

func openProducer(ctx context.Context, q *question) (any, error) {
	client, err := newClient(
		q.Bootstrap,
		kgo.TransactionalID(q.TransactionalID),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.RecordDeliveryTimeout(deadline),
	)
	if err != nil {
		return nil, err
	}
	producers[q.Producer] = client
	_, _, err = client.ProducerID(ctx) // as initTransactions of Java: fences now, and not with the first record
	return nil, err
}

func sendInTransaction(ctx context.Context, q *question) (any, error) {
	var partition int32
	if err := json.Unmarshal(q.Partition, &partition); err != nil {
		return nil, err
	}
	record := &kgo.Record{Topic: q.Topic, Partition: partition, Value: []byte(q.Value)}
	sent := producers[q.Producer].ProduceSync(ctx, record)
	return record.Offset, sent.FirstErr()
}

func describeTransaction(ctx context.Context, admin *kadm.Client, q *question) (any, error) {
	described, err := admin.DescribeTransactions(ctx, q.TransactionalID)
	if err != nil {
		return nil, err
	}
	one := described[q.TransactionalID]
	return map[string]any{"state": one.State, "epoch": one.ProducerEpoch}, one.Err
}

// Keys and values of each partition up to its end, as the isolation level has it.
func readToTheEnd(ctx context.Context, q *question) (any, error) {
	level, ends := kgo.ReadCommitted(), (*kadm.Client).ListCommittedOffsets
	if q.Isolation == "read_uncommitted" {
		level, ends = kgo.ReadUncommitted(), (*kadm.Client).ListEndOffsets
	}
	client, err := newClient(
		q.Bootstrap, kgo.ConsumeTopics(q.Topic), kgo.FetchIsolationLevel(level), kgo.KeepControlRecords(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(100*time.Millisecond),
	)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	listed, err := ends(kadm.NewClient(client), ctx, q.Topic)
	if err != nil {
		return nil, err
	}
	return readUntil(ctx, client, q.Topic, listed)
}

// Markers are kept by the client and dropped here: the end of a partition is a position, not a record.
func readUntil(ctx context.Context, client *kgo.Client, topic string, ends kadm.ListedOffsets) (any, error) {
	found, left := map[int32][][2]*string{}, map[int32]int64{}
	for partition, end := range ends[topic] {
		found[partition] = [][2]*string{}
		if end.Offset > 0 {
			left[partition] = end.Offset
		}
	}
	for len(left) > 0 {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			return nil, fmt.Errorf("the ends %v were not reached", left)
		}
		for _, failure := range fetches.Errors() {
			return nil, failure.Err
		}
		fetches.EachRecord(func(record *kgo.Record) {
			if !record.Attrs.IsControl() {
				found[record.Partition] = append(found[record.Partition], [2]*string{text(record.Key), text(record.Value)})
			}
			if record.Offset+1 >= left[record.Partition] {
				delete(left, record.Partition)
			}
		})
	}
	return found, nil
}

func text(data []byte) *string {
	if data == nil {
		return nil
	}
	found := string(data)
	return &found
}

// Copy records of a topic to another one, offsets in the same transaction, until this many were committed.
func copyExactlyOnce(ctx context.Context, q *question) (any, error) {
	session, err := kgo.NewGroupTransactSession(
		kgo.SeedBrokers(q.Bootstrap),
		kgo.ClientID("franz-go"),
		kgo.TransactionalID(q.TransactionalID),
		kgo.ConsumerGroup(q.Group),
		kgo.ConsumeTopics(q.Topic),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.RequireStableFetchOffsets(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchMaxWait(100*time.Millisecond),
		kgo.RecordDeliveryTimeout(deadline),
	)
	if err != nil {
		return nil, err
	}
	defer session.Close()
	copied := 0
	for copied < q.Count {
		fetches := session.PollRecords(ctx, min(3, q.Count-copied))
		if ctx.Err() != nil {
			return nil, fmt.Errorf("franz-go copied %d of %d records", copied, q.Count)
		}
		for _, failure := range fetches.Errors() {
			return nil, failure.Err
		}
		polled := fetches.Records()
		if len(polled) == 0 {
			continue
		}
		committed, err := copyInTransaction(ctx, session, q.To, polled)
		if err != nil {
			return nil, err
		}
		if committed {
			copied += len(polled)
		}
	}
	return copied, nil
}

func copyInTransaction(ctx context.Context, session *kgo.GroupTransactSession, to string, polled []*kgo.Record) (bool, error) {
	if err := session.Begin(); err != nil {
		return false, err
	}
	for _, record := range polled {
		session.Produce(ctx, &kgo.Record{Topic: to, Key: record.Key, Value: record.Value}, nil)
	}
	return session.End(ctx, kgo.TryCommit)
}
