"""Descriptions of the cluster, read from its metadata image.

cluster         Metadata, DescribeCluster, DescribeTopicPartitions
configs         DescribeConfigs, ListConfigResources
reassignments   ListPartitionReassignments
"""
