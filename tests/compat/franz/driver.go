// franz-go behind one line of JSON per question and per answer; the questions are those of tests/clients/model.py.
// Compiled by the test session that first needs it.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const deadline = 25 * time.Second

// Its own words, from its own copy of the metadata.
var unknownPartition = []string{"invalid record partitioning choice", "does not exist", "unknown topic"}

type message struct {
	Key         []byte       `json:"key"`
	Value       []byte       `json:"value"`
	Headers     []headerJSON `json:"headers"`
	TimestampMs *int64       `json:"timestamp_ms"`
}

type question struct {
	Op           string             `json:"op"`
	Bootstrap    string             `json:"bootstrap"`
	Topic        string             `json:"topic"`
	Messages     []message          `json:"messages"`
	Partition    json.RawMessage    `json:"partition"`
	Codec        string             `json:"codec"`
	Acks         string             `json:"acks"`
	Idempotent   bool               `json:"idempotent"`
	Start        json.RawMessage    `json:"start"`
	Spec         json.RawMessage    `json:"spec"`
	Count        int                `json:"count"`
	Partitions   json.RawMessage    `json:"partitions"`
	Replication  int16              `json:"replication"`
	Configs      map[string]*string `json:"configs"`
	Total        int                `json:"total"`
	BeforeOffset int64              `json:"before_offset"`
	membership
	transacting
	securing
}

type answer struct {
	Ok      any    `json:"ok"`
	Refused string `json:"refused,omitempty"`
	Failed  string `json:"failed,omitempty"`
	Message string `json:"message,omitempty"`
}

var operations = map[string]func(context.Context, *question) (any, error){
	"ping":                      func(context.Context, *question) (any, error) { return nil, nil },
	"produce":                   produce,
	"consume":                   consume,
	"create_topic":              withAdmin(createTopic),
	"delete_topic":              withAdmin(deleteTopic),
	"describe_topic":            withAdmin(describeTopic),
	"add_partitions":            withAdmin(addPartitions),
	"describe_configs":          withAdmin(describeConfigs),
	"alter_configs":             withAdmin(alterConfigs),
	"incremental_alter_configs": withAdmin(incrementalAlterConfigs),
	"delete_records":            withAdmin(deleteRecords),
	"list_offset":               withAdmin(listOffset),
	"describe_cluster":          withAdmin(describeCluster),
	"log_dirs":                  withAdmin(logDirs),
	"log_in":                    logIn,
}

func main() {
	questions := bufio.NewReaderSize(os.Stdin, 1<<20)
	answers := json.NewEncoder(os.Stdout)
	for {
		line, err := questions.ReadBytes('\n')
		if err != nil {
			return
		}
		if err := answers.Encode(answered(line)); err != nil {
			return
		}
	}
}

func answered(line []byte) any {
	var q question
	if err := json.Unmarshal(line, &q); err != nil {
		return answer{Failed: fmt.Sprintf("a question that cannot be read: %v", err)}
	}
	operation, known := operations[q.Op]
	if !known {
		return answer{Failed: "franz-go's driver has no operation " + q.Op}
	}
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	result, err := operation(ctx, &q)
	if err == nil {
		return map[string]any{"ok": result}
	}
	if code := codeOf(err); code != "" {
		return answer{Refused: code, Message: err.Error()}
	}
	return answer{Failed: err.Error()}
}

// The broker's word behind an error, if there is one.
func codeOf(err error) string {
	var refused *kerr.Error
	if errors.As(err, &refused) {
		return refused.Message
	}
	for _, words := range unknownPartition {
		if strings.Contains(err.Error(), words) {
			return kerr.UnknownTopicOrPartition.Message
		}
	}
	return ""
}

func newClient(bootstrap string, options ...kgo.Opt) (*kgo.Client, error) {
	base := []kgo.Opt{
		kgo.SeedBrokers(strings.Split(bootstrap, ",")...),
		kgo.ClientID("franz-go"),
		kgo.MetadataMinAge(20 * time.Millisecond),
		kgo.RetryTimeout(deadline),
	}
	return kgo.NewClient(append(base, options...)...)
}

func withAdmin(work func(context.Context, *kadm.Client, *question) (any, error)) func(context.Context, *question) (any, error) {
	return func(ctx context.Context, q *question) (any, error) {
		client, err := newClient(q.Bootstrap)
		if err != nil {
			return nil, err
		}
		defer client.Close()
		return work(ctx, kadm.NewClient(client), q)
	}
}
