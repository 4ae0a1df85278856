package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
)

func createTopic(ctx context.Context, admin *kadm.Client, q *question) (any, error) {
	var partitions int32
	if err := json.Unmarshal(q.Partitions, &partitions); err != nil {
		return nil, err
	}
	created, err := admin.CreateTopic(ctx, partitions, q.Replication, q.Configs, q.Topic)
	if err == nil {
		err = created.Err
	}
	return nil, err
}

func deleteTopic(ctx context.Context, admin *kadm.Client, q *question) (any, error) {
	deleted, err := admin.DeleteTopic(ctx, q.Topic)
	if err == nil {
		err = deleted.Err
	}
	return nil, err
}

func describeTopic(ctx context.Context, admin *kadm.Client, q *question) (any, error) {
	topics, err := admin.ListTopics(ctx, q.Topic)
	if err != nil {
		return nil, err
	}
	if err := topics[q.Topic].Err; err != nil {
		return nil, err
	}
	leaders := [][2]int32{}
	for _, one := range topics[q.Topic].Partitions.Sorted() {
		leaders = append(leaders, [2]int32{one.Partition, one.Leader})
	}
	return leaders, nil
}

func addPartitions(ctx context.Context, admin *kadm.Client, q *question) (any, error) {
	updated, err := admin.UpdatePartitions(ctx, q.Total, q.Topic)
	if err == nil {
		err = updated.Error()
	}
	return nil, err
}

func describeConfigs(ctx context.Context, admin *kadm.Client, q *question) (any, error) {
	described, err := admin.DescribeTopicConfigs(ctx, q.Topic)
	if err != nil {
		return nil, err
	}
	rows := [][3]any{}
	for _, resource := range described {
		if resource.Err != nil {
			return nil, resource.Err
		}
		for _, one := range resource.Configs {
			rows = append(rows, [3]any{one.Key, one.Value, int8(one.Source)})
		}
	}
	return rows, nil
}

func changes(q *question) []kadm.AlterConfig {
	var found []kadm.AlterConfig
	for name, value := range q.Configs {
		operation := kadm.SetConfig
		if value == nil {
			operation = kadm.DeleteConfig
		}
		found = append(found, kadm.AlterConfig{Op: operation, Name: name, Value: value})
	}
	return found
}

func firstOf(altered kadm.AlterConfigsResponses, err error) (any, error) {
	for _, one := range altered {
		if err == nil {
			err = one.Err
		}
	}
	return nil, err
}

func alterConfigs(ctx context.Context, admin *kadm.Client, q *question) (any, error) {
	return firstOf(admin.AlterTopicConfigsState(ctx, changes(q), q.Topic))
}

func incrementalAlterConfigs(ctx context.Context, admin *kadm.Client, q *question) (any, error) {
	return firstOf(admin.AlterTopicConfigs(ctx, changes(q), q.Topic))
}

func deleteRecords(ctx context.Context, admin *kadm.Client, q *question) (any, error) {
	var partition int32
	if err := json.Unmarshal(q.Partition, &partition); err != nil {
		return nil, err
	}
	offsets := kadm.Offsets{}
	offsets.Add(kadm.Offset{Topic: q.Topic, Partition: partition, At: q.BeforeOffset, LeaderEpoch: -1})
	deleted, err := admin.DeleteRecords(ctx, offsets)
	if err != nil {
		return nil, err
	}
	one, known := deleted.Lookup(q.Topic, partition)
	if !known {
		return nil, fmt.Errorf("partition %d of %s does not exist", partition, q.Topic)
	}
	return one.LowWatermark, one.Err
}

func describeCluster(ctx context.Context, admin *kadm.Client, _ *question) (any, error) {
	cluster, err := admin.BrokerMetadata(ctx)
	if err != nil {
		return nil, err
	}
	nodes := [][3]any{}
	for _, one := range cluster.Brokers {
		nodes = append(nodes, [3]any{one.NodeID, one.Host, one.Port})
	}
	return map[string]any{"cluster_id": cluster.Cluster, "controller_id": cluster.Controller, "nodes": nodes}, nil
}

func logDirs(ctx context.Context, admin *kadm.Client, q *question) (any, error) {
	described, err := admin.DescribeAllLogDirs(ctx, nil)
	if err != nil {
		return nil, err
	}
	sizes := [][2]int64{}
	described.Each(func(directory kadm.DescribedLogDir) {
		directory.Topics.Each(func(one kadm.DescribedLogDirPartition) {
			if one.Topic == q.Topic {
				sizes = append(sizes, [2]int64{int64(one.Partition), one.Size})
			}
		})
	})
	return sizes, nil
}
