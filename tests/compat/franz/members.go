// Members of groups that are franz-go clients: the words of tests/clients/groups/model.py. Each has a goroutine that
// polls. franz-go joins, heartbeats and rebalances beside it, so a member that is held is still a member.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const pollWait = 20 * time.Millisecond

type membership struct {
	Member              string      `json:"member"`
	Group               string      `json:"group"`
	Topics              []string    `json:"topics"`
	Pattern             *string     `json:"pattern"`
	Assignors           []string    `json:"assignors"`
	InstanceID          *string     `json:"instance_id"`
	SessionTimeoutMs    int64       `json:"session_timeout_ms"`
	HeartbeatIntervalMs int64       `json:"heartbeat_interval_ms"`
	MaxPollIntervalMs   int64       `json:"max_poll_interval_ms"`
	MetadataMaxAgeMs    int64       `json:"metadata_max_age_ms"`
	Commits             string      `json:"commits"`
	Reset               string      `json:"reset"`
	MaxPollRecords      int         `json:"max_poll_records"`
	Journal             *string     `json:"journal"`
	Seen                int         `json:"seen"`
	Offsets             []offsetRow `json:"offsets"`
	IsAsync             bool        `json:"is_async"`
	Offset              int64       `json:"offset"`
}

// A topic and a partition.
type place struct {
	topic     string
	partition int32
}

func (p *place) UnmarshalJSON(data []byte) error {
	return json.Unmarshal(data, &[]any{&p.topic, &p.partition})
}

func (p place) MarshalJSON() ([]byte, error) {
	return json.Marshal([]any{p.topic, p.partition})
}

// A topic, a partition, an offset and the metadata of a commit.
type offsetRow struct {
	place
	offset   int64
	metadata *string
}

func (o *offsetRow) UnmarshalJSON(data []byte) error {
	return json.Unmarshal(data, &[]any{&o.topic, &o.partition, &o.offset, &o.metadata})
}

func (o offsetRow) MarshalJSON() ([]byte, error) {
	return json.Marshal([]any{o.topic, o.partition, o.offset, o.metadata})
}

var balancers = map[string]func() kgo.GroupBalancer{
	"range":              kgo.RangeBalancer,
	"roundrobin":         kgo.RoundRobinBalancer,
	"sticky":             kgo.StickyBalancer,
	"cooperative-sticky": kgo.CooperativeStickyBalancer,
}

type event struct {
	kind   string
	places []place
}

func (e event) MarshalJSON() ([]byte, error) { return json.Marshal([]any{e.kind, e.places}) }

type consumed struct {
	place
	offset int64
	value  string
}

func (c consumed) MarshalJSON() ([]byte, error) {
	return json.Marshal([]any{c.topic, c.partition, c.offset, c.value})
}

type member struct {
	q      *question
	client *kgo.Client
	admin  *kadm.Client
	stop   context.CancelFunc
	ended  chan struct{}

	mutex      sync.Mutex
	isHeld     bool
	assignment map[place]bool
	records    []consumed
	events     []event
	errors     []string
}

var members = map[string]*member{}

func init() {
	operations["join"] = join
	operations["leave"] = leave
	operations["look"] = func(_ context.Context, q *question) (any, error) { return members[q.Member].look(q.Seen), nil }
	operations["hold"] = func(_ context.Context, q *question) (any, error) { return members[q.Member].hold(true) }
	operations["go_on"] = func(_ context.Context, q *question) (any, error) { return members[q.Member].hold(false) }
	operations["commit"] = func(ctx context.Context, q *question) (any, error) { return nil, members[q.Member].commit(ctx, q) }
	operations["committed"] = func(ctx context.Context, q *question) (any, error) { return members[q.Member].committed(ctx, q) }
	operations["pause"] = func(_ context.Context, q *question) (any, error) {
		members[q.Member].client.PauseFetchPartitions(places(q))
		return nil, nil
	}
	operations["resume"] = func(_ context.Context, q *question) (any, error) {
		members[q.Member].client.ResumeFetchPartitions(places(q))
		return nil, nil
	}
	operations["seek"] = seek
}

func asked(q *question) []place {
	var found []place
	if err := json.Unmarshal(q.Partitions, &found); err != nil {
		return nil
	}
	return found
}

func places(q *question) map[string][]int32 {
	found := map[string][]int32{}
	for _, one := range asked(q) {
		found[one.topic] = append(found[one.topic], one.partition)
	}
	return found
}

func milliseconds(count int64) time.Duration { return time.Duration(count) * time.Millisecond }

func join(ctx context.Context, q *question) (any, error) {
	m := &member{q: q, assignment: map[place]bool{}, ended: make(chan struct{})}
	options, err := m.options(ctx)
	if err != nil {
		return nil, err
	}
	if m.client, err = newClient(q.Bootstrap, options...); err != nil {
		return nil, err
	}
	m.admin = kadm.NewClient(m.client)
	members[q.Member] = m
	polling, stop := context.WithCancel(context.Background())
	m.stop = stop
	go m.run(polling)
	return nil, nil
}

