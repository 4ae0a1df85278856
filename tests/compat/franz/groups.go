// Groups from outside, through franz-go's admin client: the words of tests/clients/groups/admin.py.
package main

import (
	"context"

	"github.com/twmb/franz-go/pkg/kadm"
)

func init() {
	operations["list_groups"] = withAdmin(listGroups)
	operations["describe_group"] = withAdmin(describeGroup)
	operations["delete_group"] = withAdmin(deleteGroup)
	operations["group_offsets"] = withAdmin(groupOffsets)
	operations["alter_group_offsets"] = withAdmin(alterGroupOffsets)
	operations["delete_group_offsets"] = withAdmin(deleteGroupOffsets)
	operations["remove_instance"] = withAdmin(removeInstance)
}

func listGroups(ctx context.Context, admin *kadm.Client, _ *question) (any, error) {
	listed, err := admin.ListGroups(ctx)
	states := map[string]string{}
	for name, group := range listed {
		states[name] = group.State
	}
	return states, err
}

func describeGroup(ctx context.Context, admin *kadm.Client, q *question) (any, error) {
	described, err := admin.DescribeGroups(ctx, q.Group)
	if err != nil {
		return nil, err
	}
	group := described[q.Group]
	if group.Err != nil {
		return nil, group.Err
	}
	found := []map[string]any{}
	for _, one := range group.Members {
		owned := []place{}
		if assigned, is := one.Assigned.AsConsumer(); is {
			for _, topic := range assigned.Topics {
				for _, partition := range topic.Partitions {
					owned = append(owned, place{topic.Topic, partition})
				}
			}
		}
		found = append(found, map[string]any{
			"member_id": one.MemberID, "instance_id": one.InstanceID, "client_id": one.ClientID,
			"host": one.ClientHost, "assignment": owned,
		})
	}
	return map[string]any{"state": group.State, "protocol": group.Protocol, "members": found}, nil
}

func deleteGroup(ctx context.Context, admin *kadm.Client, q *question) (any, error) {
	deleted, err := admin.DeleteGroup(ctx, q.Group)
	if err == nil {
		err = deleted.Err
	}
	return nil, err
}

func groupOffsets(ctx context.Context, admin *kadm.Client, q *question) (any, error) {
	found, err := admin.FetchOffsets(ctx, q.Group)
	rows := []offsetRow{}
	found.Each(func(one kadm.OffsetResponse) {
		metadata := one.Metadata
		rows = append(rows, offsetRow{place{one.Topic, one.Partition}, one.At, &metadata})
	})
	return rows, err
}

func alterGroupOffsets(ctx context.Context, admin *kadm.Client, q *question) (any, error) {
	return nil, committedFromOutside(ctx, admin, q.Group, q.Offsets)
}

func committedFromOutside(ctx context.Context, admin *kadm.Client, group string, rows []offsetRow) error {
	offsets := kadm.Offsets{}
	for _, one := range rows {
		offset := kadm.Offset{Topic: one.topic, Partition: one.partition, At: one.offset, LeaderEpoch: -1}
		if one.metadata != nil {
			offset.Metadata = *one.metadata
		}
		offsets.Add(offset)
	}
	return admin.CommitAllOffsets(ctx, group, offsets)
}

func deleteGroupOffsets(ctx context.Context, admin *kadm.Client, q *question) (any, error) {
	unwanted := kadm.TopicsSet{}
	for _, one := range asked(q) {
		unwanted.Add(one.topic, one.partition)
	}
	deleted, err := admin.DeleteOffsets(ctx, q.Group, unwanted)
	if err == nil {
		err = deleted.Error()
	}
	return nil, err
}

func removeInstance(ctx context.Context, admin *kadm.Client, q *question) (any, error) {
	left, err := admin.LeaveGroup(ctx, kadm.LeaveGroup(q.Group).InstanceIDs(*q.InstanceID))
	if err == nil {
		err = left.Error()
	}
	return nil, err
}