func (m *member) options(ctx context.Context) ([]kgo.Opt, error) {
	reset := kgo.NewOffset().AtStart()
	if m.q.Reset == "latest" {
		reset = kgo.NewOffset().AtEnd()
	}
	options := []kgo.Opt{
		kgo.ConsumeResetOffset(reset),
		kgo.MetadataMaxAge(milliseconds(m.q.MetadataMaxAgeMs)),
		kgo.FetchMaxWait(100 * time.Millisecond),
	}
	if assigned := asked(m.q); len(assigned) > 0 {
		starts, err := m.committedStarts(ctx, assigned, reset)
		return append(options, kgo.ConsumePartitions(starts)), err
	}
	if m.q.Pattern != nil {
		options = append(options, kgo.ConsumeRegex(), kgo.ConsumeTopics(*m.q.Pattern))
	} else {
		options = append(options, kgo.ConsumeTopics(m.q.Topics...))
	}
	return append(options, m.groupOptions()...), nil
}

func (m *member) groupOptions() []kgo.Opt {
	var chosen []kgo.GroupBalancer
	for _, name := range m.q.Assignors {
		chosen = append(chosen, balancers[name]())
	}
	options := []kgo.Opt{
		kgo.ConsumerGroup(m.q.Group),
		kgo.Balancers(chosen...),
		kgo.SessionTimeout(milliseconds(m.q.SessionTimeoutMs)),
		kgo.HeartbeatInterval(milliseconds(m.q.HeartbeatIntervalMs)),
		kgo.RebalanceTimeout(milliseconds(m.q.MaxPollIntervalMs)),
		kgo.OnPartitionsAssigned(m.hear("assigned")),
		kgo.OnPartitionsRevoked(m.hear("revoked")),
		kgo.OnPartitionsLost(m.hear("lost")),
	}
	if m.q.InstanceID != nil {
		options = append(options, kgo.InstanceID(*m.q.InstanceID))
	}
	if m.q.Commits == "auto" {
		return append(options, kgo.AutoCommitInterval(100*time.Millisecond))
	}
	return append(options, kgo.DisableAutoCommit())
}

// Where a consumer without membership starts: a client of its own is asked, since the options make the member's.
func (m *member) committedStarts(ctx context.Context, assigned []place, reset kgo.Offset) (map[string]map[int32]kgo.Offset, error) {
	client, err := newClient(m.q.Bootstrap)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	found, err := kadm.NewClient(client).FetchOffsets(ctx, m.q.Group)
	if err != nil {
		return nil, err
	}
	starts := map[string]map[int32]kgo.Offset{}
	for _, one := range assigned {
		if starts[one.topic] == nil {
			starts[one.topic] = map[int32]kgo.Offset{}
		}
		start := reset
		if known, is := found.Lookup(one.topic, one.partition); is && known.At >= 0 {
			start = kgo.NewOffset().At(known.At)
		}
		starts[one.topic][one.partition] = start
		m.assignment[one] = true
	}
	return starts, nil
}

func (m *member) hear(kind string) func(context.Context, *kgo.Client, map[string][]int32) {
	return func(ctx context.Context, client *kgo.Client, told map[string][]int32) {
		if kind == "revoked" && m.q.Commits == "auto" {
			// An application that listens commits by itself: so franz-go's documentation has it.
			if err := client.CommitUncommittedOffsets(ctx); err != nil {
				m.fail(err)
			}
		}
		m.mutex.Lock()
		defer m.mutex.Unlock()
		heard := event{kind, []place{}}
		for topic, partitions := range told {
			for _, partition := range partitions {
				one := place{topic, partition}
				heard.places = append(heard.places, one)
				if kind == "assigned" {
					m.assignment[one] = true
				} else {
					delete(m.assignment, one)
				}
			}
		}
		m.events = append(m.events, heard)
	}
}

func (m *member) hold(isHeld bool) (any, error) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.isHeld = isHeld
	return nil, nil
}

func (m *member) run(polling context.Context) {
	defer close(m.ended)
	for polling.Err() == nil {
		m.mutex.Lock()
		isHeld := m.isHeld
		m.mutex.Unlock()
		if isHeld {
			time.Sleep(pollWait)
			continue
		}
		m.turn(polling)
	}
}

func (m *member) turn(polling context.Context) {
	wait, cancel := context.WithTimeout(polling, pollWait)
	fetches := m.client.PollRecords(wait, m.q.MaxPollRecords)
	cancel()
	for _, failure := range fetches.Errors() {
		if !errors.Is(failure.Err, context.DeadlineExceeded) && !errors.Is(failure.Err, context.Canceled) {
			m.fail(failure.Err)
		}
	}
	polled := fetches.Records()
	m.keep(polled)
	if m.q.Commits == "each" && len(polled) > 0 {
		m.commitPolled(polled)
	}
}

func (m *member) keep(polled []*kgo.Record) {
	for _, record := range polled {
		m.write(fmt.Sprintf("got %d %d %s", record.Partition, record.Offset, record.Value))
	}
	m.mutex.Lock()
	defer m.mutex.Unlock()
	for _, record := range polled {
		m.records = append(m.records, consumed{place{record.Topic, record.Partition}, record.Offset, string(record.Value)})
	}
}

func (m *member) commitPolled(polled []*kgo.Record) {
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	if err := m.client.CommitRecords(ctx, polled...); err != nil {
		m.fail(err)
		return
	}
	ends := map[int32]int64{}
	for _, record := range polled {
		ends[record.Partition] = max(ends[record.Partition], record.Offset+1)
	}
	for partition, end := range ends {
		m.write(fmt.Sprintf("committed %d %d", partition, end))
	}
}

func (m *member) write(line string) {
	if m.q.Journal == nil {
		return
	}
	file, err := os.OpenFile(*m.q.Journal, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		m.fail(err)
		return
	}
	defer file.Close()
	fmt.Fprintln(file, line)
}

func (m *member) fail(err error) {
	said := codeOf(err)
	if said == "" {
		said = err.Error()
	}
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if len(m.errors) == 0 || m.errors[len(m.errors)-1] != said {
		m.errors = append(m.errors, said)
	}
}

func (m *member) look(seen int) any {
	id, _ := m.client.GroupMetadata()
	m.mutex.Lock()
	defer m.mutex.Unlock()
	owned := []place{}
	for one := range m.assignment {
		owned = append(owned, one)
	}
	return map[string]any{
		"member_id":  id,
		"assignment": owned,
		"records":    append([]consumed{}, m.records[seen:]...),
		"events":     append([]event{}, m.events...),
		"errors":     append([]string{}, m.errors...),
	}
}

// The offsets that a commit is about: those of the question, or after the last records that were polled.
func (m *member) wanted(q *question) []offsetRow {
	if q.Offsets != nil {
		return q.Offsets
	}
	m.mutex.Lock()
	defer m.mutex.Unlock()
	last := map[place]int64{}
	for _, record := range m.records {
		last[record.place] = record.offset + 1
	}
	var found []offsetRow
	for where, offset := range last {
		found = append(found, offsetRow{where, offset, nil})
	}
	return found
}

func (m *member) commit(ctx context.Context, q *question) error {
	wanted := m.wanted(q)
	if len(asked(m.q)) > 0 {
		return m.commitFromOutside(ctx, wanted)
	}
	offsets := map[string]map[int32]kgo.EpochOffset{}
	metadata := map[place]*string{}
	for _, one := range wanted {
		if offsets[one.topic] == nil {
			offsets[one.topic] = map[int32]kgo.EpochOffset{}
		}
		offsets[one.topic][one.partition] = kgo.EpochOffset{Epoch: -1, Offset: one.offset}
		metadata[one.place] = one.metadata
	}
	ctx = kgo.PreCommitFnContext(ctx, func(request *kmsg.OffsetCommitRequest) error {
		for i := range request.Topics {
			topic := &request.Topics[i]
			for j := range topic.Partitions {
				topic.Partitions[j].Metadata = metadata[place{topic.Topic, topic.Partitions[j].Partition}]
			}
		}
		return nil
	})
	if q.IsAsync {
		m.client.CommitOffsets(context.WithoutCancel(ctx), offsets, nil)
		return nil
	}
	var refused error
	m.client.CommitOffsetsSync(ctx, offsets, func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, response *kmsg.OffsetCommitResponse, err error) {
		refused = firstError(response, err)
	})
	return refused
}

func firstError(response *kmsg.OffsetCommitResponse, err error) error {
	if err != nil || response == nil {
		return err
	}
	for _, topic := range response.Topics {
		for _, partition := range topic.Partitions {
			if err := kerr.ErrorForCode(partition.ErrorCode); err != nil {
				return err
			}
		}
	}
	return nil
}

func (m *member) commitFromOutside(ctx context.Context, wanted []offsetRow) error {
	return committedFromOutside(ctx, m.admin, m.q.Group, wanted)
}

func (m *member) committed(ctx context.Context, q *question) (any, error) {
	found, err := m.admin.FetchOffsets(ctx, m.q.Group)
	if err != nil {
		return nil, err
	}
	rows := []offsetRow{}
	for _, one := range asked(q) {
		nothing := ""
		row := offsetRow{one, -1, &nothing}
		if known, is := found.Lookup(one.topic, one.partition); is {
			row.offset, row.metadata = known.At, &known.Metadata
		}
		rows = append(rows, row)
	}
	return rows, nil
}

func seek(_ context.Context, q *question) (any, error) {
	var where place
	if err := json.Unmarshal(q.Partition, &where); err != nil {
		return nil, err
	}
	to := kgo.EpochOffset{Epoch: -1, Offset: q.Offset}
	members[q.Member].client.SetOffsets(map[string]map[int32]kgo.EpochOffset{where.topic: {where.partition: to}})
	return nil, nil
}

func leave(_ context.Context, q *question) (any, error) {
	m := members[q.Member]
	m.stop()
	<-m.ended
	m.client.Close()
	return nil, nil
}
